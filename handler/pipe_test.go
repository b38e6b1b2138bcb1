package handler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/handler/pipe"
	"github.com/pawl-dev/pawl/policy"
)

func startPipe(t testing.TB, c pipe.Config) *pipe.Pipe {
	t.Helper()
	c.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	c.Launcher = newLauncher(t)
	p := pipe.Start(c)
	t.Cleanup(p.Close)
	return p
}

var fence atomic.Int64

// message is a delivery with a token of its own.
func message(id, body string) *pawl.Delivery {
	n := fence.Add(1)
	return &pawl.Delivery{Message: pawl.Message{ID: id, Topic: "t", Body: []byte(body)}, Attempt: 1,
		Token: pawl.Token{Fence: n, Lane: n, Seq: n}, Deadline: time.Minute}
}

// handle hands all bodies over at once and returns what became of each.
func handle(ctx context.Context, p *pipe.Pipe, bodies ...string) []error {
	errs := make([]error, len(bodies))
	var wg sync.WaitGroup
	for i, body := range bodies {
		wg.Go(func() { errs[i] = p.Handle(ctx, message(fmt.Sprint("m", i), body)) })
	}
	wg.Wait()
	return errs
}

func TestPipeVerdicts(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Command: worker("echo"), InFlight: 1})
	for body, want := range map[string]string{
		"plain": "<nil>",
		`do say "ack" ,"more":{"x":[1]},"body":"e"`:              "<nil>",
		`do say "retry" ,"reason":"not yet"`:                     "not yet; class transient, kind Command, after 0s",
		`do say "retry"`:                                         "the program's verdict is retry; class transient, kind Command, after 0s",
		`do say "retry" ,"after_seconds":1.5,"kind":"RateLimit"`: "the program's verdict is retry; class throttled, kind RateLimit, after 1.5s",
		`do say "dead" ,"reason":"broken","kind":"Parser"`:       "broken; class permanent, kind Parser, after 0s",
		`do say "release" ,"after_seconds":2`:                    "released: the program's verdict is release; class transient, kind , after 0s; release after 2s",
	} {
		err := p.Handle(t.Context(), message("m", body))
		got := fmt.Sprint(err)
		if err != nil {
			d := pawl.Describe(err)
			got = fmt.Sprintf("%v; class %v, kind %v, after %v", err, d.Class, d.Kind, d.After)
		}
		if r, ok := errors.AsType[*pawl.ReleaseError](err); ok {
			got += fmt.Sprintf("; release after %v", r.After)
		}
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", body, got, want)
		}
	}
}

func TestPipeEmitAndHold(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Command: worker("echo")})
	d := message("m",
		`do say "ack" ,"hold_seconds":2.5,"emit":[{"topic":"a","body":"x","delay_seconds":1},{"topic":"b","key":"k","not_before":"2000-01-01T00:00:00Z"}]`)
	if err := p.Handle(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	got := d.Emitted()
	if d.HoldFor() != 2500*time.Millisecond || len(got) != 2 || got[0].Topic != "a" || string(got[0].Body) != "x" ||
		got[0].Delay != time.Second ||
		got[1].Topic != "b" || string(got[1].Key) != "k" || got[1].Delay != 0 {
		t.Errorf("hold %v, emitted %+v", d.HoldFor(), got)
	}
}

func TestPipeBadVerdictsFailTheirDelivery(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Command: worker("echo"), InFlight: 1})
	for body, want := range map[string]string{
		`do say "done"`:                      `not a verdict: verdict is "done"; it is ack, retry, dead or release: {"id":"m",`,
		`do say "ack" ,"emit":[{"tpic":""}]`: `unknown field "tpic"`,
		`do say 7`:                           `expected a text in double quotes, found '7'`,
		`do print {"verdict":"ack"`:          `not a verdict: column 17: unexpected end of JSON input: {"verdict":"ack"`,
		`do say "retry" ,"class":"dead"`:     `class is "dead"; with retry it is transient or throttled`,
		`do say "ack" ,"attrs":{"a":"b"}`:    `attrs goes with retry and dead`,
	} {
		err := p.Handle(t.Context(), message("m", body))
		if d := pawl.Describe(err); err == nil || !strings.Contains(err.Error(), want) ||
			d.Kind != policy.KindCommand || d.Class != pawl.ClassTransient {
			t.Errorf("%s: got %v (%+v)", body, err, d)
		}
	}
	if s := p.Stats(); s.Bad != 6 || s.Restarts != 0 {
		t.Errorf("%+v", s)
	}
}

