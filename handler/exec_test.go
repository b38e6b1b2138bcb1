package handler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/handler/exec"
	"github.com/pawl-dev/pawl/policy"
)

func newLauncher(t testing.TB) *handler.Launcher {
	t.Helper()
	l, err := handler.NewLauncher()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// buffer is a writer that tests read from while others write.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// eventually polls until ok, for up to ten seconds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(30 * time.Second); !ok(); {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("after 30s: %s", what)
		}
	}
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

func readPids(t testing.TB, file string, n int) []int {
	t.Helper()
	var pids []int
	eventually(t, "the program tells its process ids", func() bool {
		text, _ := os.ReadFile(file)
		pids = pids[:0]
		for f := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				return false
			}
			pids = append(pids, pid)
		}
		return len(pids) == n
	})
	return pids
}

func delivery(id, body string) *pawl.Delivery {
	return &pawl.Delivery{
		Message: pawl.Message{ID: id, Topic: "t", Body: []byte(body)}, Attempt: 1,
		Token: pawl.Token{Fence: int64(len(id)) + 7, Lane: 1, Seq: int64(len(body))}, Deadline: time.Minute,
	}
}

func TestExecHandsOverTheDelivery(t *testing.T) {
	var out buffer
	e := exec.New(exec.Config{Launcher: newLauncher(t),
		Command: `printf '%s\n' "$PAWL_ID|$PAWL_TOPIC|$PAWL_KEY|$PAWL_KEY_BASE64|$PAWL_ATTEMPT|$PAWL_TOKEN|$PAWL_TRACEPARENT|$PAWL_HEADERS|$PAWL_LAST_ATTEMPT|${PAWL_DEADLINE%T*}"; cat`,
		Stdout:  handler.NewOutput(&out, nil)})
	d := delivery("m1", "a body\nof two lines")
	d.Key, d.Attempt, d.Headers = []byte("k\xff"), 3, map[string]string{"traceparent": "00-1-2-01", "b": "\x00\""}
	t.Setenv("PAWL_KEY_BASE64", "of somebody else")
	ctx, cancel := context.WithDeadline(t.Context(), time.Unix(1<<31, 0))
	defer cancel()
	if err := e.Handle(ctx, d); err != nil {
		t.Fatal(err)
	}
	d.Key, d.Body = []byte("k\x00"), nil
	if err := e.Handle(ctx, d); err != nil {
		t.Fatal(err)
	}
	fields := "|3|" + d.Token.String() + `|00-1-2-01|{"b":"\u0000\"","traceparent":"00-1-2-01"}|false|2038-01-19` + "\n"
	want := strings.Replace("m1|t|k\xff|"+fields, d.Token.String(),
		delivery("m1", "a body\nof two lines").Token.String(), 1) + "a body\nof two lines\n" + "m1|t||awA=" + fields
	if got := out.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestProgramsDoNotSpeakForTheDaemon: to the service manager, whatever has its socket
// is the daemon.
func TestProgramsDoNotSpeakForTheDaemon(t *testing.T) {
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID",
		"LISTEN_FDNAMES"} {
		t.Setenv(name, "the daemon's")
	}
	t.Setenv("OF_ITS_OWN", "kept")
	var out buffer
	e := exec.New(exec.Config{Launcher: newLauncher(t),
		Command: `printf '%s\n' "$OF_ITS_OWN|$NOTIFY_SOCKET|$WATCHDOG_USEC|$WATCHDOG_PID|$LISTEN_FDS|$LISTEN_PID|$LISTEN_FDNAMES"`,
		Stdout:  handler.NewOutput(&out, nil)})
	if err := e.Handle(t.Context(), delivery("m1", "")); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "kept||||||\n" {
		t.Errorf("a program has %q", got)
	}
}

func TestExecVerdicts(t *testing.T) {
	l := newLauncher(t)
	for _, c := range []struct {
		command string
		want    string
		check   func(error) bool
	}{
		{"exit 0", "<nil>", func(err error) bool { return err == nil }},
		{"exit 75", "exit status 75", transient},
		{"echo not now >&2; exit 75", "not now (exit status 75)", transient},
		{"echo bad data >&2; exit 65", "bad data (exit status 65)", func(err error) bool {
			return pawl.Describe(err).Class == pawl.ClassPermanent
		}},
		{"echo down >&2; exit 69", "released: down (exit status 69)", func(err error) bool {
			r, ok := errors.AsType[*pawl.ReleaseError](err)
			return ok && r.After == time.Second
		}},
		{"printf 'one\ntwo\n\n' >&2; printf three >&2; exit 1", "three (exit status 1)\none\ntwo\n\nthree", transient},
		{"kill -KILL $$", "killed by SIGKILL", transient},
		{"kill -SEGV $$", "killed by SIGSEGV", transient},
	} {
		err := exec.New(exec.Config{Launcher: l, Command: c.command}).Handle(t.Context(),
			delivery("m", "body that nobody reads"))
		if fmt.Sprint(err) != c.want || !c.check(err) {
			t.Errorf("%s: got %q (%+v), want %q", c.command, fmt.Sprint(err), pawl.Describe(err), c.want)
		}
		if d := pawl.Describe(err); err != nil && d.Kind != policy.KindCommand &&
			!strings.HasPrefix(c.want, "released") {
			t.Errorf("%s: kind %q", c.command, d.Kind)
		}
	}
}

