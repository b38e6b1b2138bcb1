package storetest_test

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

func laneMutants() []mutant {
	return []mutant{
		{"noLanes", appending(func(m *pawl.Message) { m.Key = nil }), []string{"LaneIsHeldOnce", "RetryKeepsTheHead"}},
		{"oneLane", oneLane, []string{"NoKeyIsALaneOfItsOwn"}},
		{"keyCollation", keyCollation, []string{"KeysAreBytes"}},
		{"lastInFirstOut", lastInFirstOut, []string{"LaneKeepsItsOrder", "FirstComeFirstServed", "EmitKeepsItsOrder"}},
		{"runReordered", claimed(inLanes(func(a, b *pawl.Delivery) int {
			return cmp.Compare(b.Token.Seq, a.Token.Seq)
		})),
			[]string{"RunIsTheHeadOfTheLane"}},
		{"priorityReordersTheRun", claimed(inLanes(func(a, b *pawl.Delivery) int {
			return cmp.Compare(b.Priority, a.Priority)
		})),
			[]string{"PriorityNeverReordersALane"}},
		{"delayedKeepsItsPlace", claimed(inLanes(func(a, b *pawl.Delivery) int {
			return a.EnqueuedAt.Compare(b.EnqueuedAt)
		})),
			[]string{"DelayedJoinsTheTail"}},
		{"delayedBlocks", delayedBlocks, []string{"DelayedBlocksNobody"}},
		{"delayIgnored", appending(func(m *pawl.Message) { m.Delay = 0 }), []string{"DelayPutsOff"}},
		{"retryLosesHead", reappended(true), []string{"RetryKeepsTheHead", "RetryAtOnce"}},
		{"retryIgnoresAfter", settling(func(s *store.Settlement) {
			if s.Verdict == store.Retry {
				s.After = 0
			}
		}), []string{"RetryKeepsTheHead"}},
		{"tailRetryClosesItsLane", retried(func(s *store.Settlement) { s.Hold = max(s.Hold, s.After) }),
			[]string{"RetryGoesToTheTail", "TailRetryLeavesTheRunOpen"}},
		{"tailRetryWaitsForTheHold", retried(func(s *store.Settlement) { s.After = max(s.After, s.Hold) }),
			[]string{"TailRetryHolds", "TailRetryIsOnRecord"}},
		{"tailRetryIgnoresAfter", retried(func(s *store.Settlement) { s.After = 0 }),
			[]string{"RetryGoesToTheTail", "TailRetryAmongTheDelayed", "TailRetryIsOnRecord"}},
		{"tailRetryTakesTime", retried(func(s *store.Settlement) { s.After = max(s.After, time.Second) }),
			[]string{"TailRetryAtOnce"}},
		{"tailRetryHoldsNothing", retried(func(s *store.Settlement) { s.Hold = 0 }),
			[]string{"TailRetryHolds", "TailIsForSharedLanes"}},
		{"tailRetryCountsNoThrottle", retried(func(s *store.Settlement) { s.Throttled = false }),
			[]string{"TailRetryKeepsWhatItWas"}},
		{"tailRetryForgets", reappended(true), []string{"TailRetryKeepsTheRank", "SuspectAtTheTail"}},
		{"tailUntold", claimed(func(_ *broken, ds []pawl.Delivery) []pawl.Delivery {
			for i := range ds {
				ds[i].Tail = false
			}
			return ds
		}), []string{"TailIsToldWithTheDelivery"}},
		{"tailTakesTheReleased", settling(func(s *store.Settlement) {
			if s.Verdict == store.Release {
				s.Verdict = store.Retry
			}
		}), []string{"TailLeavesTheHeadToOthers"}},
		{"releaseIgnoresAfter", settling(func(s *store.Settlement) {
			if s.Verdict == store.Release {
				s.After = 0
			}
		}), []string{"ReleaseKeepsTheHead"}},
		{"holdIgnored", settling(func(s *store.Settlement) { s.Hold = 0 }),
			[]string{"HoldClosesTheLane", "RunEndsWithAHold"}},
		{"throttledIsAnAttempt", settling(func(s *store.Settlement) { s.Throttled = false }),
			[]string{"ThrottledIsNoAttempt"}},
		{"factsForgotten", settling(func(s *store.Settlement) { s.Failure.Attrs = nil }), []string{"DeadKeepFacts"}},
		{"deadFreesNothing", deadFreesNothing, []string{"DeadHeadFrees"}},
		{"strandedTicket", strandedTicket, []string{"LaneGoesOn"}},
		{"runNotCutOnRetry", runNotCut, []string{"RunEndsWithTheFirstOther", "RunRefusesAfterItsEnd"}},
		{"settledOneByOne", settledOneByOne, []string{"RunSettlesInLaneOrder"}},
		{"runFreedByItsFirstAck", runFreedByItsFirstAck, []string{"RunEndsWithItsLastAck", "RunIsAckedPieceByPiece"}},
		{"runUnlimited", wanting(func(w *store.Want, _ *store.Lease) { w.Run = store.MaxBatch }),
			[]string{"RunHasACap", "RunIsTheHeadOfTheLane"}},
		{"bytesIgnored", wanting(func(w *store.Want, _ *store.Lease) { w.MaxBytes = 0 }),
			[]string{"BytesAreBounded", "OversizeComesAlone", "BytesBoundARun"}},
		{"limitPerLane", wanting(func(w *store.Want, _ *store.Lease) { w.Run, w.Limit = w.Limit, 100 }),
			[]string{"LimitHolds"}},
	}
}

