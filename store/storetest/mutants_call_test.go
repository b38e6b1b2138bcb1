package storetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

func appendMutants() []mutant {
	return []mutant{
		{"uniqueForgotten", appending(func(m *pawl.Message) { m.Unique = pawl.Unique{} }),
			[]string{"UniqueFirstWins", "UniqueWithinABatch"}},
		{"uniqueOnlyWithoutID", appending(func(m *pawl.Message) {
			if m.ID != "" {
				m.Unique = pawl.Unique{}
			}
		}), []string{"UniqueRefusesItsOwner"}},
		{"uniqueForeverAlways", appending(func(m *pawl.Message) {
			if m.Unique.Key != "" {
				m.Unique.For = pawl.Forever
			}
		}), []string{"UniqueWhileItLives", "UniqueFreedByDeath", "UniqueFreedByCancel", "UniqueForADuration"}},
		{"uniqueWhileItLivesAlways", appending(func(m *pawl.Message) { m.Unique.For = 0 }),
			[]string{"UniqueForADuration", "UniqueForever", "UniqueUntilClaimed"}},
		{"uniqueWithoutScope", appending(func(m *pawl.Message) { m.Unique.Scope = "" }),
			[]string{"UniqueScopeCrossesTopics"}},
		{"uniqueEverywhere", appending(func(m *pawl.Message) {
			if m.Unique.Key != "" {
				m.Unique.Scope = "s"
			}
		}), []string{"UniqueScopeIsTheTopic", "UniqueScopeCrossesTopics"}},
		{"uniqueConcatenated", appending(func(m *pawl.Message) {
			if u := &m.Unique; u.Scope != "" {
				u.Key, u.Scope = u.Scope+u.Key, "s"
			}
		}), []string{"UniqueScopeCrossesTopics"}},
		{"uniqueCollation", appending(func(m *pawl.Message) { m.Unique.Key = strings.ToLower(m.Unique.Key) }),
			[]string{"UniqueKeysAreBytes"}},
		{"idIsAUUID", appending(func(m *pawl.Message) {
			if len(m.ID) == 36 {
				m.ID = strings.ToLower(m.ID)
			}
		}), []string{"IDIsKept"}},
		{"bodyTruncated", appending(func(m *pawl.Message) { m.Body = m.Body[:min(len(m.Body), 1<<20)] }),
			[]string{"LargestBody"}},
		{"headersLost", appending(func(m *pawl.Message) { m.Headers = nil }),
			[]string{"MessageComesBackWhole", "LimitsOfAMessageAreTaken"}},
		{"textBodies", appending(func(m *pawl.Message) { m.Body = []byte(strings.ToValidUTF8(string(m.Body), "?")) }),
			[]string{"MessageComesBackWhole"}},
		{"badItemRefusesAll", badItemRefusesAll, []string{"BadItemIsRefusedAlone", "ReceiptsAnswerInOrder"}},
		{"badItemIsDropped", badItemIsDropped, []string{"BadItemIsRefusedAlone"}},
		{"batchIdIgnored", batchIDIgnored, []string{"AppendRepeatedReturnsTheFirstOutcome", "AppendRepeatedAfterTheAck",
			"SettleRepeatedReturnsTheFirstOutcome", "SettleRepeatedEmitsOnce"}},
		{"emptyBatchIdRemembered", emptyBatchIDRemembered, []string{"EmptyBatchIDAsksForNoMemory"}},
		{"givenUpIsSentLater", givenUpIsSentLater, []string{"CallerKeepsItsBytes"}},
		{"batchForgottenSoon", batchForgottenSoon, []string{"BatchIsRememberedForAnHour"}},
	}
}

func badItemRefusesAll(b *broken) store.Store {
	b.onAppend = func(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
		for i := range batch.Items {
			if err := batch.Items[i].Validate(); err != nil {
				return nil, err
			}
		}
		return b.Store.Append(ctx, batch)
	}
	return b
}

func badItemIsDropped(b *broken) store.Store {
	b.onAppend = func(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
		receipts, err := b.Store.Append(ctx, batch)
		for i := range receipts {
			receipts[i].Err = nil
		}
		return receipts, err
	}
	return b
}

func batchIDIgnored(b *broken) store.Store {
	b.onAppend = func(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
		return b.Store.Append(ctx, store.NewBatch(batch.Items...))
	}
	b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
		return b.Store.Settle(ctx, store.NewBatch(batch.Items...))
	}
	return b
}

func emptyBatchIDRemembered(b *broken) store.Store {
	b.onAppend = func(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
		if batch.ID == "" {
			batch.ID = "none"
		}
		return b.Store.Append(ctx, batch)
	}
	return b
}

func batchForgottenSoon(b *broken) store.Store {
	b.onAppend = func(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
		batch.ID += b.now().Truncate(time.Hour / 2).String()
		return b.Store.Append(ctx, batch)
	}
	return b
}

