package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// morgue is a store with dead letters, which notes what is replayed, and which
// can die.
type morgue struct {
	*memory.Store
	mu      sync.Mutex // of all below
	replays map[string]int
	at      []time.Time // of every letter that was replayed
	calls   int
	dieAt   int // the call at which it dies; 0: never
	dead    bool
}

var errKilled = errors.New("the process was killed")

func newMorgue(t *testing.T, n int) *morgue {
	t.Helper()
	m := &morgue{Store: memory.New(memory.Config{}), replays: map[string]int{}}
	letters := make([]store.Record, n)
	for i := range letters {
		letters[i] = store.Record{
			Message: pawl.Message{ID: fmt.Sprintf("%05d", i), Topic: "t",
				Body: fmt.Appendf(nil, `{"n":%d,"price":1.10}`, i)},
			Attempts: 1, EnqueuedAt: time.Now(), DeadAt: time.Now().Add(time.Duration(i) * time.Microsecond), Kind: "K",
			Reason: "r",
		}
	}
	if refused, err := m.Import(t.Context(), letters...); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	time.Sleep(time.Minute)
	return m
}

// live reports whether the process lives, at a call; after says that it dies when
// the call has taken effect.
func (m *morgue) live(call func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errKilled
	}
	m.calls++
	if m.dieAt > 0 && m.calls == m.dieAt {
		m.dead = true
		if m.calls%2 == 0 {
			return errKilled
		}
		_ = call()
		return errKilled
	}
	return call()
}

// kill lets the process die, or live again.
func (m *morgue) kill(dead bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = dead
}

// replayed is how many letters were replayed.
func (m *morgue) replayed() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.replays)
}

func (m *morgue) Replay(ctx context.Context, topic string, ids ...string) (refused map[string]error, err error) {
	err = m.live(func() error {
		refused, err = m.Store.Replay(ctx, topic, ids...)
		for _, id := range ids {
			if err == nil && refused[id] == nil {
				m.replays[id]++
				m.at = append(m.at, time.Now())
			}
		}
		return err
	})
	return refused, err
}

func (m *morgue) PutState(ctx context.Context, key string, value []byte, version int64, writer string) (e store.Entry,
	err error) {
	err = m.live(func() error {
		e, err = m.Store.PutState(ctx, key, value, version, writer)
		return err
	})
	return e, err
}

func (m *morgue) Edit(ctx context.Context, as ...store.Edit) (refused map[string]error, err error) {
	err = m.live(func() error {
		refused, err = m.Store.Edit(ctx, as...)
		return err
	})
	return refused, err
}

// killAgain lets everything that was replayed die again.
func (m *morgue) killAgain(t *testing.T) {
	t.Helper()
	for {
		ds, err := m.Claim(t.Context(), []store.Want{{Topic: "t", Limit: 100}}, store.Lease{For: time.Minute})
		if err != nil || len(ds) == 0 {
			return
		}
		var items []store.Settlement
		for _, d := range ds {
			items = append(items, store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Dead,
				Failure: store.Failure{Kind: "K", Error: "r"}})
		}
		if _, err := m.Settle(t.Context(), store.NewBatch(items...)); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *morgue) operations(t *testing.T) *Operations {
	t.Helper()
	ops, err := OpenOperations(m)
	if err != nil {
		t.Fatal(err)
	}
	return ops
}

