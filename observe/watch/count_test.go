package watch

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/figures"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

var errNoCount = errors.New("it cannot be counted")

// logBook keeps a log.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBook) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// uncounted is a store that does not count at times.
type uncounted struct {
	*memory.Store
	fails *atomic.Bool
}

func (u *uncounted) Stats(ctx context.Context, names ...string) ([]store.TopicStats, error) {
	if u.fails.Load() {
		return nil, errNoCount
	}
	return u.Store.Stats(ctx, names...)
}

// countRig is what runs while a test in a bubble looks at the metrics.
type countRig struct {
	*testing.T
	m     *observe.Metrics
	log   *logBook
	fails *atomic.Bool
	text  func() string
}

// counts runs a loop that counts, lets it fail after its first count, and well again.
// gauges are what it is to export while it knows, and stamp is when it knew.
func counts(t *testing.T, start func(ctx context.Context, c *countRig), gauges, stamp string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		registry := observe.NewRegistry()
		m, err := observe.New(registry)
		if err != nil {
			t.Fatal(err)
		}
		c := &countRig{T: t, m: m, log: &logBook{}, fails: &atomic.Bool{}, text: func() string {
			w := httptest.NewRecorder()
			observe.Handler(registry).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			return w.Body.String()
		}}
		ctx, stop := context.WithCancel(t.Context())
		go start(ctx, c)
		look := func(after time.Duration, there bool, warnings int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			text := c.text()
			if strings.Contains(text, "\n"+gauges) != there || !strings.Contains(text, "\n"+stamp) {
				t.Errorf("there should be figures: %v\n%s", there, text)
			}
			if n := strings.Count(c.log.String(), "level=WARN"); n != warnings {
				t.Errorf("%d warnings, want %d\n%s", n, warnings, c.log)
			}
		}
		stamped := func() (at string) {
			_, at, _ = strings.Cut(c.text(), "\n"+stamp)
			at, _, _ = strings.Cut(at, "\n")
			return at
		}
		look(5*time.Second, true, 0)
		first := stamped()
		c.fails.Store(true)
		look(30*time.Second, true, 1) // a moment of it does no harm
		look(time.Minute, false, 1)
		if stamped() != first {
			t.Errorf("counted at %s, then at %s", first, stamped())
		}
		c.fails.Store(false)
		look(10*time.Second, true, 1)
		if stamped() == first || !strings.Contains(c.log.String(), "are counted again") {
			t.Errorf("still counted at %s\n%s", first, c.log)
		}
		c.fails.Store(true)
		look(10*time.Second, true, 2)
		stop()
	})
}

// Figures of a topic do not outlive what they are about.
func TestDepthThatCannotBeCounted(t *testing.T) {
	counts(t, func(ctx context.Context, c *countRig) {
		s := &uncounted{memory.New(memory.Config{}), c.fails}
		if _, err := s.Append(ctx, store.NewBatch(pawl.Message{Topic: "a"})); err != nil {
			c.Error(err)
		}
		Topics(ctx, s, []string{"a"}, c.m, slog.New(slog.NewTextHandler(c.log, nil)))
	}, `pawl_queue_messages{state="waiting",topic="a"} 1`, `pawl_queue_counted_timestamp_seconds{topic="a"} `)
}

// Nor do those of a fallback store; its totals stay.
func TestFallbackThatCannotBeCounted(t *testing.T) {
	counts(t, func(ctx context.Context, c *countRig) {
		count := func(context.Context) (figures.Spill, error) {
			if c.fails.Load() {
				return figures.Spill{}, errNoCount
			}
			return figures.Spill{Topics: []figures.SpillTopic{{Topic: "a", Pending: 7,
				Totals: figures.Totals{Lost: 1}}}}, nil
		}
		countSpill(ctx, count, c.m, slog.New(slog.NewTextHandler(c.log, nil)))
		if !strings.Contains(c.text(), `pawl_spill_messages_total{result="lost",topic="a"} 1`) {
			c.Error(c.text())
		}
	}, `pawl_spill_pending_messages{topic="a"} 7`, "pawl_spill_counted_timestamp_seconds ")
}

// What the process knows by itself is told while the fallback store is away: that is
// when messages are lost.
func TestLostMessagesAreToldWithoutTheFallbackStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := observe.NewRegistry()
		m, err := observe.New(registry)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		go countSpill(ctx, func(context.Context) (figures.Spill, error) {
			a := figures.SpillTopic{Topic: "a", Down: true, Totals: figures.Totals{Lost: 3}}
			return figures.Spill{Topics: []figures.SpillTopic{a}, LatchedKeys: 4, Blind: 5}, errNoCount
		}, m, slog.New(slog.DiscardHandler))
		for _, after := range []time.Duration{time.Second, 2 * depthKept} {
			time.Sleep(after)
			synctest.Wait()
			w := httptest.NewRecorder()
			observe.Handler(registry).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			text := w.Body.String()
			for _, want := range []string{`pawl_spill_messages_total{result="lost",topic="a"} 3`,
				`pawl_spill_down{topic="a"} 1`, "pawl_spill_latched_keys 4", "pawl_spill_blind_total 5"} {
				if !strings.Contains(text, "\n"+want+"\n") {
					t.Errorf("missing after %v: %s", after, want)
				}
			}
			if strings.Contains(text, "\npawl_spill_pending_messages{") {
				t.Errorf("nobody has counted what is there:\n%s", text)
			}
		}
		stop()
	})
}

// Results that a program reads whole wait for no worker.
func TestResultsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{})
		if err := store.Send(t.Context(), s, pawl.Message{Topic: "found"}); err != nil {
			t.Fatal(err)
		}
		for _, reader := range []struct {
			says string
			is   bool
		}{{`{"topics":[{"topic":"found"}]}`, false}, {`{"topics":[{"topic":"found","read_whole":true}]}`, true}} {
			_, err := s.PutState(t.Context(), roster.Prefix+"a", []byte(reader.says), store.AnyVersion, "")
			if err != nil {
				t.Fatal(err)
			}
			if got := readWhole(t.Context(), s)["found"]; got != reader.is {
				t.Errorf("%s: %v", reader.says, got)
			}
		}
		time.Sleep(time.Minute)
		if readWhole(t.Context(), s)["found"] {
			t.Error("it is read by a program that is gone")
		}
	})
}