// givenUpIsSentLater appends what was given up with the next call, as it is then.
func givenUpIsSentLater(b *broken) store.Store {
	var late []pawl.Message
	b.onAppend = func(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
		if end, ok := ctx.Deadline(); ok && time.Until(end) < time.Second {
			late = append(late, batch.Items...)
			return nil, &store.Error{Op: "append", Code: store.ErrUnknown}
		}
		if _, err := b.Store.Append(ctx, store.NewBatch(late...)); err != nil {
			return nil, err
		}
		late = nil
		return b.Store.Append(ctx, batch)
	}
	return b
}

func settleMutants() []mutant {
	on := func(v store.Verdict, change func(*store.Settlement)) breakage {
		return settling(func(s *store.Settlement) {
			if s.Verdict == v {
				change(s)
			}
		})
	}
	return []mutant{
		{"ackLosesEmit", settling(func(s *store.Settlement) { s.Emit = nil }),
			[]string{"EmitComesWithTheAck", "EmitOfARunAddsUp"}},
		{"emitBeforeAck", emitBeforeAck, []string{"EmitNeverWithoutTheAck", "InvalidEmitRefusesItsItem"}},
		{"emitOnLost", emitOnLost, []string{"EmitNeverWithoutTheAck"}},
		{"emitKeepsItsOwnID", emitKeepsItsOwnID, []string{"EmitIDsDerive"}},
		{"emitIDsByTime", emitIDsByTime, []string{"EmitIDsDerive"}},
		{"dupEmitIsError", dupEmitIsError, []string{"EmitDuplicateIsSkipped"}},
		{"emitEndsTheRun", emitEndsTheRun, []string{"EmitLeavesTheRunOpen"}},
		{"releaseCountsAttempt", on(store.Release, func(s *store.Settlement) { s.Verdict = store.Retry }),
			[]string{"ReleaseCountsNothing", "ReasonIsOfTheLastTransition"}},
		{"retryCountsNothing", on(store.Retry, func(s *store.Settlement) { s.Verdict = store.Release }),
			[]string{"AttemptIsASettledFailure", "FailureIsOnRecord"}},
		{"deadIsForgotten", on(store.Dead, func(s *store.Settlement) {
			s.Verdict, s.Failure = store.Ack,
				store.Failure{}
		}), []string{"DeadLettersAreComplete", "DeadIsNeverDelivered"}},
		{"errorsUnabridged", nothingCut, []string{"LongErrorsAreCut"}},
		{"failureWithoutRule", settling(func(s *store.Settlement) { s.Failure.Rule = "" }),
			[]string{"FailureIsOnRecord", "DeadLettersAreComplete"}},
		{"oneLostLosesAll", oneLostLosesAll, []string{"SettleTwiceIsFenced", "BatchMixesLanes"}},
	}
}

// emitBeforeAck appends what is emitted before it settles.
func emitBeforeAck(b *broken) store.Store {
	b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
		batch.Items = slices.Clone(batch.Items)
		for i := range batch.Items {
			s := &batch.Items[i]
			var emits []pawl.Message
			for j, m := range s.Emit {
				m.ID = pawl.EmitID(s.ID, j)
				emits = append(emits, m)
			}
			if _, err := b.Store.Append(ctx, store.NewBatch(emits...)); err != nil {
				return nil, err
			}
			s.Emit = nil
		}
		return b.Store.Settle(ctx, batch)
	}
	return b
}

func emitOnLost(b *broken) store.Store {
	b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
		refused, err := b.Store.Settle(ctx, batch)
		for _, r := range refused {
			if _, err := b.Store.Append(ctx, store.NewBatch(batch.Items[r.Index].Emit...)); err != nil {
				return nil, err
			}
		}
		return refused, err
	}
	return b
}

// settleThenAppend emits by appends of its own, with ids as id makes them.
func settleThenAppend(b *broken, id func(s *store.Settlement, i int) string) store.Store {
	b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
		var emits []pawl.Message
		batch.Items = slices.Clone(batch.Items)
		for i := range batch.Items {
			s := &batch.Items[i]
			for j, m := range s.Emit {
				m.ID = id(s, j)
				emits = append(emits, m)
			}
			s.Emit = nil
		}
		refused, err := b.Store.Settle(ctx, batch)
		if err == nil {
			_, err = b.Store.Append(ctx, store.NewBatch(emits...))
		}
		return refused, err
	}
	return b
}

func emitKeepsItsOwnID(b *broken) store.Store {
	return settleThenAppend(b, func(s *store.Settlement, i int) string {
		if own := s.Emit[i].ID; own != "" {
			return own
		}
		return pawl.EmitID(s.ID, i)
	})
}