func transient(err error) bool {
	_, released := errors.AsType[*pawl.ReleaseError](err)
	return err != nil && pawl.Describe(err).Class == pawl.ClassTransient && !released
}

func TestExecKeepsTheLastLinesOnly(t *testing.T) {
	var errs buffer
	command := `i=0; while [ $i -lt 3000 ]; do echo "line $i of this program"; i=$((i+1)); done >&2; head -c 300000 /dev/zero | tr '\0' x >&2; exit 1`
	err := exec.New(exec.Config{Launcher: newLauncher(t), Command: command,
		Stderr: handler.NewOutput(&errs, nil)}).Handle(t.Context(), delivery("m", strings.Repeat("b", 1<<20)))
	if err == nil || len(err.Error()) > 8<<10 || !strings.Contains(err.Error(), "(exit status 1)") {
		t.Errorf("a reason of %d bytes: %.200q", len(fmt.Sprint(err)), err)
	}
	if n := strings.Count(errs.String(), "line "); n != 3000 {
		t.Errorf("%d of 3000 lines passed through", n)
	}
}

func TestExecHeadersBeyondAnEnvironment(t *testing.T) {
	d := delivery("m", "")
	d.Headers = map[string]string{"a": strings.Repeat("\x01", 30<<10)}
	err := exec.New(exec.Config{Launcher: newLauncher(t), Command: "exit 0"}).Handle(t.Context(), d)
	if pawl.Describe(err).Class != pawl.ClassPermanent || !strings.Contains(fmt.Sprint(err), "--pipe") {
		t.Errorf("got %v", err)
	}
}

func TestExecEndsWithItsContext(t *testing.T) {
	for _, cause := range []error{pawl.ErrLeaseLost, pawl.ErrDeadline, pawl.ErrDrain} {
		t.Run(cause.Error(), func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pids")
			// Neither the program nor what it starts heeds SIGTERM.
			command := `trap '' TERM; (trap '' TERM; sleep 1000 & echo $! >>` + file + `; wait) & echo $$ $! >>` +
				file + `; wait; wait`
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error, 1)
			go func() {
				done <- exec.New(exec.Config{Launcher: newLauncher(t), Command: command}).Handle(ctx, delivery("m", ""))
			}()
			pids := readPids(t, file, 3)
			cancel(cause)
			if err := <-done; !errors.Is(err, cause) {
				t.Errorf("got %v", err)
			}
			eventually(t, "the whole group is gone", func() bool {
				return !alive(pids[0]) && !alive(pids[1]) && !alive(pids[2])
			})
		})
	}
}

// A program that ends itself when it is asked to, and says 0 as many do, has not done
// its work.
func TestExecThatWasAskedToEndSaysNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	command := `trap 'exit 0' TERM; echo $$ >` + file + `; sleep 1000 & wait`
	go func() {
		done <- exec.New(exec.Config{Launcher: newLauncher(t), Command: command}).Handle(ctx, delivery("m", ""))
	}()
	readPids(t, file, 1)
	cancel(pawl.ErrDrain)
	if err := <-done; !errors.Is(err, pawl.ErrDrain) {
		t.Errorf("got %v, want pawl.ErrDrain", err)
	}
}

func TestExecLeavesNothingBehind(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	started := time.Now()
	err := exec.New(exec.Config{Launcher: newLauncher(t), Command: `sleep 1000 & echo $! >` + file}).Handle(t.Context(),
		delivery("m", ""))
	if err != nil || time.Since(started) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(started))
	}
	pid := readPids(t, file, 1)[0]
	eventually(t, "what the program left is gone", func() bool { return !alive(pid) })
}

func TestExecDoesNotWaitForWhoLeftTheGroup(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	started := time.Now()
	command := `setsid sh -c 'echo $$ >` + file + `; exec sleep 1000' & while [ ! -s ` + file + ` ]; do :; done`
	err := exec.New(exec.Config{Launcher: newLauncher(t), Command: command}).Handle(t.Context(), delivery("m", ""))
	if err != nil || time.Since(started) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(started))
	}
	_ = syscall.Kill(readPids(t, file, 1)[0], syscall.SIGKILL)
}

func TestExecAtOnce(t *testing.T) {
	e := exec.New(exec.Config{Launcher: newLauncher(t), Command: `[ "$(cat)" = "$PAWL_ID" ]`})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			id := fmt.Sprint("message ", i)
			if err := e.Handle(t.Context(), delivery(id, id)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func BenchmarkExec(b *testing.B) {
	e := exec.New(exec.Config{Launcher: newLauncher(b), Command: "exit 0"})
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := e.Handle(b.Context(), delivery("m", "body")); err != nil {
				b.Error(err)
			}
		}
	})
}
