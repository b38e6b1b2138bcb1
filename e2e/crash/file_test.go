//go:build linux

package crash

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "modernc.org/sqlite" // to lock a file, and to damage it
)

// fileSite is a site in a folder that the caller chose.
func fileSite(dir string) *site {
	return &site{name: "sqlite", url: "sqlite:" + filepath.Join(dir, "pawl.db"), dir: dir}
}

// numbered renders messages with ids of their own.
func numbered(prefix string, n, size int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"id":"%s%d","key":"k%d","body":"%s"}`+"\n", prefix, i, i%20, strings.Repeat("x", size))
	}
	return b.String()
}

// TestFullDisk fills the file system under the store: a send fails clearly, what
// was counted is there, a worker waits it out, and all goes on with more room.
func TestFullDisk(t *testing.T) {
	beside(t, 10)
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=12m"); err != nil {
		t.Logf("no file system of its own (%v): the size of files is limited instead", err)
		limitedFiles(t, fileSite(dir))
		return
	}
	t.Cleanup(func() {
		if !within(5*time.Second, func() bool { return syscall.Unmount(dir, 0) == nil }) {
			t.Error("the file system cannot be unmounted")
		}
	})
	s := fileSite(dir)
	const topic = "full"
	folder := t.TempDir()
	worker := launch(t, s.env(), nil, nil, "work", topic, "--pipe", pipeCommand(folder, "-work", "5ms"),
		"--lease", "2s", "--concurrency", "2")
	eventually(t, 10*time.Second, "there is a store", func() bool {
		_, err := os.Stat(filepath.Join(dir, "pawl.db"))
		return err == nil
	})
	s.mustWith(t, strings.NewReader(numbered("before", 1000, 100)), "send", topic, "--jsonl")
	eventually(t, 10*time.Second, "work begins", func() bool { return len(started(t, folder)) > 50 })
	filler := filepath.Join(dir, "filler")
	fill(t, filler)
	r := s.run(t, strings.NewReader(numbered("during", 5000, 2000)), "send", topic, "--jsonl")
	clearly(t, r, []int{codeFailure, 4}, "space")
	time.Sleep(3 * time.Second) // longer than a lease; the worker cannot settle
	if !worker.alive() {
		t.Fatalf("the worker ended with the disk full: %v, %s", worker.cmd.ProcessState, worker.tail(2000))
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	s.mustWith(t, strings.NewReader(numbered("after", 50, 100)), "send", topic, "--jsonl")
	if !within(30*time.Second, func() bool {
		time.Sleep(100 * time.Millisecond)
		return s.topic(t,
			topic).open() == 0
	}) {
		t.Errorf("there is room again, and not all is carried out: %+v; %s", s.topic(t, topic), worker.tail(2000))
	}
	f := s.topic(t, topic)
	if seen := int64(len(started(t, folder))); f.AppendedTotal < 1050 || f.AckedTotal != f.AppendedTotal ||
		seen != f.AppendedTotal {
		t.Errorf("workers saw %d, at least 1050 were confirmed: %+v", seen, f)
	}
	t.Logf("full disk under a worker: a send ends with %d after %v; with room again all %d are acked", r.code,
		r.took.Round(time.Millisecond), f.AckedTotal)
}

// fill writes a file until the file system is full.
func fill(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	block := make([]byte, 4096)
	for {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// TestLimitedFiles lets no file become larger than half a megabyte.
func TestLimitedFiles(t *testing.T) { limitedFiles(t, sqliteSite(t)) }

func limitedFiles(t *testing.T, s *site) {
	const topic = "limited"
	s.mustWith(t, strings.NewReader(numbered("before", 10, 100)), "send", topic, "--jsonl")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", `ulimit -f 1024; exec "$0" "$@"`, os.Getenv(envPawl), "send",
		topic, "--jsonl")
	cmd.Env = append(os.Environ(), s.env()...)
	cmd.Stdin = strings.NewReader(numbered("during", 5000, 1000))
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); ctx.Err() != nil {
		t.Fatalf("it did not end within a minute (%v): %s", err, stderr.String())
	}
	r := result{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String()}
	clearly(t, r, []int{codeFailure, 4})
	before := s.topic(t, topic).AppendedTotal
	s.mustWith(t, strings.NewReader(numbered("after", 10, 100)), "send", topic, "--jsonl")
	if got := s.topic(t, topic).AppendedTotal; before < 10 || got != before+10 {
		t.Errorf("%d are there, %d were before", got, before)
	}
}

// TestCorruptFile damages the file in several ways. A command says so, and does
// not make it worse.
func TestCorruptFile(t *testing.T) {
	beside(t, 10)
	for name, damage := range map[string]func(data []byte) []byte{
		"a text":          func([]byte) []byte { return []byte(strings.Repeat("This is not a database.\n", 500)) },
		"header gone":     func(data []byte) []byte { copy(data, make([]byte, 100)); return data },
		"cut off":         func(data []byte) []byte { return data[:len(data)/3] },
		"pages trampled":  func(data []byte) []byte { trample(data, 4096); return data },
		"some of another": func(data []byte) []byte { return []byte("SQLite format 3\x00") },
	} {
		t.Run(name, func(t *testing.T) { corruptFile(t, damage) })
	}
}

// trample overwrites everything from there on.
func trample(data []byte, from int) {
	for i := from; i < len(data); i++ {
		data[i] = byte(i * 31)
	}
}

func corruptFile(t *testing.T, damage func([]byte) []byte) {
	s := sqliteSite(t)
	path := filepath.Join(s.dir, "pawl.db")
	s.mustWith(t, strings.NewReader(numbered("m", 2000, 300)), "send", "corrupt", "--jsonl")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, rest := range []string{"-wal", "-shm"} {
		if err := os.Remove(path + rest); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, damage(data), 0o600); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, args := range [][]string{
		{"topics", "ls"}, {"send", "corrupt", "x"}, {"messages", "ls", "--topic", "corrupt"},
		{"work", "corrupt", "--exec", "true", "--until-empty"},
	} {
		// Damage that a command does not come across it need not notice.
		if r := s.run(t, nil, args...); r.code != 0 {
			failed++
			r.stderr = lastLines(r.stderr, 3)
			clearly(t, r, []int{codeFailure, codeConflict})
			if !strings.Contains(r.stderr, "damaged") && !strings.Contains(r.stderr, "not an SQLite database") {
				t.Errorf("%v does not say that the file is damaged: %v", args, r)
			}
		}
	}
	if failed == 0 {
		t.Error("no command noticed")
	}
}

// lastLines are the last lines of a text.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// TestLockedFile holds a write transaction open: a send says what it waits for, and
// succeeds when the lock is gone; who gives up gets an exit code.
func TestLockedFile(t *testing.T) {
	beside(t, 10)
	s := sqliteSite(t)
	const topic = "locked"
	s.must(t, "send", topic, "before")
	db, err := sql.Open("sqlite", filepath.Join(s.dir, "pawl.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if r := s.run(t, nil, "topics", "ls"); r.code != 0 || r.took > 3*time.Second {
		t.Errorf("who only reads need not wait: %v", r)
	}
	patient := launch(t, s.env(), nil, nil, "send", topic, "patient")
	ended := launch(t, s.env(), nil, nil, "send", topic, "impatient")
	time.Sleep(time.Second)
	ended.signal(syscall.SIGTERM)
	if code := ended.wait(t, 15*time.Second); code != 130 && code != 143 {
		t.Errorf("who was asked to end while it waits for a lock ends with %d, want 130: %s", code, ended.tail(1000))
	}
	if !within(20*time.Second, func() bool {
		return !patient.alive() ||
			strings.Contains(patient.tail(2000), "locked")
	}) {
		t.Errorf("a send that waits does not say for what: %q", patient.tail(2000))
	}
	if _, err := conn.ExecContext(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if patient.alive() {
		if code := patient.wait(t, 15*time.Second); code != 0 {
			t.Errorf("the lock is gone, and the send failed with %d: %s", code, patient.tail(1000))
		}
	} else if code := patient.cmd.ProcessState.ExitCode(); code != 0 {
		clearly(t, result{code: code, stderr: lastLines(patient.tail(2000), 3)}, []int{codeFailure}, "locked")
	}
	want := int64(1)
	if patient.cmd.ProcessState.Success() {
		want++
	}
	if got := s.topic(t, topic).AppendedTotal; got != want {
		t.Errorf("%d messages, want %d", got, want)
	}
}

// TestNoAccess uses files and folders that are not there or not to be had.
func TestNoAccess(t *testing.T) {
	beside(t, 10)
	dir := t.TempDir()
	clearly(t, fileSite(filepath.Join(dir, "missing")).run(t, nil, "send", "t", "x"),
		[]int{codeFailure, codeUsage, 6}, "missing")
	clearly(t, (&site{url: "sqlite:" + dir}).run(t, nil, "send", "t", "x"), []int{codeFailure, codeUsage}, "folder")
	for _, url := range []string{"nonsense:abc", "pawl.db", "sqlite:", "postgres://127.0.0.1:notaport/x",
		"sqlite:x.db?bogus=1", "mysql://x/y", "postgres://[::1/x"} {
		t.Run(url, func(t *testing.T) { clearly(t, (&site{url: url}).run(t, nil, "send", "t", "x"), []int{codeUsage}) })
	}
}