// oneLane puts what has no key into one lane.
func oneLane(b *broken) store.Store {
	nobody := []byte("nobody")
	return all(appending(func(m *pawl.Message) {
		if m.Key == nil {
			m.Key = nobody
		}
	}), claimed(func(_ *broken, ds []pawl.Delivery) []pawl.Delivery {
		for i := range ds {
			if bytes.Equal(ds[i].Key, nobody) {
				ds[i].Key = nil
			}
		}
		return ds
	}))(b)
}

// keyCollation compares keys as a database without a binary collation does.
func keyCollation(b *broken) store.Store {
	keys := map[string][]byte{} // by body: the sentence has the key there, too
	return all(appending(func(m *pawl.Message) {
		keys[string(m.Body)] = m.Key
		if k := bytes.TrimRight(bytes.ToLower(m.Key), " \x00"); len(k) > 0 {
			m.Key = k
		}
	}), claimed(func(_ *broken, ds []pawl.Delivery) []pawl.Delivery {
		for i := range ds {
			ds[i].Key = keys[string(ds[i].Body)]
		}
		return ds
	}))(b)
}

// lastInFirstOut appends batches, and emits, back to front.
func lastInFirstOut(b *broken) store.Store {
	b.onAppend = func(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
		batch.Items = slices.Clone(batch.Items)
		slices.Reverse(batch.Items)
		receipts, err := b.Store.Append(ctx, batch)
		slices.Reverse(receipts)
		return receipts, err
	}
	return settling(func(s *store.Settlement) {
		s.Emit = slices.Clone(s.Emit)
		slices.Reverse(s.Emit)
	})(b)
}

// inLanes orders the deliveries of each run anew; their tokens stay in order, so
// that they settle as they are told to.
func inLanes(order func(a, b *pawl.Delivery) int) func(*broken, []pawl.Delivery) []pawl.Delivery {
	return func(_ *broken, ds []pawl.Delivery) []pawl.Delivery {
		for i := 0; i < len(ds); {
			end := i
			for end < len(ds) && ds[end].Token.Lane == ds[i].Token.Lane {
				end++
			}
			slices.SortStableFunc(ds[i:end], func(a, b pawl.Delivery) int { return order(&a, &b) })
			i = end
		}
		return ds
	}
}

// delayedBlocks keeps a lane closed until the last delay in it is over.
func delayedBlocks(b *broken) store.Store {
	until := map[string]time.Time{}
	return all(appending(func(m *pawl.Message) {
		if m.Delay > 0 && m.Key != nil {
			until[string(m.Key)] = b.now().Add(m.Delay)
		}
	}), hiding(func(b *broken, d *pawl.Delivery) bool { return until[string(d.Key)].After(b.now()) }))(b)
}