func emitIDsByTime(b *broken) store.Store {
	return settleThenAppend(b, func(*store.Settlement, int) string { return pawl.NewID() })
}

// dupEmitIsError refuses an ack when what it emits is there already.
func dupEmitIsError(b *broken) store.Store {
	b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
		keys := map[string]bool{}
		looker, _ := store.As[store.Inspector](b.Store, store.CanLookup)
		for r, err := range looker.List(ctx, store.Filter{}) {
			keys[r.Unique.Key] = err == nil && r.Unique.Key != ""
		}
		for i, s := range batch.Items {
			for _, m := range s.Emit {
				if keys[m.Unique.Key] {
					return []store.Refusal{{Index: i, Err: store.ErrConflict}}, nil
				}
			}
		}
		return b.Store.Settle(ctx, batch)
	}
	return b
}

// emitEndsTheRun holds for no time, which is no plain ack to it.
func emitEndsTheRun(b *broken) store.Store {
	return on1ns(func(s *store.Settlement) bool { return len(s.Emit) > 0 })(b)
}

func on1ns(which func(*store.Settlement) bool) breakage {
	return settling(func(s *store.Settlement) {
		if s.Verdict == store.Ack && which(s) {
			s.Hold = 1
		}
	})
}

// nothingCut keeps an error as it is, up to twice the limit.
func nothingCut(b *broken) store.Store {
	errs := map[string]string{}
	looker, _ := store.As[store.Inspector](b.Store, store.CanLookup)
	s := settling(func(s *store.Settlement) { errs[s.ID] = s.Failure.Error })(b)
	return &brokenInspector{Store: s, Inspector: looker, onGet: func(r store.Record) store.Record {
		for i := range r.History {
			r.History[i].Error = errs[r.ID]
		}
		return r
	}}
}

// oneLostLosesAll refuses a whole batch for one stale token.
func oneLostLosesAll(b *broken) store.Store {
	b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
		refused, err := b.Store.Settle(ctx, batch)
		if len(refused) == 0 {
			return nil, err
		}
		refused = nil
		for i := range batch.Items {
			refused = append(refused, store.Refusal{Index: i, Err: pawl.ErrLeaseLost})
		}
		return refused, err
	}
	return b
}

func callMutants() []mutant {
	return []mutant{
		{"closeClosesNothing", closeClosesNothing, []string{"ClosedStoreSaysSo"}},
		{"contextIgnored", contextIgnored, []string{"ContextIsHonoured"}},
		{"emptyAppendIsAnError", emptyAppendIsAnError, []string{"EmptyCallsAreFine"}},
		{"claimCreatesTheTopic", claimCreatesTheTopic, []string{"UnknownTopicIsEmpty"}},
		{"topicCollation", appending(func(m *pawl.Message) { m.Topic = strings.ToLower(m.Topic) }),
			[]string{"TopicNamesAreExact"}},
		{"limitsAreLower", limitsAreLower, []string{"LimitsOfAMessageAreTaken"}},
		{"leaseOfAnyLength", leaseOfAnyLength, []string{"LeaseHasLimits"}},
		{"onlyTheFirstWant", onlyTheFirstWant, []string{"ClaimOfSeveralTopics"}},
	}
}

type unclosed struct{ *broken }

func (unclosed) Close() error { return nil }

func closeClosesNothing(b *broken) store.Store { return unclosed{b} }

func contextIgnored(b *broken) store.Store {
	b.onSettle = func(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
		return b.Store.Settle(context.WithoutCancel(ctx), batch)
	}
	return b
}

func emptyAppendIsAnError(b *broken) store.Store {
	b.onAppend = func(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
		if len(batch.Items) == 0 {
			return nil, errors.New("syntax error near ')'")
		}
		return b.Store.Append(ctx, batch)
	}
	return b
}

func claimCreatesTheTopic(b *broken) store.Store {
	return wanting(func(w *store.Want, _ *store.Lease) {
		if topics, ok := store.As[store.Topics](b.Store); ok {
			_, _ = topics.Declare(context.Background(), store.Declaration{Name: w.Topic})
		}
	})(b)
}

func limitsAreLower(b *broken) store.Store {
	b.onAppend = func(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
		receipts, err := b.Store.Append(ctx, batch)
		for i := range receipts {
			if len(batch.Items[i].Key) > 767 { // bytes of an index entry, in some databases
				receipts[i].Err = &pawl.InvalidError{Field: "key", Why: "is too long"}
			}
		}
		return receipts, err
	}
	return b
}

func leaseOfAnyLength(b *broken) store.Store {
	return wanting(func(_ *store.Want, l *store.Lease) { l.For = min(max(l.For, time.Second), store.MaxLease) })(b)
}

func onlyTheFirstWant(b *broken) store.Store {
	b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
		return b.Store.Claim(ctx, wants[:min(1, len(wants))], terms)
	}
	return b
}
