package storetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// runFaults works while calls fail, answers are lost and handles vanish, and
// counts afterwards: everything once, and nothing else.
func runFaults(t *testing.T, h Harness) {
	b := h.describe(t)
	of := Sentence{Needs: needs(store.CanRepeatBatch, store.CanTopics, store.CanDeadline, store.CanEmitAtomic)}
	if why := of.refusal(b); why != "" {
		t.Logf("%s refuses the faults: %s", b.Name, why)
		return
	}
	runs, steps := 6, 300
	if testing.Short() {
		runs, steps = 2, 100
	}
	for _, seed := range seeds(t, runs) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			t.Logf("%s=%d", seedVariable, seed)
			walkWithFaults(newT(t, h.Open(t)), seed, steps)
		})
	}
}

func walkWithFaults(t *T, seed uint64, steps int) {
	f := &faultRun{T: t, rand: rand.New(rand.NewPCG(seed, 3)), failures: map[string]int{}}
	f.inner = f.Store
	f.Store = f.faulty()
	for range steps {
		f.step()
	}
	f.finish()
}

// faultRun is a worker that does not give up.
type faultRun struct {
	*T
	rand     *rand.Rand
	inner    store.Store
	sent     int
	emits    int
	failures map[string]int // by id: how often it was retried
	retried  int
}

func (f *faultRun) faulty() store.Store {
	return Faulty(f.inner, func(string) Fault {
		switch f.rand.IntN(8) {
		case 0:
			return FailBefore
		case 1:
			return FailAfter
		default:
			return 0
		}
	})
}

func (f *faultRun) step() {
	switch n := f.rand.IntN(20); {
	case n == 0:
		f.restartSomehow()
	case n < 7:
		f.send()
	default:
		f.work()
	}
}

// restartSomehow drops the handle, or closes it, and opens another.
func (f *faultRun) restartSomehow() {
	switch {
	case f.Crash != nil && f.rand.IntN(2) == 0:
		f.inner = f.Crash(f)
	case f.Reopen != nil:
		f.inner = f.Reopen(f)
	}
	f.Store = f.faulty()
}

// insist repeats a call until its outcome is known. Now and then the process is
// another one by then.
func (f *faultRun) insist(call func() error) {
	for {
		err := call()
		if err == nil {
			return
		}
		f.check(errors.Is(err, store.ErrUnavailable), "%v", err)
		if f.rand.IntN(10) == 0 {
			f.restartSomehow()
		}
	}
}

func (f *faultRun) send() {
	var msgs []pawl.Message
	for range 1 + f.rand.IntN(4) {
		f.sent++
		m := f.msg(strconv.Itoa(f.sent))
		if f.rand.IntN(2) == 0 {
			m.Key = []byte{byte('a' + f.rand.IntN(3))}
		}
		msgs = append(msgs, m)
	}
	batch := store.NewBatch(msgs...)
	f.insist(func() error {
		receipts, err := f.Store.Append(f.ctx(), batch)
		for _, r := range receipts {
			if r.DuplicateOf != "" || r.Err != nil {
				return fmt.Errorf("receipt %+v", r)
			}
		}
		return err
	})
}

// allSuspects are terms of a claim that brings suspects, too, and those that are carried out alone.
func allSuspects() store.Lease {
	return store.Lease{For: lease, Suspects: store.MaxSuspects, Alone: true}
}

// work claims and settles. A claim whose answer was lost is given up: its leases
// end.
func (f *faultRun) work() {
	ds, err := f.Store.Claim(f.ctx(), []store.Want{{Topic: f.Topic, Limit: 1 + f.rand.IntN(5), Run: 3}}, allSuspects())
	if err != nil {
		f.check(errors.Is(err, store.ErrUnavailable), "%v", err)
		f.expire()
		return
	}
	items := f.decide(ds)
	if len(items) == 0 {
		return
	}
	batch := store.NewBatch(items...)
	f.insist(func() error {
		refused, err := f.Store.Settle(f.ctx(), batch)
		if len(refused) > 0 {
			return fmt.Errorf("refused %v of leases that are live", refused)
		}
		return err
	})
}

