package sqlite

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// roleVariable makes the test binary another process of a test.
const roleVariable = "PAWL_SQLITE_TEST_ROLE"

// fact is a line that another process reports.
type fact struct {
	Appended []string      `json:",omitempty"` // ids; the call has returned
	Acked    []string      `json:",omitempty"` // ids; the call has returned
	Pickup   time.Duration `json:",omitempty"` // from append to claim
	CPU      time.Duration `json:",omitempty"`
	RSS      int64         `json:",omitempty"`
}

// role is what another process does with a file until ctx ends.
type role func(ctx context.Context, s *Store, report func(fact)) error

var roles = map[string]role{
	"worker":   beWorker,
	"producer": beProducer,
	"listener": beListener,
}

// ownRoles open the store themselves.
var ownRoles = map[string]func(path string) error{"filler": beFiller}

func TestMain(m *testing.M) {
	if name := os.Getenv(roleVariable); name != "" {
		play := func(path string) error { return beRole(roles[name], path) }
		if own := ownRoles[name]; own != nil {
			play = own
		}
		if err := play(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, name+":", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// beRole plays a role until standard input ends.
func beRole(r role, path string) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	s, err := Open(ctx, Config{Path: path})
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	report := func(f fact) { _ = out.Encode(f) }
	if err := r(ctx, s, report); err != nil && ctx.Err() == nil {
		return err
	}
	report(fact{CPU: cpuTime(), RSS: resident()})
	return s.Close()
}

func beProducer(ctx context.Context, s *Store, report func(fact)) error {
	for n := 0; ctx.Err() == nil; n++ {
		msgs := make([]pawl.Message, 1+n%20)
		for i := range msgs {
			msgs[i] = pawl.Message{Topic: "work", Body: []byte(time.Now().Format(time.RFC3339Nano))}
			if i%2 == 0 {
				msgs[i].Key = fmt.Appendf(nil, "key-%d", n%7)
			}
		}
		receipts, err := s.Append(ctx, store.NewBatch(msgs...))
		if err != nil {
			return err
		}
		var f fact
		for _, r := range receipts {
			f.Appended = append(f.Appended, r.ID)
		}
		report(f)
	}
	return nil
}

func beWorker(ctx context.Context, s *Store, report func(fact)) error {
	for ctx.Err() == nil {
		ds, err := s.Claim(ctx, []store.Want{{Topic: "work", Limit: 20}}, store.Lease{For: time.Minute})
		if err != nil {
			return err
		}
		var f fact
		var items []store.Settlement
		for i := range ds {
			items = append(items, store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Ack})
			f.Acked = append(f.Acked, ds[i].ID)
		}
		// What was claimed is settled, whatever happens: otherwise it stays leased.
		refused, err := s.Settle(context.WithoutCancel(ctx), store.NewBatch(items...))
		if err != nil {
			return err
		}
		if len(refused) > 0 {
			return fmt.Errorf("%d of %d refused: %w", len(refused), len(items), refused[0].Err)
		}
		if len(ds) > 0 {
			report(f)
		}
	}
	return nil
}

// beListener claims when it is woken, and never else.
func beListener(ctx context.Context, s *Store, report func(fact)) error {
	woken, err := s.Listen(ctx, "work")
	if err != nil {
		return err
	}
	report(fact{CPU: cpuTime()}) // ready
	for {
		select {
		case <-woken:
		case <-ctx.Done():
			return nil
		}
		ds, err := s.Claim(ctx, []store.Want{{Topic: "work", Limit: 10}}, store.Lease{For: time.Minute})
		if err != nil {
			return err
		}
		for i := range ds {
			at, err := time.Parse(time.RFC3339Nano, string(ds[i].Body))
			if err != nil {
				return err
			}
			report(fact{Pickup: time.Since(at), Acked: []string{ds[i].ID}})
		}
	}
}

// process is another process.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	facts chan fact // closed when it has ended
	errs  *strings.Builder
}

// start makes another process play a role. It is killed when the test ends.
func start(t testing.TB, name, path string) *process {
	t.Helper()
	p, err := startAs(t, name, path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func startAs(t testing.TB, name, path string, attr *syscall.SysProcAttr) (*process, error) {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0], path), facts: make(chan fact, 1<<16), errs: &strings.Builder{}}
	p.cmd.Env = append(os.Environ(), roleVariable+"="+name)
	p.cmd.Stderr = p.errs
	p.cmd.SysProcAttr = attr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.facts)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var f fact
			if json.Unmarshal(lines.Bytes(), &f) == nil { // the last line of one that was killed may be cut
				p.facts <- f
			}
		}
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	return p, nil
}

// reported waits until a process has reported something, and leaves it there for stop.
func (p *process) reported(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); len(p.facts) == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the other process has done nothing for a minute\n%s", p.errs)
		}
	}
}

// stop lets a process end, and returns what it has reported.
func (p *process) stop(t testing.TB) (all []fact) {
	t.Helper()
	_ = p.stdin.Close()
	for f := range p.facts {
		all = append(all, f)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("other process: %v\n%s", err, p.errs)
	}
	return all
}

func resident() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			return kb << 10
		}
	}
	return 0
}
