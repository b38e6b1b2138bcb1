package storetest_test

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

func rankMutants() []mutant {
	by := func(order func(a, b *pawl.Delivery) int) breakage {
		return choosing(func(ds []pawl.Delivery) {
			slices.SortStableFunc(ds, func(a, b pawl.Delivery) int { return order(&a, &b) })
		})
	}
	age := func(a, b *pawl.Delivery) int {
		return cmp.Or(cmp.Compare(b.Waited, a.Waited), cmp.Compare(a.Token.Seq, b.Token.Seq))
	}
	priority := func(a, b *pawl.Delivery) int { return cmp.Compare(b.Priority, a.Priority) }
	points := func(points func(d *pawl.Delivery) float64) breakage {
		return by(func(a, b *pawl.Delivery) int { return cmp.Or(cmp.Compare(points(b), points(a)), age(a, b)) })
	}
	return []mutant{
		{"rankIgnoresPriority", by(age), []string{"PriorityGoesFirst", "BestRankFirst", "AgeingIsExact"}},
		{"rankIgnoresAge", by(func(a, b *pawl.Delivery) int { return cmp.Or(priority(a, b), age(a, b)) }),
			[]string{"AgeingIsExact", "AgeingIsTwoMinutesByDefault"}},
		{"ageingByWholePoints", points(func(d *pawl.Delivery) float64 {
			return float64(d.Priority + int(d.Waited/(10*time.Minute)))
		}), []string{"AgeingIsExact"}},
		{"capTiesByAge", points(func(d *pawl.Delivery) float64 {
			return min(100, float64(d.Priority)+d.Waited.Minutes()/2)
		}), []string{"AgeingStopsAtTheCap"}},
		{"newestFirst", by(func(a, b *pawl.Delivery) int { return cmp.Or(priority(a, b), -age(a, b)) }),
			[]string{"AgeingStopsAtTheCap"}},
		{"rankFromEnqueued", by(func(a, b *pawl.Delivery) int { return a.EnqueuedAt.Compare(b.EnqueuedAt) }),
			[]string{"DelayedRankFromVisible"}},
		{"retryChangesRank", reappended(false), []string{"RetryKeepsTheRank"}},
		{"releaseChangesRank", releaseChangesRank, []string{"ReleaseKeepsTheRank"}},
		{"laneStandsAtItsBest", laneStandsAtItsBest, []string{"LaneStandsAtItsFirst"}},
	}
}

// releaseChangesRank puts what was released behind everything else.
func releaseChangesRank(b *broken) store.Store {
	released := map[string]int{}
	b = choosing(func(ds []pawl.Delivery) {
		slices.SortStableFunc(ds, func(a, b pawl.Delivery) int { return cmp.Compare(released[a.ID], released[b.ID]) })
	})(b).(*broken)
	return settling(func(s *store.Settlement) {
		if s.Verdict == store.Release {
			released[s.ID]++
		}
	})(b)
}

// laneStandsAtItsBest keeps a lane at the rank of the best message that it had.
func laneStandsAtItsBest(b *broken) store.Store {
	best := map[string]int{}
	b = choosing(func(ds []pawl.Delivery) {
		slices.SortStableFunc(ds, func(a, b pawl.Delivery) int {
			return cmp.Compare(max(b.Priority, best[string(b.Key)]), max(a.Priority, best[string(a.Key)]))
		})
	})(b).(*broken)
	return appending(func(m *pawl.Message) {
		if m.Key != nil {
			best[string(m.Key)] = max(best[string(m.Key)], m.Priority)
		}
	})(b)
}

func rescueMutants() []mutant {
	return []mutant{
		{"rescueBlamesAll", rescueBlamesAll, []string{"RescueBlamesTheFirst", "NeighboursAreNotPunished"}},
		{"rescueCountsAttempt", claimed(func(_ *broken, ds []pawl.Delivery) []pawl.Delivery {
			for i := range ds {
				ds[i].Attempt += ds[i].Rescues
			}
			return ds
		}), []string{"RescueIsNoAttempt"}},
		{"rescueForgotten", claimed(func(_ *broken, ds []pawl.Delivery) []pawl.Delivery {
			for i := range ds {
				ds[i].Rescues = 0
			}
			return ds
		}), []string{"RescueIsNoAttempt", "RescueBlamesTheFirst"}},
		{"failureMakesSuspects", failureMakesSuspects, []string{"FailureMakesNoSuspect"}},
		{"suspectLeadsARun", suspectLeadsARun, []string{"SuspectIsItsOwnRun"}},
		{"oneRescueIsSuspected", oneRescueIsSuspected, []string{"OneRescueSaysNothing"}},
		{"suspectsUnweighed", wanting(func(_ *store.Want, l *store.Lease) { l.Suspects = 1000 }),
			[]string{"SuspectsAreWeighed", "SuspectsAreWeighedAcrossTopics", "SuspectStaysOne"}},
		{"suspectsHeldBack", wanting(func(_ *store.Want, l *store.Lease) { l.Suspects = 0 }),
			[]string{"SuspectsAreWeighed", "SuspectIsServedByRank"}},
		{"suspectsWeighTheSame", suspectsWeighTheSame, []string{"SuspectsAreWeighed"}},
		{"aloneBesideOthers", aloneBesideOthers, []string{"AloneIsTheOnlyDelivery"}},
		{"neighbourPunished", neighbourPunished, []string{"NeighboursAreNotPunished"}},
		{"aloneUnpromised", wanting(func(_ *store.Want, l *store.Lease) { l.Alone = true }),
			[]string{"AloneNeedsThePromise"}},
		{"lonelyNeverKills", wanting(func(_ *store.Want, l *store.Lease) { l.Alone = false }),
			[]string{"ThreeLonelyRescuesKill", "LonelyRescuesAddUp"}},
		{"ownersAreOne", wanting(func(_ *store.Want, l *store.Lease) { l.Owner = "one" }),
			[]string{"DeathsPutRunningAloneOff", "DeathsAreFigures"}},
		{"putOffForEver", putOffForEver, []string{"PuttingOffEnds"}},
		{"ownersAreMany", ownersAreMany, []string{"DeathsOfOneOwnerAreOne", "DeathsAreFigures"}},
		{"ownerUntold", wanting(func(_ *store.Want, l *store.Lease) { l.Owner = "" }),
			[]string{"RescueIsOnRecord", "RecordOfALease"}},
	}
}