func (f *faultRun) decide(ds []pawl.Delivery) []store.Settlement {
	var items []store.Settlement
	ended := map[int64]bool{}
	for _, d := range ds {
		if ended[d.Token.Lane] {
			continue
		}
		f.check(d.Attempt == f.failures[d.ID]+1, "%s says attempt %d after %d failures", d.Body, d.Attempt,
			f.failures[d.ID])
		s := verdict(d, store.Ack)
		if f.rand.IntN(5) == 0 {
			s.Verdict = store.Retry
			f.failures[d.ID]++
			f.retried++
			ended[d.Token.Lane] = true
		} else if f.rand.IntN(3) == 0 {
			s.Emit = []pawl.Message{{Topic: "children"}}
			f.emits++
		}
		items = append(items, s)
	}
	return items
}

// finish works until nothing is left, without faults, and compares. It also takes messages to be tried alone: they
// were in four claims whose answers were lost.
func (f *faultRun) finish() {
	f.Store = f.inner
	for empty := 0; empty < 2; {
		ds := f.claimWith(allSuspects(), store.Want{Topic: f.Topic, Limit: 100})
		f.settled(f.decide(ds)...)
		if empty++; len(ds) > 0 {
			empty = 0
		}
		f.expire()
	}
	st := f.stats()
	// A message is dead if the answers of that many claims were lost: the first ones beside other work, the last
	// ones alone.
	mayDie := st.Rescues / int64(store.SolitaryAfter+2)
	f.check(st.Appended == int64(f.sent) && st.Acked+st.Dead == int64(f.sent) && st.Dead <= mayDie &&
		st.Retried == int64(f.retried) && st.Duplicates == 0, "%d were sent and %d retried, but the figures are %+v",
		f.sent, f.retried, st)
	if f.emits > 0 {
		got := f.statsOf("children").Appended
		f.check(got == int64(f.emits), "%d children; %d were emitted", got, f.emits)
	}
}

// Fault says what becomes of a call.
type Fault uint8

// The faults. The zero value is none.
const (
	FailBefore Fault = iota + 1 // the call fails and takes no effect
	FailAfter                   // the call takes effect, and its answer is lost
)

// Plan decides the fate of a call by its name: append, claim, extend or settle.
// It may be called concurrently.
type Plan func(op string) Fault

// Faulty returns s with calls that fail by plan. They return
// [store.ErrUnavailable]: whether they took effect is for the caller to find out.
// The optional interfaces of s never fail.
func Faulty(s store.Store, plan Plan) store.Store { return &faulty{Store: s, plan: plan} }

type faulty struct {
	store.Store
	plan Plan
}

// Unwrap returns the store below.
func (f *faulty) Unwrap() store.Store { return f.Store }

var errFault = errors.New("connection reset, on purpose")

// failing makes a call, or not, and loses its answer, or not.
func failing[T any](f *faulty, op string, call func() (T, error)) (T, error) {
	var none T
	fault := f.plan(op)
	if fault == FailBefore {
		return none, &store.Error{Op: op, Code: store.ErrUnavailable, Err: errFault}
	}
	answer, err := call()
	if fault == FailAfter && err == nil {
		return none, &store.Error{Op: op, Code: store.ErrUnavailable, Err: errFault}
	}
	return answer, err
}

func (f *faulty) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	return failing(f, "append", func() ([]store.Receipt, error) { return f.Store.Append(ctx, batch) })
}

func (f *faulty) Claim(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
	return failing(f, "claim", func() ([]pawl.Delivery, error) { return f.Store.Claim(ctx, wants, terms) })
}

func (f *faulty) Extend(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
	return failing(f, "extend", func() ([]pawl.Token, error) { return f.Store.Extend(ctx, by, tokens...) })
}

func (f *faulty) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	return failing(f, "settle", func() ([]store.Refusal, error) { return f.Store.Settle(ctx, batch) })
}