func TestPipeStaleVerdictsAreCounted(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Command: worker("twice")})
	for range 3 {
		if err := p.Handle(t.Context(), message("m", "x")); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the second verdicts are counted", func() bool { return p.Stats().Stale >= 2 })
	if s := p.Stats(); s.Restarts != 0 || s.Bad != 0 {
		t.Errorf("%+v", s)
	}
}

func TestPipeFindsWhatKillsIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ mode, fatal string }{
		{"echo", "do die"},             // reads far ahead
		{"unbuffered", "do die"},       // leaves what it does not work on in the pipe
		{"echo", "do mute"},            // alive, but silent for ever
		{"echo", "do flood"},           // megabytes without the end of a line
		{"echo", "do print {verdict:"}, // whose line it is cannot be told
	} {
		t.Run(c.mode+" "+c.fatal, func(t *testing.T) {
			p := startPipe(t, pipe.Config{Command: worker(c.mode), InFlight: 8})
			bodies := make([]string, 20)
			bodies[5], bodies[11] = c.fatal, c.fatal
			for i, err := range handle(t.Context(), p, bodies...) {
				if fatal := bodies[i] == c.fatal; fatal != (err != nil) {
					t.Errorf("m%d: %v", i, err)
				} else if fatal && pawl.Describe(err).Kind != policy.KindCommand {
					t.Errorf("m%d: %+v", i, pawl.Describe(err))
				}
			}
		})
	}
}

func TestPipeReasonIsWhatTheProgramSaidLast(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Command: worker("echo")})
	if err := p.Handle(t.Context(), message("m7", "do die")); err == nil ||
		err.Error() != "dying of m7 (exit status 3)" {
		t.Errorf("got %v", err)
	}
}

// A program may be gone before anybody has read what it said.
func TestPipeReasonWaitsForTheLastWords(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Stderr: handler.NewOutput(slowly{}, nil),
		Command: `read -r line; seq 11111 18888 >&2; echo last words >&2; exit 3`})
	if err := p.Handle(t.Context(), message("m", "")); err == nil ||
		!strings.HasPrefix(err.Error(), "last words (exit status 3)") {
		t.Errorf("got %v", err)
	}
}

// Many programs close their stdout a moment before they end: such an end is theirs, and no kill.
func TestPipeWithoutStdout(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]string{
		`read -r line; exec 1>&-; sleep 0.3; exit 3`: "exit status 3",
		`read -r line; exec 1>&-; sleep 60`:          "the program broke the protocol: it closed its stdout, so it cannot answer",
	} {
		p := startPipe(t, pipe.Config{Command: command})
		if err := p.Handle(t.Context(), message("m", "")); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", command, err, want)
		}
	}
}

// A program that closes its stdin may answer what it has read. It gets nothing more, and what it was given meanwhile is
// for the next one.
func TestPipeWithoutStdin(t *testing.T) {
	t.Parallel()
	for _, took := range []string{"0s", "3s"} {
		p := startPipe(t, pipe.Config{Command: worker("echo"), InFlight: 2})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		var first error
		done := make(chan struct{})
		go func() {
			defer close(done)
			first = p.Handle(ctx, message("m", "do deaf "+took))
		}()
		time.Sleep(100 * time.Millisecond)
		if err := p.Handle(ctx, message("m", "x")); err != nil {
			t.Errorf("what it did not read: %v", err)
		}
		if <-done; first != nil {
			t.Errorf("what it answered %v later: %v", took, first)
		}
		if s := p.Stats(); s.Killed != 1 || s.Regiven != 0 {
			t.Errorf("%+v", s)
		}
	}
}

// slowly is a terminal that takes its time.
type slowly struct{}

func (slowly) Write(b []byte) (int, error) {
	<-time.After(100 * time.Millisecond)
	return len(b), nil
}

// What a program has answered it has done, also if it ends without ending the line. Half
// a verdict may be any verdict.
func TestPipeTakesAVerdictWithoutTheEndOfALine(t *testing.T) {
	t.Parallel()
	const command = `read -r line; token=${line#*'"token":"'}; printf '{"id":"m","token":"%%s","verdict":"ack"%s' "${token%%%%\"*}"`
	p := startPipe(t, pipe.Config{Command: fmt.Sprintf(command, "}")})
	if err := p.Handle(t.Context(), message("m", "")); err != nil {
		t.Error(err)
	}
	p = startPipe(t, pipe.Config{Command: fmt.Sprintf(command, "")})
	if err := p.Handle(t.Context(), message("m", "")); err == nil {
		t.Error("half a verdict counts")
	}
}

