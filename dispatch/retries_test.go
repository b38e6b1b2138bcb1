package dispatch_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/statesync"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// tried is a handler that always fails, and notes when and how often.
type tried struct {
	*dispatch.Dispatcher
	sync.Mutex
	at []time.Time
}

func (h *tried) Handle(context.Context, *pawl.Delivery) error {
	h.Lock()
	defer h.Unlock()
	h.at = append(h.at, time.Now())
	return errors.New("no")
}

func (h *tried) count() int {
	h.Lock()
	defer h.Unlock()
	return len(h.at)
}

// alwaysFailing runs a dispatcher whose handler always fails until the test ends.
func alwaysFailing(t *testing.T, s store.Store, r policy.Retries, o dispatch.Observer, m pawl.Message) *tried {
	t.Helper()
	h := &tried{}
	d, err := dispatch.New(s, dispatch.Config{Observer: o, Logger: slog.New(slog.DiscardHandler),
		Topics: []dispatch.Topic{{Name: "t", Handler: h, Retries: r}}})
	if err != nil {
		t.Fatal(err)
	}
	h.Dispatcher, m.Topic = d, "t"
	if err := store.Send(t.Context(), s, m); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return h
}

// deadOf is how many dead letters there are.
func deadOf(t *testing.T, s *memory.Store) int64 {
	t.Helper()
	stats, err := s.Stats(t.Context(), "t")
	if err != nil || len(stats) != 1 {
		t.Fatal(stats, err)
	}
	return stats[0].Dead
}

// oftens counts retries of what has failed often.
type oftens struct {
	witness
	mu    sync.Mutex
	often int
}

func (o *oftens) RetriedOften(string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.often++
}

// A program that says nothing loses no message to a restart of a downstream that takes hours.
func TestRetriedForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, o := memory.New(memory.Config{}), &oftens{}
		h := alwaysFailing(t, s, policy.Retries{}, o, pawl.Message{})
		time.Sleep(12 * time.Hour)
		if n := deadOf(t, s); n != 0 || h.count() < 50 {
			t.Errorf("%d dead after 12 hours and %d attempts", n, h.count())
		}
		o.mu.Lock()
		if o.often < h.count()-policy.DefaultAttempts || o.often > h.count()-policy.DefaultAttempts+1 {
			t.Errorf("told of %d retries of %d attempts", o.often, h.count())
		}
		o.mu.Unlock()
		time.Sleep(17 * time.Hour) // pauses by chance: their sum is a day, give or take an hour
		if n := deadOf(t, s); n != 1 {
			t.Errorf("%d dead after 29 hours", n)
		}
	})
}

// What an operator sets counts in a running dispatcher within two seconds, and no longer once it is removed.
func TestOperatorsSetRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{})
		kept, err := statesync.New[policy.Retries](s, policy.RetriesTopic, statesync.Config{})
		if err != nil {
			t.Fatal(err)
		}
		h := alwaysFailing(t, s, policy.Retries{Base: time.Second, Max: time.Second}, nil, pawl.Message{})
		time.Sleep(10 * time.Second)
		if _, err := kept.Put(t.Context(), "t", policy.Retries{Base: time.Hour, Max: time.Hour}, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		before := h.count()
		time.Sleep(50 * time.Minute)
		if n := h.count(); before < 9 || n != before {
			t.Errorf("%d attempts, and %d once retries wait for an hour", before, n)
		}
		if _, err := kept.Delete(t.Context(), "t", statesync.AnyVersion); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if n := h.count(); n < before+100 {
			t.Errorf("%d attempts after %d, since the setting was removed", n, before)
		}
		raw, err := statesync.New[map[string]int](s, policy.RetriesTopic, statesync.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := raw.Put(t.Context(), "t", map[string]int{"attempts": -1}, statesync.AnyVersion); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if f := h.RetriesInState(); f.Ignored != 1 || f.Poisoned == 0 {
			t.Errorf("retries that are none: %+v", f)
		}
		if _, err := kept.Put(t.Context(), "t", policy.Retries{Attempts: 2}, statesync.AnyVersion); err != nil {
			t.Fatal(err)
		}
		time.Sleep(4 * time.Second)
		if n := deadOf(t, s); n != 1 {
			t.Errorf("%d dead after two attempts", n)
		}
	})
}

