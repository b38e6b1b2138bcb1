package spill

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestUnknown: what may be stored is spilled, counted apart, and settled without a
// duplicate when the primary store turns out to have it.
func TestUnknown(t *testing.T) {
	for _, c := range []struct {
		name   string
		stored bool
		want   int64
	}{{"it was stored", true, 2}, {"it was not", false, 0}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				primary, fallback := newLog(), memory.New(memory.Config{})
				primary.dedupes = true
				primary.set(func(call int, _ []pawl.Message) fate {
					if call == 1 {
						return fate{each: func(pawl.Message) error { return unsure(c.stored) }}
					}
					return fate{down: true}
				})
				s := open(t, primary, fallback, Config{})
				send(t, s, msg("a", 0), msg("", 1))
				if r, err := fallback.Get(t.Context(), "a-0"); err != nil || r.Headers[HeaderOutcome] != "unknown" ||
					r.Headers[HeaderTopic] != "orders" ||
					r.Topic != "spill.orders" || r.Headers[HeaderSince] == "" || r.Headers[HeaderError] == "" {
					t.Fatalf("row %+v, %v", r, err)
				}
				time.Sleep(time.Second)
				primary.set(nil)
				quiet(t, s, time.Minute)
				primary.inOrder(t, "a", 1)
				if _, st := stats(t, s); st.SpilledUnknown != 2 || st.SpilledFailed != 0 || st.Compensated != 2 ||
					st.Proven != c.want || primary.repeats() != 0 {
					t.Fatalf("figures %+v, %d duplicates", st, primary.repeats())
				}
				for _, m := range primary.all() {
					if len(m.Headers) != 0 {
						t.Errorf("headers %v are left", m.Headers)
					}
				}
			})
		})
	}
}

// TestPartial: of a batch that was taken in part, only the rest is spilled.
func TestPartial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		bad := true
		primary.set(func(int, []pawl.Message) fate {
			return fate{each: func(m pawl.Message) error {
				switch {
				case bad && string(m.Key) == "a":
					return failed()
				case string(m.Key) == "huge":
					return store.ErrTooLarge
				}
				return nil
			}}
		})
		s := open(t, primary, memory.New(memory.Config{}), Config{})
		receipts, err := s.Append(t.Context(), store.NewBatch(msg("b", 0), msg("a", 0), msg("huge", 0), msg("a", 1),
			pawl.Message{}, msg("b", 1)))
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range receipts {
			if refused := i == 2 || i == 4; refused != (r.Err != nil) || r.ID == "" {
				t.Errorf("receipt %d is %+v", i, r)
			}
		}
		if !errors.Is(receipts[2].Err, store.ErrTooLarge) {
			t.Error(receipts[2].Err)
		}
		primary.inOrder(t, "b", 2)
		primary.mu.Lock()
		bad = false
		primary.mu.Unlock()
		quiet(t, s, 3*time.Minute)
		primary.inOrder(t, "a", 2)
		if primary.repeats() != 0 {
			t.Error("duplicates")
		}
		if _, st := stats(t, s); st.SpilledFailed != 2 {
			t.Errorf("figures %+v", st)
		}
	})
}

// TestLost: when nothing takes a message its caller is told why, by level, and can
// repeat the call: what was accepted of it is not sent again.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		fallback := &flaky{Store: memory.New(memory.Config{})}
		full := &store.Error{Op: "append", Code: store.ErrFull, Err: errors.New("disk of the fallback store")}
		fallback.fail(full)
		primary.set(func(int, []pawl.Message) fate {
			return fate{each: func(m pawl.Message) error {
				if string(m.Key) == "a" {
					return failed()
				}
				return nil
			}}
		})
		noTopic := errors.New("no dead-letter topic")
		s := open(t, primary, fallback, Config{Divert: func(context.Context, []pawl.Message,
			error) error {
			return noTopic
		}})
		nameless := msg("a", 0)
		nameless.ID = ""
		batch := store.NewBatch(msg("b", 0), nameless)
		first, err := s.Append(t.Context(), batch)
		lost, ok := errors.AsType[*LostError](err)
		if !ok || lost.Messages != 1 || lost.Of != 2 || !errors.Is(lost.Primary, errNoBroker) ||
			!errors.Is(lost.Diverted, noTopic) || !errors.Is(lost.Fallback, store.ErrFull) {
			t.Fatalf("%v", err)
		}
		for _, part := range []string{"no broker answers", "no dead-letter topic", "disk of the fallback store"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
		if !errors.Is(err, store.ErrUnavailable) || first[0].Err != nil || first[1].Err == nil {
			t.Fatalf("%v, receipts %+v", err, first)
		}
		if all, st := stats(t, s); st.Lost != 1 || st.Pending != 0 || all.LatchedKeys != 0 {
			t.Fatalf("figures %+v", st)
		}
		fallback.fail(nil)
		again, err := s.Append(t.Context(), batch)
		if err != nil || again[1].ID != first[1].ID || again[1].Err != nil {
			t.Fatalf("%+v, %v; want the id %s again", again, err, first[1].ID)
		}
		primary.set(nil)
		quiet(t, s, 2*time.Minute)
		primary.inOrder(t, "a", 1)
		primary.inOrder(t, "b", 1)
		if primary.repeats() != 0 {
			t.Error("what was accepted was sent again")
		}
	})
}

