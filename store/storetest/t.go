package storetest

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// T is what a sentence is tested with: a fresh store, a topic, and the verbs of
// the contract, which fail the test on an error of the store.
type T struct {
	testing.TB
	*Instance
	Topic string
	// timeout bounds, in real time, every call and wait, so that a store that
	// hangs fails.
	timeout time.Duration
	pair    []store.Store // see handles
}

// lease is long enough for what a test does in real time on a slow machine, and
// shorter than the default deadline. Tests count the store's time in minutes:
// some stores' clocks move on while a test runs.
const lease = 2 * time.Minute

func newT(t testing.TB, in *Instance) *T {
	return &T{TB: t, Instance: in, Topic: "topic", timeout: 30 * time.Second}
}

// ctx bounds one call.
func (t *T) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), t.timeout)
	t.Cleanup(cancel)
	return ctx
}

// Fatalf fails the test, and says by which lines of the suite it came to it.
func (t *T) Fatalf(format string, args ...any) {
	t.TB.Helper()
	t.TB.Fatalf("%s: %s", lines(), fmt.Sprintf(format, args...))
}

// Errorf is Fatalf for a test that goes on.
func (t *T) Errorf(format string, args ...any) {
	t.TB.Helper()
	t.TB.Errorf("%s: %s", lines(), fmt.Sprintf(format, args...))
}

// lines are the callers within the suite, from the sentence on.
func lines() string {
	var all []string
	at := make([]uintptr, 32)
	for frames := runtime.CallersFrames(at[:runtime.Callers(3, at)]); ; {
		f, more := frames.Next()
		file := filepath.Base(f.File)
		if !more || file == "harness.go" || file == "reject.go" {
			slices.Reverse(all)
			return strings.Join(all, " > ")
		}
		if file != "t.go" && file != "sentences.go" {
			all = append(all, file+":"+strconv.Itoa(f.Line))
		}
	}
}

func (t *T) must(err error) {
	t.check(err == nil, "%v", err)
}

// check fails unless something is so.
func (t *T) check(so bool, format string, args ...any) {
	if !so {
		t.Fatalf(format, args...)
	}
}

// errOf is the error of a call whose answer does not matter.
func errOf[A any](_ A, err error) error { return err }

// msg is a message of the test's topic with that text as body.
func (t *T) msg(body string) pawl.Message { return pawl.Message{Topic: t.Topic, Body: []byte(body)} }

// keyed is a message in the lane of key.
func (t *T) keyed(key, body string) pawl.Message {
	m := t.msg(body)
	m.Key = []byte(key)
	return m
}

// append appends a batch and returns the receipts.
func (t *T) append(msgs ...pawl.Message) []store.Receipt {
	receipts := t.appendBatch(store.NewBatch(msgs...))
	t.check(len(receipts) == len(msgs), "append of %d messages gave %d receipts", len(msgs), len(receipts))
	return receipts
}

// appendBatch appends a batch, in a call that must succeed.
func (t *T) appendBatch(batch store.Batch[pawl.Message]) []store.Receipt {
	receipts, err := t.Store.Append(t.ctx(), batch)
	t.must(err)
	return receipts
}

// put appends messages that must all be stored, and returns their ids.
func (t *T) put(msgs ...pawl.Message) []string {
	var ids []string
	for i, r := range t.append(msgs...) {
		t.check(r.Err == nil && r.DuplicateOf == "" && r.ID != "", "message %d was not stored: %+v", i, r)
		ids = append(ids, r.ID)
	}
	return ids
}

// lane appends keyed messages, one call each, so that their order is certain.
func (t *T) lane(key string, bodies ...string) {
	for _, b := range bodies {
		t.put(t.keyed(key, b))
	}
}

// claim claims up to n messages of the topic, whole runs.
func (t *T) claim(n int) []pawl.Delivery {
	return t.claimRun(n, 0)
}

// claimRun claims up to n messages in runs of at most run.
func (t *T) claimRun(n, run int) []pawl.Delivery {
	return t.claimWith(store.Lease{For: lease, Suspects: store.MaxSuspects},
		store.Want{Topic: t.Topic, Limit: n, Run: run})
}

// heads claims the first messages of n lanes, one by one: how many lanes a claim
// gives is up to the store.
func (t *T) heads(n int) []pawl.Delivery {
	var ds []pawl.Delivery
	for range n {
		ds = append(ds, t.claimRun(1, 1)...)
	}
	return ds
}

func (t *T) claimWith(l store.Lease, wants ...store.Want) []pawl.Delivery {
	ds, err := t.Store.Claim(t.ctx(), wants, l)
	t.must(err)
	return ds
}

// claimOne claims one message, which must be there.
func (t *T) claimOne() pawl.Delivery {
	ds := t.claim(1)
	t.check(len(ds) == 1, "claim gave %d deliveries; want 1", len(ds))
	return ds[0]
}

// claims fails unless a claim of everything gives exactly these bodies, in order.
func (t *T) claims(bodies ...string) []pawl.Delivery {
	ds := t.claim(100)
	t.wantBodies(ds, bodies...)
	return ds
}

// later lets time pass, and fails unless a claim of everything gives exactly these bodies then, in order.
func (t *T) later(after time.Duration, bodies ...string) []pawl.Delivery {
	t.Advance(after)
	return t.claims(bodies...)
}

// headOf appends to a lane that is empty, and claims the first message alone.
func (t *T) headOf(key string, bodies ...string) pawl.Delivery {
	t.lane(key, bodies...)
	ds := t.claimRun(1, 1)
	t.wantBodies(ds, bodies[0])
	return ds[0]
}