// reappended retries by appending anew, which loses head and rank; of keyed
// messages, or of the others.
func reappended(keyed bool) breakage {
	return func(b *broken) store.Store {
		messages, attempts := map[string]pawl.Message{}, map[string]int{}
		b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
			ds, err := b.Store.Claim(ctx, wants, terms)
			for i := range ds {
				messages[ds[i].ID] = ds[i].Message
				ds[i].Attempt += attempts[ds[i].ID]
			}
			return ds, err
		}
		b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
			batch.Items = slices.Clone(batch.Items)
			var again []pawl.Message
			for i := range batch.Items {
				s := &batch.Items[i]
				m := messages[s.ID]
				if again = append(again, m); s.Verdict != store.Retry || (m.Key != nil) != keyed {
					again = again[:len(again)-1]
					continue
				}
				again[len(again)-1].Delay = s.After
				attempts[s.ID]++
				s.Verdict, s.After, s.Failure = store.Ack, 0, store.Failure{}
			}
			refused, err := b.Store.Settle(ctx, batch)
			if len(again) > 0 {
				_, err = b.Store.Append(ctx, store.NewBatch(again...))
			}
			return refused, err
		}
		return b
	}
}

// deadFreesNothing leaves a lane closed behind a dead letter.
func deadFreesNothing(b *broken) store.Store {
	dead := map[int64]bool{}
	return all(settling(func(s *store.Settlement) {
		if s.Verdict == store.Dead {
			dead[s.Token.Lane] = true
		}
	}), hiding(func(_ *broken, d *pawl.Delivery) bool { return dead[d.Token.Lane] }))(b)
}

// retried changes retries only.
func retried(change func(*store.Settlement)) breakage {
	return settling(func(s *store.Settlement) {
		if s.Verdict == store.Retry {
			change(s)
		}
	})
}

// strandedTicket forgets that a lane whose ticket was put back has more behind
// it: what was appended while it was held for the second time is never offered.
func strandedTicket(b *broken) store.Store {
	claims, held, stranded := map[string]int{}, map[string]bool{}, map[string]bool{}
	return all(settling(func(*store.Settlement) { clear(held) }), appending(func(m *pawl.Message) {
		if k := string(m.Key); held[k] && claims[k] > 1 {
			stranded[k] = true
		}
	}), hiding(func(_ *broken, d *pawl.Delivery) bool {
		k := string(d.Key)
		if stranded[k] && !held[k] {
			return true
		}
		claims[k]++
		held[k] = d.Key != nil
		return false
	}))(b)
}

// runNotCut takes what follows the end of its run.
func runNotCut(b *broken) store.Store {
	fences := map[int64]bool{}
	b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
		refused, err := b.Store.Settle(ctx, batch)
		for _, s := range batch.Items {
			if s.Verdict != store.Ack {
				fences[s.Token.Fence] = true
			}
		}
		return slices.DeleteFunc(refused,
			func(r store.Refusal) bool { return fences[batch.Items[r.Index].Token.Fence] }), err
	}
	return b
}

// settledOneByOne settles a batch in the order in which it is given.
func settledOneByOne(b *broken) store.Store {
	b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
		var refused []store.Refusal
		for i := range batch.Items {
			one, err := b.Store.Settle(ctx, store.NewBatch(batch.Items[i]))
			if err != nil {
				return nil, err
			}
			for _, r := range one {
				refused = append(refused, store.Refusal{Index: i, Err: r.Err})
			}
		}
		return refused, nil
	}
	return b
}

// runFreedByItsFirstAck gives the rest of a run back after its first ack.
func runFreedByItsFirstAck(b *broken) store.Store {
	next := map[pawl.Token]pawl.Delivery{}
	b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
		ds, err := b.Store.Claim(ctx, wants, terms)
		for i := 1; i < len(ds); i++ {
			if ds[i].Token.Lane == ds[i-1].Token.Lane {
				next[ds[i-1].Token] = ds[i]
			}
		}
		return ds, err
	}
	b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
		refused, err := b.Store.Settle(ctx, batch)
		for _, s := range batch.Items {
			if d, ok := next[s.Token]; ok && s.Verdict == store.Ack {
				_ = b.giveBack(ctx, []pawl.Delivery{d})
			}
		}
		return refused, err
	}
	return b
}