// flaky is a store whose appends fail while it is told so.
type flaky struct {
	store.Store
	mu     sync.Mutex
	err    error
	stores bool // although it fails
}

func (f *flaky) Unwrap() store.Store { return f.Store }

func (f *flaky) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
}

func (f *flaky) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	f.mu.Lock()
	err, stores := f.err, f.stores
	f.mu.Unlock()
	if err != nil && !stores {
		return nil, err
	}
	receipts, e := f.Store.Append(ctx, batch)
	if err != nil {
		return nil, err
	}
	return receipts, e
}

// TestFallbackOfUnknownOutcome: a row may be there although the fallback store did
// not say so. Its key is latched until that is known.
func TestFallbackOfUnknownOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		primary.setDown(true)
		fallback := &flaky{Store: memory.New(memory.Config{}), stores: true,
			err: &store.Error{Op: "append", Code: store.ErrUnavailable}}
		s := open(t, primary, fallback, Config{})
		batch := store.NewBatch(msg("a", 0))
		receipts, err := s.Append(t.Context(), batch)
		if _, ok := errors.AsType[*LostError](err); !ok || receipts[0].Outcome() != store.Unknown {
			t.Fatal(receipts, err)
		}
		fallback.fail(nil)
		primary.setDown(false)
		send(t, s, msg("a", 1)) // behind what may be there
		if _, err = s.Append(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		quiet(t, s, time.Minute)
		primary.inOrder(t, "a", 2)
	})
}

// TestDivert: which messages the dead-letter route is offered, and when.
func TestDivert(t *testing.T) {
	for _, c := range []struct {
		name     string
		fate     fate
		broken   bool // the fallback store
		diverted string
		pending  int64
	}{
		{"it answers", fate{each: func(pawl.Message) error { return failed() }}, false,
			"a-0 -1 a-2", 0},
		{"it is away", fate{down: true}, false, "", 3},
		{"both are away", fate{down: true}, true, "a-0 -1 a-2", 0},
		{"it answers; the other is away", fate{each: func(pawl.Message) error { return failed() }}, true,
			"a-0 -1 a-2", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				primary, fallback := newLog(), &flaky{Store: memory.New(memory.Config{})}
				if c.broken {
					fallback.fail(&store.Error{Op: "append", Code: store.ErrFull})
				}
				primary.set(func(int, []pawl.Message) fate { return c.fate })
				var diverted []string
				s := open(t, primary, fallback, Config{
					Divert: func(_ context.Context, msgs []pawl.Message, why error) error {
						if !errors.Is(why, errNoBroker) {
							t.Errorf("why: %v", why)
						}
						for _, m := range msgs {
							if m.Topic != "orders" || len(m.Headers) > 0 {
								t.Errorf("message %+v", m)
							}
							diverted = append(diverted, m.ID)
						}
						return nil
					}})
				send(t, s, msg("a", 0), msg("", 1), msg("a", 2))
				_, st := stats(t, s)
				if got := strings.Join(diverted, " "); got != c.diverted || st.Pending != c.pending ||
					st.Diverted != int64(len(diverted)) {
					t.Fatalf("diverted %q, figures %+v; want %q and %d rows", got, st, c.diverted, c.pending)
				}
			})
		})
	}
}

// stingy is a fallback store that gives out rows so many times only.
type stingy struct {
	store.Store
	mu    sync.Mutex
	given int // how often it still does; negative: as often as one asks
	late  bool
}

func (g *stingy) Unwrap() store.Store { return g.Store }

func (g *stingy) give(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.given = n
}

func (g *stingy) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.given == 0 {
		return nil, nil
	}
	ds, err := g.Store.Claim(ctx, wants, lease)
	if len(ds) > 0 {
		g.given--
	}
	return ds, err
}

// Append is late to answer, once, when it is told so.
func (g *stingy) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	receipts, err := g.Store.Append(ctx, batch)
	g.mu.Lock()
	late := g.late
	g.late = false
	g.mu.Unlock()
	if late {
		time.Sleep(time.Second)
	}
	return receipts, err
}

