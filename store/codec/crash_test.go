//go:build unix

package codec_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// writerVariable makes the test binary a process that appends large bodies to the
// store in that folder, until it is killed.
const writerVariable = "PAWL_CODEC_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writerVariable); dir != "" {
		fmt.Fprintln(os.Stderr, "writer:", beWriter(dir, os.Args[1]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// largest is the size of the bodies: it takes a while to write one.
const largest = pawl.MaxBody

// beWriter appends one body after the other, and says the number of each when the
// call has returned.
func beWriter(dir, first string) error {
	n, err := strconv.ParseUint(first, 10, 32)
	if err != nil {
		return err
	}
	s, err := openDurable(context.Background(), dir, nil)
	if err != nil {
		return err
	}
	for ; ; n++ {
		if _, err := s.Append(context.Background(), store.NewBatch(msg(noise(largest, n)))); err != nil {
			return err
		}
		fmt.Println(n)
	}
}

// openDurable opens a codec over a store in files, all of it in dir.
func openDurable(ctx context.Context, dir string, report func(codec.Problem)) (*codec.Store, error) {
	inner, err := sqlite.Open(ctx, sqlite.Config{Path: filepath.Join(dir, "pawl.db"), Synchronous: sqlite.Normal})
	if err != nil {
		return nil, err
	}
	return codec.New(inner, codec.Config{Blobs: filepath.Join(dir, "blobs"), Offload: codec.MinOffload, Report: report})
}

// TestKilledWhileItWritesABody kills a process while it writes a body to the folder.
// Whatever is there under the name of a body is that body, every message that is
// there has its own, and none that was confirmed is missing. It goes on until enough
// kills came in the middle of a body.
func TestKilledWhileItWritesABody(t *testing.T) {
	const enough, tries = 3, 100
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	cut, confirmed := 0, 0
	for round := 0; round < tries && cut < enough; round++ {
		first := uint64(round * 1000)
		acks := killWriter(t, dir, first, random.IntN(3))
		confirmed += acks
		if cutShort(t, dir) {
			cut++
		}
		judgeAfterKill(t, dir, first, acks)
	}
	if cut < enough {
		t.Errorf("only %d of %d kills came in the middle of a body", cut, tries)
	}
	t.Logf("%d kills in the middle of a body, %d bodies confirmed before", cut, confirmed)
}

// killWriter starts a writer, lets it confirm so many bodies, and kills it as soon as
// one more file is in the folder. It returns how many were confirmed.
func killWriter(t *testing.T, dir string, first uint64, after int) (acks int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], strconv.FormatUint(first, 10))
	cmd.Env, cmd.Stderr = append(os.Environ(), writerVariable+"="+dir), os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for ; acks < after; acks++ {
		if !lines.Scan() {
			t.Fatalf("the writer ended after %d bodies", acks)
		}
	}
	before := len(allFiles(t, dir))
	for end := time.Now().Add(20 * time.Second); len(allFiles(t, dir)) <= before; {
		if time.Now().After(end) {
			t.Error("no further file came")
			break
		}
	}
	_ = cmd.Process.Kill()
	for lines.Scan() { // what it confirmed meanwhile
		acks++
	}
	_ = cmd.Wait()
	return acks
}

// allFiles are the files among the bodies, whatever their names, by their path.
func allFiles(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "blobs", "??", "??", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// cutShort reports whether a file has less than a body.
func cutShort(t *testing.T, dir string) bool {
	t.Helper()
	for _, name := range allFiles(t, dir) {
		if info, err := os.Stat(name); err != nil {
			t.Fatal(err)
		} else if info.Size() < largest {
			return true
		}
	}
	return false
}

// judgeAfterKill looks at what is left, carries out what is there, and leaves the
// folder empty.
func judgeAfterKill(t *testing.T, dir string, first uint64, acks int) {
	t.Helper()
	for _, name := range allFiles(t, dir) {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Base(name)
		if sum := sha256.Sum256(content); len(base) == 2*len(sum) && base != hex.EncodeToString(sum[:]) {
			t.Errorf("%s has %d bytes with another sum than its name", name, len(content))
		} else if len(base) != 2*len(sum) && !strings.HasSuffix(base, ".tmp") {
			t.Errorf("%s is no name that is known", name)
		}
	}
	s, err := openDurable(t.Context(), dir, func(p codec.Problem) { t.Errorf("%+v", p) })
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{TB: t, Store: s, blobs: filepath.Join(dir, "blobs")}
	n := claimWhole(r, first)
	if n < acks || n > acks+1 {
		t.Errorf("%d messages are there, %d were confirmed", n, acks)
	}
	r.put(msg(noise(largest, first+uint64(n)))) // the one that was cut short
	if claimWhole(r, first+uint64(n)) != 1 {
		t.Error("the body that was cut short cannot be appended again")
	}
	r.age(48*time.Hour, allFiles(t, dir)...)
	if _, err := s.Collect(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if left := allFiles(t, dir); len(left) > 0 {
		t.Errorf("nobody tidies %s", left)
	}
	r.must(s.Close())
}

// claimWhole carries out what is there, and returns how many there were. They have
// the bodies from the one with that number on.
func claimWhole(r *rig, first uint64) (n int) {
	r.Helper()
	for {
		ds := r.claimed(store.Want{Limit: 1})
		if len(ds) == 0 {
			return n
		}
		r.same(ds, noise(largest, first+uint64(n)))
		r.ack(ds...)
		n++
	}
}