func TestPipeStartsAgainAfterAChildHadEnough(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Command: worker("quit 7"), Children: 2})
	for i, err := range handle(t.Context(), p, make([]string, 100)...) {
		if err != nil {
			t.Errorf("m%d: %v", i, err)
		}
	}
	if s := p.Stats(); s.Restarts < 10 {
		t.Errorf("%+v", s)
	}
}

// Whoever claims for a pipe is told when a child is ready, also one that was before that was asked for.
func TestPipeTellsWhenChildrenAreReady(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Command: worker("quit 2")})
	if err := p.Handle(t.Context(), message("first", "")); err != nil {
		t.Fatal(err)
	}
	told := make(chan struct{}, 10)
	p.OnUp(func() { told <- struct{}{} })
	select {
	case <-told:
	default:
		t.Error("the child was ready, and that was not told")
	}
	if err := p.Handle(t.Context(), message("second", "")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-told:
	case <-time.After(30 * time.Second):
		t.Error("another child is ready, and that was not told")
	}
}

func TestPipeKillsForAnEndedContext(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Command: worker("unbuffered"), InFlight: 4})
	if err := p.Handle(t.Context(), message("first", "")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	hung := make(chan error, 1)
	go func() { hung <- p.Handle(ctx, message("hung", "do hang")) }()
	eventually(t, "the child holds it", func() bool { return p.Stats().Held == 1 })
	beside := make(chan []error, 1)
	go func() { beside <- handle(t.Context(), p, "a", "b") }()
	eventually(t, "the child holds the others, too", func() bool { return p.Stats().Held == 3 })
	cancel(pawl.ErrDeadline)
	if err := <-hung; !errors.Is(err, pawl.ErrDeadline) {
		t.Errorf("got %v", err)
	}
	for _, err := range <-beside {
		if err != nil {
			t.Errorf("what was beside it: %v", err)
		}
	}
}

func TestPipeStuckChildDoesNotTakeOthersAlong(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Command: worker("unbuffered"), InFlight: 8})
	if err := p.Handle(t.Context(), message("first", "")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, pawl.ErrDeadline)
	defer cancel()
	for i, err := range handle(ctx, p, "", "", "", "do hang", "", "", "") {
		_, released := errors.AsType[*pawl.ReleaseError](err)
		switch {
		case i == 3 && !errors.Is(err, pawl.ErrDeadline):
			t.Errorf("the one that hangs: %v", err)
		case i != 3 && err != nil && !released:
			t.Errorf("m%d: %v", i, err)
		}
	}
	if err := p.Handle(t.Context(), message("last", "")); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestPipeGivesUpOnAProgramThatNeverRuns(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Command: "echo no such module >&2; exit 1"})
	err := p.Handle(t.Context(), message("m", "x"))
	if r, ok := errors.AsType[*pawl.ReleaseError](err); !ok ||
		!strings.Contains(r.Reason, "no such module (exit status 1)") {
		t.Errorf("got %v", err)
	}
	<-p.Broken()
	if !errors.Is(p.Err(), pipe.ErrNeverReady) {
		t.Errorf("got %v", p.Err())
	}
	if err := p.Handle(t.Context(), message("m", "x")); err == nil {
		t.Error("a broken pipe took a delivery")
	}
}

// A program that worked once may be broken later, by an upgrade or for want of what
// it needs. It may get well, too, so that nobody gives up on it.
func TestPipeFailsWhileAProgramDoesNotStartAnyMore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broken, well := filepath.Join(dir, "broken"), filepath.Join(dir, "well")
	p := startPipe(t, pipe.Config{Command: "if [ -e " + broken + " ]; then echo no such module >&2; exit 1; fi; " +
		"[ -e " + well + " ] || : >" + broken + "; " + worker("quit 1")})
	if err := p.Handle(t.Context(), message("m", "x")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is failing", func() bool { return p.Failing() != nil })
	if err := p.Failing(); !errors.Is(err, pipe.ErrNeverReady) ||
		!strings.Contains(err.Error(), "no such module (exit status 1)") {
		t.Errorf("got %v", err)
	}
	if s := p.Stats(); s.Restarts < 6 { // one that answered, and five
		t.Errorf("it is failing too soon: %+v", s)
	}
	if err := p.Err(); err != nil {
		t.Errorf("it was given up: %v", err)
	}
	if err := errors.Join(os.WriteFile(well, nil, 0o600), os.Remove(broken)); err != nil {
		t.Fatal(err)
	}
	if err := p.Handle(t.Context(), message("m", "x")); err != nil {
		t.Fatal(err)
	}
	if err := p.Failing(); err != nil {
		t.Errorf("it answers, but %v", err)
	}
}