func (m *morgue) plan(t *testing.T, sel Selection) *Operation {
	t.Helper()
	p, err := MakePlan(t.Context(), m, m, sel, KindReplay, "")
	if err != nil {
		t.Fatal(err)
	}
	o, err := m.operations(t).Plan(t.Context(), KindReplay, "who", sel, p)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (m *morgue) run(t *testing.T, ctx context.Context, o *Operation) error {
	t.Helper()
	return (&Runner{Operations: m.operations(t), Who: "who"}).Run(ctx, o)
}

// wantOnce fails unless every one of n letters was replayed once.
func (m *morgue) wantOnce(t *testing.T, o *Operation, n int) {
	t.Helper()
	for id, times := range m.replays {
		if times != 1 {
			t.Errorf("%s was replayed %d times", id, times)
		}
	}
	if len(m.replays) != n || o.Done != int64(n) || o.Refused != 0 || o.Status != Done {
		t.Fatalf("%d were replayed; the operation is %s with %d done, %d refused; want %d", len(m.replays), o.Status,
			o.Done, o.Refused, n)
	}
}

func TestOperationKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, rate = 3000, 500.0
		m := newMorgue(t, n)
		o := m.plan(t, Selection{})
		o.Rate = rate
		ctx, stop := context.WithTimeoutCause(t.Context(), 2200*time.Millisecond, errKilled)
		defer stop()
		began := time.Now()
		if err := m.run(t, ctx, o); !errors.Is(err, ErrPaused) || o.Status != Paused {
			t.Fatalf("%v: %+v", err, o)
		}
		took := time.Since(began)
		time.Sleep(time.Hour)
		again, err := m.operations(t).Get(t.Context(), o.ID)
		if err != nil || again.Done != o.Done || again.Done < 900 {
			t.Fatalf("%v: %+v", err, again)
		}
		began = time.Now()
		if err := m.run(t, t.Context(), again); err != nil {
			t.Fatal(err)
		}
		took += time.Since(began)
		m.wantOnce(t, again, n)
		if got := n / took.Seconds(); got < 0.9*rate || got > 1.1*rate || again.ActiveSeconds < 0.9*took.Seconds() {
			t.Errorf("%.0f a second in %v (%.1f s on record); want %.0f", got, took, again.ActiveSeconds, rate)
		}
		for i := range m.at { // no burst
			if j := i + int(rate/2); j < len(m.at) && m.at[j].Sub(m.at[i]) < time.Second/4 {
				t.Fatalf("%d within %v", j-i, m.at[j].Sub(m.at[i]))
			}
		}
		if again.Runs != 2 {
			t.Errorf("%d runs", again.Runs)
		}
	})
}

// TestOperationSurvivesEveryCrash kills the process at every call of the store in
// turn, before or after it took effect, and goes on; what was replayed dies again
// meanwhile.
func TestOperationSurvivesEveryCrash(t *testing.T) {
	given := Selection{IDs: []string{"00003", "00001", "00000", "00002", "00005", "00004", "00006"}}
	for name, c := range map[string]struct {
		sel   Selection
		n     int
		patch string
	}{"selected": {n: 7}, "given": {sel: given, n: 7}, "edited": {n: 7, patch: ".n += 100"},
		"limited": {sel: Selection{Filter: store.DeadFilter{Limit: 5}}, n: 5}} {
		t.Run(name, func(t *testing.T) {
			died := 0
			for dieAt := 1; dieAt < 200 && died == dieAt-1; dieAt++ {
				synctest.Test(t, func(t *testing.T) {
					m := newMorgue(t, 7)
					o := m.plan(t, c.sel)
					o.Rate, o.Edit, m.dieAt = 8, c.patch, dieAt
					err := m.run(t, t.Context(), o)
					if m.dead {
						died++
						m.killAgain(t)
						time.Sleep(2 * deadAfter)
						m.dead, m.dieAt = false, dieAt+3+m.calls%4 // and once more
						o, err = m.resume(t, o)
						m.killAgain(t)
						time.Sleep(2 * deadAfter)
						if m.dead {
							m.dead, m.dieAt = false, 0
							o, err = m.resume(t, o)
						}
					}
					if err != nil {
						t.Fatalf("call %d: %v", dieAt, err)
					}
					m.wantOnce(t, o, c.n)
					if log, err := ListAudit(t.Context(), m, AuditFilter{Action: KindReplay}); err != nil ||
						len(log) != 1 ||
						log[0].Status != Done || log[0].Result.Done != int64(c.n) {
						t.Fatalf("audit %+v, %v", log, err)
					}
					m.wantBodies(t, c.patch != "")
				})
			}
			if died < 8 {
				t.Fatalf("it was killed only %d times", died)
			}
		})
	}
}

// resume goes on with what the store knows of an operation; with the plan if
// that is nothing.
func (m *morgue) resume(t *testing.T, planned *Operation) (*Operation, error) {
	t.Helper()
	o, err := m.operations(t).Get(t.Context(), planned.ID)
	if errors.Is(err, store.ErrNotFound) {
		again := *planned
		again.version, again.Runs = 0, 0
		o = &again
	} else if err != nil {
		t.Fatal(err)
	}
	if o.Status == Done { // it died before it could tell
		return o, nil
	}
	return o, m.run(t, t.Context(), o)
}