// claimsMany fails unless a claim of up to limit messages gives so many.
func (t *T) claimsMany(limit, want int) {
	got := len(t.claim(limit))
	t.check(got == want, "claimed %d messages of topic %q; want %d", got, t.Topic, want)
}

// claimed appends messages with these bodies, and claims them.
func (t *T) claimed(bodies ...string) []pawl.Delivery {
	t.put(each(bodies, t.msg)...)
	return t.claims(bodies...)
}

// claimedRun appends to a lane, and claims what it appended.
func (t *T) claimedRun(key string, bodies ...string) []pawl.Delivery {
	t.lane(key, bodies...)
	return t.claims(bodies...)
}

// wantCounts fails unless a delivery says that it is that attempt, after so many rescues.
func (t *T) wantCounts(d pawl.Delivery, attempt, rescues int) {
	t.check(d.Attempt == attempt && d.Rescues == rescues, "message %q: attempt %d, %d rescues; want %d and %d", d.Body,
		d.Attempt, d.Rescues, attempt, rescues)
}

// closedFor fails if something can be claimed before that long is over, and goes on when it is.
func (t *T) closedFor(d time.Duration) {
	t.nothing()
	t.later(d - 30*time.Second)
	t.Advance(time.Minute)
}

// nothing fails if a claim gives something.
func (t *T) nothing() {
	t.claims()
}

func (t *T) wantBodies(ds []pawl.Delivery, bodies ...string) {
	got := bodiesOf(ds)
	t.check(slices.Equal(got, bodies), "claimed %q; want %q", got, bodies)
}

func bodiesOf(ds []pawl.Delivery) []string {
	return each(ds, func(d pawl.Delivery) string { return string(d.Body) })
}

// settle settles and returns what was refused.
func (t *T) settle(items ...store.Settlement) []store.Refusal {
	return t.settleBatch(store.NewBatch(items...))
}

// settleBatch settles a batch, in a call that must succeed, and returns what was refused.
func (t *T) settleBatch(batch store.Batch[store.Settlement]) []store.Refusal {
	refused, err := t.Store.Settle(t.ctx(), batch)
	t.must(err)
	return refused
}

// settled settles, and nothing may be refused.
func (t *T) settled(items ...store.Settlement) {
	t.wantItems(t.settle(items...))
}

// wantItems fails unless exactly these items of a settle were refused, and returns the refusals.
func (t *T) wantItems(refused []store.Refusal, items ...int) []store.Refusal {
	var got []int
	for _, r := range refused {
		got = append(got, r.Index)
	}
	t.check(slices.Equal(got, items), "settle refused items %v: %v; want %v", got, refused, items)
	return refused
}

// wantLost fails unless exactly these items of a settle were refused, as lost.
func (t *T) wantLost(refused []store.Refusal, items ...int) {
	for _, r := range t.wantItems(refused, items...) {
		t.wantErr(r.Err, pawl.ErrLeaseLost)
	}
}

// ack acks deliveries, which must succeed.
func (t *T) ack(ds ...pawl.Delivery) {
	t.settled(verdicts(store.Ack, ds)...)
}

// retry settles as failed, to be tried again after that long.
func (t *T) retry(d pawl.Delivery, after time.Duration) {
	t.settled(retrying(d, after, 0))
}

// kill settles as failed for good.
func (t *T) kill(d pawl.Delivery, reason string) {
	t.fails(d, store.Dead, failure(reason))
}

// fails settles with that verdict and failure.
func (t *T) fails(d pawl.Delivery, v store.Verdict, f store.Failure) {
	t.settled(store.Settlement{Token: d.Token, ID: d.ID, Verdict: v, Failure: f})
}

// release gives back.
func (t *T) release(d pawl.Delivery, after time.Duration) {
	t.settled(store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Release, After: after})
}

func verdict(d pawl.Delivery, v store.Verdict) store.Settlement {
	return store.Settlement{Token: d.Token, ID: d.ID, Verdict: v}
}

// verdicts settle all deliveries alike.
func verdicts(v store.Verdict, ds []pawl.Delivery) []store.Settlement {
	return each(ds, func(d pawl.Delivery) store.Settlement { return verdict(d, v) })
}

func failure(reason string) store.Failure {
	return store.Failure{Kind: "Test", Error: reason, Rule: "rule", Action: "action", Worker: "worker",
		Ran: time.Second}
}

// hold acks and keeps the lane closed for that long.
func (t *T) hold(d pawl.Delivery, pause time.Duration) {
	t.settled(store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack, Hold: pause})
}

// emit acks and emits.
func (t *T) emit(d pawl.Delivery, msgs ...pawl.Message) {
	t.settled(emitting(d, msgs...))
}

func emitting(d pawl.Delivery, msgs ...pawl.Message) store.Settlement {
	return store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack, Emit: msgs}
}

// lost fails unless every item of a settle is refused as lost.
func (t *T) lost(items ...store.Settlement) {
	var all []int
	for i := range items {
		all = append(all, i)
	}
	t.wantLost(t.settle(items...), all...)
}

// expiry is after the end of every lease.
const expiry = lease + time.Minute

// expire lets every lease end.
func (t *T) expire() { t.Advance(expiry) }

// each makes a value of every item.
func each[A, B any](items []A, of func(A) B) []B {
	var all []B
	for _, item := range items {
		all = append(all, of(item))
	}
	return all
}

// numbered returns prefix0, prefix1 …
func numbered(prefix string, n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = prefix + strconv.Itoa(i)
	}
	return s
}
