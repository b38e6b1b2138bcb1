package storetest_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/storetest"
)

// TestRandomStepsRejectMutants: random steps find broken rules without a sentence that
// is about them.
func TestRandomStepsRejectMutants(t *testing.T) {
	names := []string{
		"noFence", "extendNothing", "leaseOfAnHour", "noLanes", "oneLane", "lastInFirstOut", "runReordered",
		"delayedBlocks", "delayIgnored",
		"retryLosesHead", "retryIgnoresAfter", "releaseIgnoresAfter", "holdIgnored", "deadFreesNothing",
		"strandedTicket", "settledOneByOne",
		"runFreedByItsFirstAck", "rankIgnoresPriority", "rankIgnoresAge", "retryChangesRank", "rescueBlamesAll",
		"rescueCountsAttempt",
		"suspectsUnweighed", "suspectsHeldBack", "aloneBesideOthers", "aloneUnpromised", "lonelyNeverKills",
		"uniqueForgotten", "uniqueForeverAlways", "batchIdIgnored", "ackLosesEmit", "emitIDsByTime",
		"releaseCountsAttempt", "retryCountsNothing", "pauseIgnored", "parkIgnored", "retainIgnored", "cancelLeased",
		"ackedHandedOutAgain",
	}
	for _, m := range mutants() {
		if !slices.Contains(names, m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			const walks = 600 // most need one; some are noticed by one in twenty
			for range walks {
				seed := rand.Uint64()
				if why := storetest.RandomFails(t, m.harness(), seed, 200); why != "" {
					t.Logf("seed %d: %s", seed, why)
					return
				}
			}
			t.Errorf("%d walks of 200 steps did not notice", walks)
		})
	}
}

// racing is a store that breaks a rule when several call at once.
type racing struct {
	store.Store
	mu   sync.Mutex
	rand *rand.Rand
	held []pawl.Delivery
	rule string
}

func (r *racing) Unwrap() store.Store { return r.Store }

func (r *racing) oneIn(n int) bool { return r.rand.IntN(n) == 0 }

// Claim hands out, now and then, what somebody else holds.
func (r *racing) Claim(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
	ds, err := r.Store.Claim(ctx, wants, terms)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rule != "claim" {
		return ds, err
	}
	if len(r.held) > 0 && r.oneIn(5) {
		ds = append(ds, r.held[len(r.held)-1])
	}
	r.held = append(r.held, ds...)
	return ds, err
}

// Append returns, now and then, before the messages are there.
func (r *racing) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	r.mu.Lock()
	early := r.rule == "append" && r.oneIn(3)
	r.mu.Unlock()
	if !early {
		return r.Store.Append(ctx, batch)
	}
	batch.Items = slices.Clone(batch.Items)
	receipts := make([]store.Receipt, len(batch.Items))
	for i := range batch.Items {
		if m := &batch.Items[i]; m.ID == "" {
			m.ID = pawl.NewID()
		}
		receipts[i].ID = batch.Items[i].ID
	}
	time.AfterFunc(2*time.Millisecond, func() { _, _ = r.Store.Append(context.Background(), batch) })
	return receipts, nil
}

// Settle says, now and then, that it did what it did not.
func (r *racing) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	r.mu.Lock()
	skip := r.rule == "settle" && r.oneIn(10)
	r.mu.Unlock()
	if skip {
		return nil, nil
	}
	return r.Store.Settle(ctx, batch)
}

// TestConcurrencyRejectsMutants: the tests of concurrency notice what only
// happens when several call at once.
func TestConcurrencyRejectsMutants(t *testing.T) {
	for rule, tests := range map[string][]string{
		"claim": {"claimers", "histories"}, "append": {"claimers", "histories"}, "settle": {"histories"},
	} {
		for _, name := range tests {
			t.Run(rule+"/"+name, func(t *testing.T) {
				t.Parallel()
				h := inMemory(func(s store.Store, _ *clock) store.Store {
					return &racing{Store: s, rule: rule, rand: rand.New(rand.NewPCG(1, 2))}
				})
				why := storetest.RaceFails(t, h, name)
				if why == "" {
					t.Fatal("it did not notice")
				}
				t.Logf("%.300s", why)
			})
		}
	}
}

// TestFaultsRejectMutants: faults notice a store whose calls cannot be repeated.
func TestFaultsRejectMutants(t *testing.T) {
	for _, m := range mutants() {
		if m.name != "batchIdIgnored" && m.name != "emitIDsByTime" && m.name != "retryCountsNothing" {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			if m.name == "emitIDsByTime" {
				m.rule = all(m.rule, batchIDIgnored)
			}
			why := storetest.FaultsFail(t, m.harness(), rand.Uint64(), 200)
			if why == "" {
				t.Fatal("they did not notice")
			}
			t.Log(why)
		})
	}
}