// oneRow lets the primary store have one row, and waits until it is settled.
func (g *stingy) oneRow(t testing.TB, primary *log) {
	t.Helper()
	g.give(0)
	time.Sleep(time.Second)
	primary.set(nil)
	g.give(1)
	for begun := time.Now(); len(primary.all()) == 0; time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > time.Minute {
			t.Fatal("no row came back")
		}
	}
	if n := len(primary.all()); n != 1 {
		t.Fatalf("%d rows came back", n)
	}
}

// TestRepeatedIDs: an id that is a row already does not end the latch of its key
// before the rows behind it are gone.
func TestRepeatedIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		primary.setDown(true)
		fallback := &stingy{Store: memory.New(memory.Config{}), given: -1}
		s := open(t, primary, fallback, Config{pace: pace{batch: 1}})
		send(t, s, msg("a", 0))
		send(t, s, msg("a", 1))
		if r := send(t, s, msg("a", 0)); r[0].DuplicateOf != "a-0" {
			t.Fatalf("receipt %+v", r[0])
		}
		fallback.oneRow(t, primary)
		send(t, s, msg("a", 2))
		fallback.give(-1)
		quiet(t, s, time.Minute)
		primary.inOrder(t, "a", 3)
	})
}

// TestOthersOfTheSameID: what the fallback store takes for a duplicate is kept only if
// it has a row of that message: another topic's is removed by whoever moves it here.
func TestOthersOfTheSameID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, fallback := newLog(), memory.New(memory.Config{})
		primary.set(each(failed))
		s := open(t, primary, fallback, Config{})
		theirs := msg("a", 0)
		theirs.Topic = "other.orders"
		send(t, fallback, theirs)
		batch := store.NewBatch(msg("a", 0), msg("b", 0))
		receipts, err := s.Append(t.Context(), batch)
		if _, ok := errors.AsType[*LostError](err); !ok || receipts[0].Outcome() != store.Failed ||
			receipts[1].Outcome() != store.Stored {
			t.Fatal(receipts, err)
		}
		primary.setDown(false)
		if receipts, err = s.Append(t.Context(), batch); err != nil || receipts[0].Err != nil {
			t.Fatal(receipts, err)
		}
		quiet(t, s, time.Minute)
		primary.inOrder(t, "a", 1)
		primary.inOrder(t, "b", 1)
	})
}

// TestSpillsOfOneKey: two calls of one key that fail at once are spilled one after
// the other, and the latch ends with the row that is the last in its lane.
func TestSpillsOfOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		primary.setDown(true)
		fallback := &stingy{Store: memory.New(memory.Config{}), given: -1, late: true}
		s := open(t, primary, fallback, Config{pace: pace{batch: 1}})
		var wg sync.WaitGroup
		for n := range 2 {
			wg.Go(func() { send(t, s, msg("a", n)) })
			synctest.Wait()
		}
		wg.Wait()
		fallback.oneRow(t, primary)
		send(t, s, msg("a", 2))
		fallback.give(-1)
		quiet(t, s, time.Minute)
		primary.inOrder(t, "a", 3)
	})
}

// TestWhatIsNotKept: a message that the primary store would refuse is not accepted
// while it is away.
func TestWhatIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		primary.can = store.Capabilities{}
		primary.setDown(true)
		s := open(t, primary, memory.New(memory.Config{}), Config{})
		late, once := msg("a", 0), msg("a", 1)
		late.Delay, once.Unique.Key = time.Minute, "u"
		receipts, err := s.Append(t.Context(), store.NewBatch(late, once, msg("a", 2)))
		if err != nil || !errors.Is(receipts[0].Err, store.ErrUnsupported) ||
			!errors.Is(receipts[1].Err, store.ErrUnsupported) || receipts[2].Err != nil {
			t.Fatal(receipts, err)
		}
	})
}

// TestPrimaryRefusesTheCall: an error that is no outage is the caller's.
func TestPrimaryRefusesTheCall(t *testing.T) {
	primary := &flaky{Store: memory.New(memory.Config{}), err: &store.Error{Op: "append", Code: store.ErrDenied}}
	s := open(t, primary, memory.New(memory.Config{}), Config{})
	if receipts, err := s.Append(t.Context(), store.NewBatch(msg("a", 0))); !errors.Is(err, store.ErrDenied) ||
		receipts != nil {
		t.Fatal(receipts, err)
	}
	lanes := kept(s)
	if _, st := stats(t, s); st.SpilledFailed != 0 || lanes != 0 {
		t.Fatalf("figures %+v", st)
	}
}
