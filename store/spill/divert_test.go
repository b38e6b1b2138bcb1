package spill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// unanswered is what the client of a log says of a message when its brokers are gone.
func unanswered() error {
	return &store.Error{Op: "append", Code: store.ErrUnknown, Err: fmt.Errorf("%w: %w", store.ErrNoAnswer, errNoBroker)}
}

// each is a fate of single messages.
func each(why func() error) func(int, []pawl.Message) fate {
	return func(int, []pawl.Message) fate { return fate{each: func(pawl.Message) error { return why() }} }
}

// TestReceiptsAreNoAnswer: a log gives receipts although all its brokers are gone. If
// they say so the fallback store comes first, also for what is sent while the topic is
// known to be down.
func TestReceiptsAreNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		primary.set(each(unanswered))
		s := open(t, primary, memory.New(memory.Config{}), Config{
			Divert: func(context.Context, []pawl.Message, error) error {
				t.Error("diverted to where nobody answers")
				return nil
			}})
		for n := range 5 {
			send(t, s, msg("", n), msg(fmt.Sprint("key", n), n))
		}
		if _, st := stats(t, s); st.Pending != 10 {
			t.Errorf("figures %+v", st)
		}
	})
}

// TestDivertLeavesTime: a dead-letter route that hangs takes neither the time of the
// fallback store nor, from a caller without a deadline, more than the primary store may.
// It is not waited for again.
func TestDivertLeavesTime(t *testing.T) {
	for name, deadline := range map[string]time.Duration{"a deadline": 8 * time.Second,
		"a short one": 100 * time.Millisecond, "none": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				primary, slow := newLog(), &slow{Store: memory.New(memory.Config{})}
				primary.set(func(int, []pawl.Message) fate {
					return fate{delay: deadline * 7 / 10, each: func(m pawl.Message) error {
						if m.Key == nil {
							return failed()
						}
						return unsure(false)
					}}
				})
				slow.takes = deadline / 10
				calls := 0
				hang := func(ctx context.Context, _ []pawl.Message, _ error) error {
					calls++
					<-ctx.Done()
					return ctx.Err()
				}
				ctx, cancel, bound := t.Context(), context.CancelFunc(func() {}), time.Hour
				if name == "none" {
					bound = deadline * 3 / 4
				} else {
					ctx, cancel = context.WithTimeout(ctx, deadline)
				}
				defer cancel()
				s := open(t, primary, slow, Config{Divert: hang, PrimaryTimeout: bound})
				began := time.Now()
				if _, err := s.Append(ctx, store.NewBatch(msg("", 0), msg("a", 0), msg("", 1))); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took > 2*deadline {
					t.Errorf("it took %v", took)
				}
				if calls != 1 {
					t.Errorf("%d calls of a route that hangs", calls)
				}
				if _, st := stats(t, s); st.Pending != 3 || st.Lost != 0 {
					t.Errorf("figures %+v", st)
				}
			})
		})
	}
}

// slow is a store whose appends take their time.
type slow struct {
	store.Store
	takes time.Duration
}

func (s *slow) Unwrap() store.Store { return s.Store }

func (s *slow) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	if store.Sleep(ctx, s.takes) != nil {
		return nil, &store.Error{Op: "append", Err: ctx.Err()}
	}
	return s.Store.Append(ctx, batch)
}

// TestAFailedRouteIsNotFirst: what goes aside because its topic is down does not try a
// dead-letter route first that failed, though the primary store answered.
func TestAFailedRouteIsNotFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		primary.set(each(failed))
		calls := 0
		s := open(t, primary, memory.New(memory.Config{}), Config{pace: pace{probeFirst: time.Hour,
			probeMax: time.Hour}, Divert: func(context.Context, []pawl.Message, error) error {
			calls++
			return errors.New("no dead-letter topic")
		}})
		for n := range 6 {
			send(t, s, msg("", n))
			synctest.Wait()
			if n == 2 { // the topic is down, and the rows were tried
				calls = 0
			}
		}
		if calls != 0 {
			t.Errorf("%d calls of a route that failed", calls)
		}
		if _, st := stats(t, s); st.Pending != 6 {
			t.Errorf("figures %+v", st)
		}
	})
}

