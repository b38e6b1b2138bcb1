package handler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/handler/pipe"
	"github.com/pawl-dev/pawl/policy"
)

func TestPipeNoiseOnStdoutIsTheProgramsLog(t *testing.T) {
	t.Parallel()
	var logged, log lockedBuffer
	p := pipe.Start(pipe.Config{Command: worker("noisy"), InFlight: 8, Launcher: newLauncher(t),
		Stderr: handler.NewOutput(&logged, nil), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	t.Cleanup(p.Close)
	for i, err := range handle(t.Context(), p, make([]string, 30)...) {
		if err != nil {
			t.Errorf("m%d: %v", i, err)
		}
	}
	if s := p.Stats(); s.Stray != 90 || s.Bad+s.Stale+s.Restarts+s.Regiven != 0 {
		t.Errorf("%+v", s)
	}
	if text := logged.String(); strings.Count(text, "[1] ") != 90 || !strings.Contains(text, "[1] working on m7\n") {
		t.Errorf("the log of the program is:\n%s", text)
	}
	if text := log.String(); strings.Count(text, "level=WARN") != 1 ||
		!strings.Contains(text, "write to stderr, or answer") {
		t.Errorf("logged:\n%s", text)
	}
}

// What a program prints without the end of a line is before its next verdict, what another thread prints is behind
// one. The delivery would wait until its time is over, and be carried out again.
func TestPipeVerdictBesideHalfALine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, behind, logged string }{
		{"50 % done", "", "50 % done"}, {"10 %\r20 %\r", "", "10 %\r20 %"}, {"\x00\xff{", "", "\xff{"},
		{"\uFEFF", "", ""}, {"[{}] {a {b", "", "[{}] {a {b"}, {"", "done", "done"},
		{"\x1b[32m", "\x1b[0m", "\x1b[32m\x1b[0m"},
		{"", " \x00\r", ""}, {"[", "]", "[]"}, {`{"level":"info"}`, `{"id":1}`, `{"level":"info"}{"id":1}`},
	} {
		var out lockedBuffer
		p := pipe.Start(pipe.Config{Launcher: newLauncher(t), Stderr: handler.NewOutput(&out, nil),
			Command: worker(fmt.Sprintf("beside-text %s %s", strconv.Quote(c.before), strconv.Quote(c.behind))),
			Logger:  slog.New(slog.DiscardHandler)})
		t.Cleanup(p.Close)
		for i, err := range handle(t.Context(), p, "", "") {
			if err != nil {
				t.Errorf("%+q, m%d: %v", c, i, err)
			}
		}
		want := strings.Repeat("[1] "+c.logged+"\n", 2)
		if c.logged == "" {
			want = ""
		}
		if text := out.String(); text != want {
			t.Errorf("%+q: the log of the program is %q", c, text)
		}
	}
}

// Two threads of a program that print at once may do so on one line.
func TestPipeTwoVerdictsOnALine(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Command: worker("pairs"), InFlight: 20})
	for i, err := range handle(t.Context(), p, make([]string, 20)...) {
		if err != nil {
			t.Errorf("m%d: %v", i, err)
		}
	}
	if s := p.Stats(); s.Bad+s.Stray+s.Stale+s.Regiven != 0 {
		t.Errorf("%+v", s)
	}
}

// A verdict within an object that a program logs is none.
func TestPipeVerdictThatIsLogged(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Command: worker(`beside-text "{\"answer\":" "}\n{}"`)})
	ctx, end := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer end()
	if err := p.Handle(ctx, message("m", "")); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// A long line is logged as the same text on stderr is: in pieces.
func TestPipeLongNoise(t *testing.T) {
	t.Parallel()
	var out lockedBuffer
	p := pipe.Start(pipe.Config{Launcher: newLauncher(t), Stderr: handler.NewOutput(&out, nil),
		Command: worker("long 3"), Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(p.Close)
	if err := p.Handle(t.Context(), message("m", "")); err != nil {
		t.Error(err)
	}
	lines := strings.SplitAfter(out.String(), "\n")
	if slices.ContainsFunc(lines, func(l string) bool { return len(l) > 128<<10 }) ||
		strings.Count(out.String(), "x") != 3<<20 {
		t.Errorf("%d lines, %d bytes", len(lines), len(out.String()))
	}
}

func TestPipeBrokenVerdictIsLaidToTheDeliveryWhoseTokenItHas(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Command: worker("echo"), InFlight: 8})
	bodies := make([]string, 20)
	bodies[7] = "do repr"
	for i, err := range handle(t.Context(), p, bodies...) {
		if (i == 7) != (err != nil) {
			t.Errorf("m%d: %v", i, err)
		}
	}
	if s := p.Stats(); s.Bad != 1 || s.Restarts+s.Regiven != 0 {
		t.Errorf("%+v", s)
	}
}

func TestPipeNamesUnknownMembersOfAVerdict(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	p := pipe.Start(pipe.Config{Command: worker(`say "ack" ,"after_second":3`), Launcher: newLauncher(t),
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	t.Cleanup(p.Close)
	for range 3 {
		if err := p.Handle(t.Context(), message("m", "")); err != nil {
			t.Error(err)
		}
	}
	text := log.String()
	if p.Stats().Unknown != 3 || strings.Count(text, "after_second\\\"") != 1 ||
		!strings.Contains(text, "after_seconds, hold_seconds") {
		t.Errorf("%+v, logged:\n%s", p.Stats(), text)
	}
}

func TestPipeVerdictsStateClassAndFacts(t *testing.T) {
	t.Parallel()
	p := startPipe(t, pipe.Config{Command: worker("echo")})
	for more, want := range map[string]pawl.Failure{
		`"retry" ,"class":"throttled"`: {Class: pawl.ClassThrottled, Kind: policy.KindCommand},
		`"retry" ,"class":"transient","kind":"RateLimit","after_seconds":2`: {Kind: "RateLimit",
			After: 2 * time.Second},
		`"dead" ,"class":"permanent","attrs":{"http_status":404,"host":"a","none":null,"ok":true}`: {
			Class: pawl.ClassPermanent, Kind: policy.KindCommand,
			Attrs: map[string]string{"http_status": "404", "host": "a", "ok": "true"}},
	} {
		got := pawl.Describe(p.Handle(t.Context(), message("m", "do say "+more)))
		if got.Err == nil || got.Class != want.Class || got.Kind != want.Kind || got.After != want.After ||
			!maps.Equal(got.Attrs, want.Attrs) {
			t.Errorf("%s: got %+v", more, got)
		}
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