// A message that says for how long it is retried outlives the attempts of its topic.
func TestAMessageSaysForHowLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{})
		m := pawl.Message{}
		m.RetryFor(2 * time.Hour)
		h := alwaysFailing(t, s, policy.Retries{Attempts: 2}, nil, m)
		time.Sleep(time.Hour)
		if n := deadOf(t, s); n != 0 || h.count() < 10 {
			t.Errorf("%d dead after %d attempts in an hour", n, h.count())
		}
		time.Sleep(2 * time.Hour)
		if n := deadOf(t, s); n != 1 {
			t.Errorf("%d dead after three hours", n)
		}
	})
}

// A message that says how many attempts it has is bound neither by the attempts of its topic nor by its time.
func TestAMessageSaysHowOften(t *testing.T) {
	for _, attempts := range []int{1, 3, 6} {
		synctest.Test(t, func(t *testing.T) {
			s := memory.New(memory.Config{})
			m := pawl.Message{}
			m.RetryUpTo(attempts)
			h := alwaysFailing(t, s, policy.Retries{Attempts: 4, For: time.Second}, nil, m)
			time.Sleep(time.Hour)
			if n := deadOf(t, s); n != 1 || h.count() != attempts {
				t.Errorf("%d dead after %d attempts; want %d", n, h.count(), attempts)
			}
		})
	}
}

// The context of a message that says how long an attempt may take ends then, also in a batch, and never after the
// deadline of its topic.
func TestAMessageLimitsItsTime(t *testing.T) {
	for _, limit := range []time.Duration{0, 3 * time.Second, time.Hour} {
		for _, batch := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := memory.New(memory.Config{})
				m := pawl.Message{Topic: "t", Body: []byte("x")}
				if limit > 0 {
					m.LimitTime(limit)
				}
				if _, err := s.Append(t.Context(), store.NewBatch(m)); err != nil {
					t.Fatal(err)
				}
				var took time.Duration
				hang := func(ctx context.Context) error {
					began := time.Now()
					until, _ := ctx.Deadline()
					<-ctx.Done()
					if took = time.Since(began); until.Sub(began) != took {
						t.Errorf("the context says %v, and ends after %v", until.Sub(began), took)
					}
					return ctx.Err()
				}
				topic := dispatch.Topic{Name: "t", Retries: policy.Retries{Attempts: 1}}
				if batch {
					topic.BatchSize = 2
					topic.Batch = pawl.BatchHandlerFunc(func(ctx context.Context, _ []*pawl.Delivery) []error {
						return []error{hang(ctx)}
					})
				} else {
					topic.Handler = pawl.HandlerFunc(func(ctx context.Context, _ *pawl.Delivery) error { return hang(ctx) })
				}
				d, err := dispatch.New(s, dispatch.Config{Topics: []dispatch.Topic{topic}, UntilEmpty: true})
				if err != nil {
					t.Fatal(err)
				}
				if err := d.Run(t.Context()); err != nil {
					t.Fatal(err)
				}
				short := limit == 3*time.Second
				if short && took != limit || !short && (took < store.DefaultDeadline/2 || took > store.DefaultDeadline) {
					t.Errorf("with a limit of %v, in a batch %v, it took %v", limit, batch, took)
				}
				for r, err := range s.Dead(t.Context(), store.DeadFilter{}) {
					if err != nil || short != strings.Contains(r.Reason, "time limit of the message") {
						t.Errorf("with a limit of %v: %s, %v", limit, r.Reason, err)
					}
				}
			})
		}
	}
}