// wantBodies fails unless every body was edited once, if at all.
func (m *morgue) wantBodies(t *testing.T, edited bool) {
	t.Helper()
	for id := range m.replays {
		r, err := m.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		var n int
		_, _ = fmt.Sscanf(id, "%d", &n)
		want := fmt.Sprintf(`{"n":%d,"price":1.10}`, n)
		if edited {
			want = fmt.Sprintf(`{"n":%d,"price":1.10}`, n+100)
		}
		if string(r.Body) != want || edited == (r.Headers[HeaderEdit] == "") {
			t.Fatalf("body %s, headers %v; want %s", r.Body, r.Headers, want)
		}
	}
}

func TestOperationHasOneRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMorgue(t, 100)
		o := m.plan(t, Selection{})
		o.Rate = 2
		ended := make(chan error)
		go func() { ended <- m.run(t, t.Context(), o) }()
		time.Sleep(3 * time.Second)
		second, err := m.operations(t).Get(t.Context(), o.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.run(t, t.Context(), second); !errors.Is(err, store.ErrConflict) {
			t.Fatalf("a second one: %v", err)
		}
		began := time.Now()
		asked, err := m.operations(t).Ask(t.Context(), o.ID, Paused, "other")
		if err != nil || asked.Status != Paused || time.Since(began) > 2*time.Second {
			t.Fatalf("asked to pause: %+v, %v after %v", asked, err, time.Since(began))
		}
		if err := <-ended; !errors.Is(err, ErrPaused) {
			t.Fatalf("the runner ended with %v", err)
		}
		if asked.Done != int64(len(m.replays)) || asked.Done == 0 || asked.Done == 100 {
			t.Fatalf("%d done, %d replayed", asked.Done, len(m.replays))
		}
		cancelled, err := m.operations(t).Ask(t.Context(), o.ID, Cancelled, "other")
		if err != nil || cancelled.Status != Cancelled || cancelled.EndedAt == nil {
			t.Fatalf("asked to cancel: %+v, %v", cancelled, err)
		}
		if err := m.run(t, t.Context(), cancelled); !errors.Is(err, store.ErrConflict) {
			t.Fatalf("resumed though it was cancelled: %v", err)
		}
		if _, err := m.operations(t).Ask(t.Context(), o.ID, Paused, "other"); !errors.Is(err, store.ErrConflict) {
			t.Fatalf("paused though it was cancelled: %v", err)
		}
		log, err := ListAudit(t.Context(), m, AuditFilter{})
		if err != nil || len(log) != 1 || log[0].Status != Cancelled || log[0].Result.Done != cancelled.Done ||
			log[0].Count != 100 {
			t.Fatalf("audit %+v, %v", log, err)
		}
	})
}

// TestOperationRefusesOnce: what was refused is counted, and not tried again.
func TestOperationRefusesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMorgue(t, 10)
		if _, err := m.Store.Edit(t.Context(), store.Edit{ID: "00002", Body: []byte("no JSON")}); err != nil {
			t.Fatal(err)
		}
		o := m.plan(t, Selection{})
		o.Rate, o.Edit = 4, ".x = 1"
		ctx, stop := context.WithTimeoutCause(t.Context(), 1200*time.Millisecond, errKilled)
		defer stop()
		if err := m.run(t, ctx, o); !errors.Is(err, ErrPaused) || o.Refused != 1 {
			t.Fatalf("%v: %+v", err, o)
		}
		o, err := m.resume(t, o)
		if err != nil || o.Done != 9 || o.Refused != 1 || len(o.Refusal) != 1 || o.Refusal[0].ID != "00002" {
			t.Fatalf("%v: %+v", err, o)
		}
		if want := map[string]int{"00000": 1, "00001": 1, "00003": 1, "00004": 1, "00005": 1, "00006": 1, "00007": 1,
			"00008": 1, "00009": 1}; !maps.Equal(m.replays, want) {
			t.Fatalf("replayed %v", m.replays)
		}
	})
}