// What a program that does not start has left is for the others, which have nothing to do.
func TestPipeOneProgramThatDoesNotStartHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	lock := filepath.Join(t.TempDir(), "lock")
	p := startPipe(t, pipe.Config{Children: 2, InFlight: 1, Command: "mkdir " + lock +
		" 2>/dev/null || { sleep 0.1; echo another one runs >&2; exit 1; }; " + worker("echo")})
	if err := p.Handle(t.Context(), message("m", "x")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for n := range 100 {
		if err := errors.Join(handle(ctx, p, "x", "x")...); err != nil {
			t.Fatalf("%d: %v", n, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestPipeClosesChildrenThatDoNotEnd(t *testing.T) {
	t.Parallel()
	l := newLauncher(t)
	p := pipe.Start(pipe.Config{Launcher: l, Command: `trap '' TERM; read x; sleep 1000`, Children: 3,
		CloseWait: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	began := time.Now()
	p.Close()
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("closing took %v", took)
	}
	if err := p.Handle(t.Context(), message("m", "x")); !errors.Is(err, pawl.ErrDrain) {
		t.Errorf("afterwards: %v", err)
	}
}

func TestPipeLargeBodies(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Command: worker("echo"), Children: 2, InFlight: 16})
	big := strings.Repeat("b", 3<<20)
	for i, err := range handle(t.Context(), p, big, "", big, big, "", big) {
		if err != nil {
			t.Errorf("m%d: %v", i, err)
		}
	}
}

func TestPipeManyAtOnce(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Command: worker("echo"), Children: 2})
	var wg sync.WaitGroup
	for g := range 300 {
		wg.Go(func() {
			for i := range 50 {
				if err := p.Handle(t.Context(), message(fmt.Sprint(g, ".", i),
					strings.Repeat("b", (g*i)%3000))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if s := p.Stats(); s.Restarts+s.Stale+s.Bad+s.Regiven != 0 {
		t.Errorf("%+v", s)
	}
}

func TestPipePassesStderrThrough(t *testing.T) {
	t.Parallel()
	var errs buffer
	p := startPipe(t, pipe.Config{Command: "echo ready >&2; " + worker("echo"), Children: 2,
		Stderr: handler.NewOutput(&errs, nil)})
	eventually(t, "both say that they are ready", func() bool {
		return strings.Contains(errs.String(), "[1] ready\n") && strings.Contains(errs.String(), "[2] ready\n")
	})
	_ = p
}

func TestPipeWindowFollowsTheProgram(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mode     string
		min, max int
	}{
		{"echo", 16, pipe.MaxInFlight},
		{"slow 30ms", 1, 8}, // noise may make it try more for a while
		{"beside 30ms", 64, pipe.MaxInFlight},
	} {
		t.Run(c.mode, func(t *testing.T) {
			t.Parallel()
			p := startPipe(t, pipe.Config{Command: worker(c.mode)})
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			var n, most atomic.Int64
			for range pipe.MaxInFlight {
				wg.Go(func() {
					for ctx.Err() == nil {
						_ = p.Handle(ctx, message("m", "x"))
						n.Add(1)
						most.Store(max(most.Load(), int64(p.Stats().Window)))
					}
				})
			}
			eventually(t, "the window opens", func() bool { return n.Load() > 50 && most.Load() >= int64(c.min) })
			cancel()
			wg.Wait()
			if got := int(most.Load()); got > c.max {
				t.Errorf("the window was %d, at most %d is right", got, c.max)
			}
		})
	}
}

func BenchmarkPipe(b *testing.B) {
	p := pipe.Start(pipe.Config{Launcher: newLauncher(b), Command: worker("echo"),
		Logger: slog.New(slog.DiscardHandler)})
	defer p.Close()
	b.SetParallelism(200)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := p.Handle(b.Context(), message("m", "body")); err != nil {
				b.Error(err)
			}
		}
	})
	b.ReportMetric(float64(p.Stats().Window), "window")
}