// rescueBlamesAll counts a rescue for every message whose lease ended.
func rescueBlamesAll(b *broken) store.Store {
	open := map[string]bool{}
	extra := map[string]int{}
	return all(claimed(func(_ *broken, ds []pawl.Delivery) []pawl.Delivery {
		for i := range ds {
			if d := &ds[i]; open[d.ID] && d.Rescues == 0 {
				extra[d.ID]++
			}
			open[ds[i].ID] = true
			ds[i].Rescues += extra[ds[i].ID]
		}
		return ds
	}), settling(func(s *store.Settlement) { delete(open, s.ID) }))(b)
}

// failureMakesSuspects hands out what has failed before alone.
func failureMakesSuspects(b *broken) store.Store {
	b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
		ds, err := b.Store.Claim(ctx, wants, terms)
		if len(ds) > 1 && ds[0].Attempt > 1 {
			err = b.giveBack(ctx, ds[1:])
			ds = ds[:1]
		}
		return ds, err
	}
	return b
}

// suspectLeadsARun hands out what is behind a suspect with it.
func suspectLeadsARun(b *broken) store.Store {
	b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
		ds, err := b.Store.Claim(ctx, wants, terms)
		for i := range ds {
			if store.Weight(ds[i].Rescues) > 0 && ds[i].Key != nil {
				behind := ds[i]
				behind.Body = []byte("b")
				behind.Rescues = 0
				return slices.Insert(ds, i+1, behind), err
			}
		}
		return ds, err
	}
	return b
}

// oneRescueIsSuspected hands out nothing beside a message with one rescue.
func oneRescueIsSuspected(b *broken) store.Store {
	b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
		ds, err := b.Store.Claim(ctx, wants, terms)
		if len(ds) > 1 && ds[0].Rescues == 1 {
			err = b.giveBack(ctx, ds[1:])
			ds = ds[:1]
		}
		return ds, err
	}
	return b
}

// suspectsWeighTheSame counts suspects, and does not weigh them.
func suspectsWeighTheSame(b *broken) store.Store {
	b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
		terms.Suspects *= 8
		return b.Store.Claim(ctx, wants, terms)
	}
	return b
}

// aloneBesideOthers hands out others beside a message that is carried out alone.
func aloneBesideOthers(b *broken) store.Store {
	b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
		ds, err := b.Store.Claim(ctx, wants, terms)
		if err != nil || len(ds) != 1 || !store.Solitary(ds[0].Rescues) {
			return ds, err
		}
		more, err := b.Store.Claim(ctx, wants, terms)
		return append(ds, more...), err
	}
	return b
}

// putOffForEver tries nothing alone while the deaths are young, however long that is.
func putOffForEver(b *broken) store.Store {
	b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
		ds, err := b.Store.Claim(ctx, wants, terms)
		if err != nil || len(ds) != 1 || !store.Solitary(ds[0].Rescues) {
			return ds, err
		}
		topics, _ := store.As[store.Topics](b.Store)
		stats, err := topics.Stats(ctx, ds[0].Topic)
		if err != nil {
			return nil, err
		}
		if _, wait := stats[0].Deaths.PutOff(b.now(), terms.For, b.now()); wait {
			return nil, b.giveBack(ctx, ds)
		}
		return ds, nil
	}
	return b
}

// ownersAreMany takes every claim for one of another process.
func ownersAreMany(b *broken) store.Store {
	n := 0
	b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
		n++
		terms.Owner += strconv.Itoa(n)
		return b.Store.Claim(ctx, wants, terms)
	}
	return b
}

// neighbourPunished treats the others of a rescued run as suspects, too.
func neighbourPunished(b *broken) store.Store {
	claimedOnce := map[string]bool{}
	b.onClaim = func(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
		ds, err := b.Store.Claim(ctx, wants, terms)
		for _, d := range ds {
			if claimedOnce[d.ID] && d.Rescues == 0 && len(ds) > 1 {
				_ = b.giveBack(ctx, ds)
				return nil, err
			}
		}
		for _, d := range ds {
			claimedOnce[d.ID] = true
		}
		return ds, err
	}
	return b
}