// behindASlowOne lets one call of key a be on its way while the topic goes down, and
// makes another one, which waits behind it. It returns when the first
// was taken and the other has ended with do.
func behindASlowOne(t *testing.T, s *Store, primary *log, do func()) {
	primary.setDown(true)
	send(t, s, msg("x", 0)) // no answer: a row, a latch
	hold := make(chan struct{})
	primary.set(func(_ int, items []pawl.Message) fate {
		if string(items[0].Key) == "a" {
			return fate{until: hold}
		}
		return fate{each: func(pawl.Message) error { return failed() }}
	})
	var wg sync.WaitGroup
	wg.Go(func() { send(t, s, msg("a", 0)) }) // its partition is well, and slow
	synctest.Wait()
	send(t, s, msg("y", 0)) // that of this one says no, twice: the topic is down
	send(t, s, msg("y", 1))
	wg.Go(do)
	synctest.Wait()
	primary.set(nil)
	close(hold)
	wg.Wait()
}

// TestDivertHasAReason: what is diverted has a reason, and a call that waited for its turn
// is sent to the primary store if the topic is well again by then.
func TestDivertHasAReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		var diverted atomic.Int64
		s := open(t, primary, &stingy{Store: memory.New(memory.Config{})},
			Config{Divert: func(_ context.Context, msgs []pawl.Message,
				why error) error {
				diverted.Add(int64(len(msgs)))
				if why == nil {
					t.Errorf("%s is diverted without a reason", msgs[0].ID)
				}
				return nil
			}})
		behindASlowOne(t, s, primary, func() { send(t, s, msg("a", 1)) })
		if n := diverted.Load(); n != 2 {
			t.Errorf("%d were diverted", n)
		}
	})
}

// TestPanicFreesTheKey: a dead-letter route that panics does not block the keys of its
// call.
func TestPanicFreesTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		s := open(t, primary, memory.New(memory.Config{}), Config{
			Divert: func(context.Context, []pawl.Message, error) error {
				panic("as of a bug")
			}})
		primary.set(each(failed))
		func() {
			defer func() {
				if recover() == nil {
					t.Error("it did not panic")
				}
			}()
			_, _ = s.Append(t.Context(), store.NewBatch(msg("a", 0)))
		}()
		primary.set(nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := s.Append(ctx, store.NewBatch(msg("a", 1))); err != nil {
			t.Fatal(err)
		}
		if lanes := kept(s); lanes != 0 {
			t.Errorf("%d lanes are left", lanes)
		}
	})
}

// TestDivertedTopicsAreProbed: a topic that had rows once, and whose messages are all
// diverted, is found to be well again by a new message: there is no row to try.
func TestDivertedTopicsAreProbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := newLog()
		var diverted atomic.Int64
		s := open(t, primary, memory.New(memory.Config{}), Config{
			Divert: func(_ context.Context, msgs []pawl.Message, _ error) error {
				diverted.Add(int64(len(msgs)))
				return nil
			}})
		primary.setDown(true)
		send(t, s, msg("a", 0)) // a row
		primary.set(nil)
		quiet(t, s, time.Minute)
		sent := 0
		sendFor := func(long time.Duration) {
			for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(333 * time.Millisecond) {
				send(t, s, msg("", sent))
				sent++
			}
		}
		primary.set(each(failed))
		sendFor(20 * time.Second)
		if diverted.Load() != int64(sent) {
			t.Fatalf("%d of %d were diverted", diverted.Load(), sent)
		}
		primary.set(nil)
		sendFor(20 * time.Second) // a probe every 15 s, or a fifth later
		if _, st := stats(t, s); st.Down {
			t.Errorf("the topic is down; %d of %d were diverted", diverted.Load(), sent)
		}
	})
}

// TestFallbackBeginsInTime: a message with a key is a row within PrimaryTimeout of a
// primary store that hangs, whether its client says so or leaves the call open. The
// dead-letter route, which hangs as well, is not asked before.
func TestFallbackBeginsInTime(t *testing.T) {
	for name, hangs := range map[string]time.Duration{"the client gives up": 8500 * time.Millisecond,
		"the call stays open": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				primary, fallback := newLog(), memory.New(memory.Config{})
				primary.set(func(int, []pawl.Message) fate {
					return fate{delay: hangs, each: func(pawl.Message) error { return unanswered() }}
				})
				s := open(t, primary, fallback, Config{
					PrimaryTimeout: 10 * time.Second,
					Divert: func(ctx context.Context, _ []pawl.Message, _ error) error {
						<-ctx.Done()
						return ctx.Err()
					},
				})
				go func() { _, _ = s.Append(t.Context(), store.NewBatch(msg("a", 0))) }()
				time.Sleep(10*time.Second + time.Millisecond)
				if r, err := fallback.Get(t.Context(), "a-0"); err != nil || r.Topic != topicOf("orders") {
					t.Fatalf("after ten seconds the fallback store has %+v: %v", r, err)
				}
			})
		})
	}
}
