package storetest_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

func optionalMutants() []mutant {
	return slices.Concat(topicMutants(), lookMutants(), deadMutants(), stateMutants(), markMutants(), paceMutants(),
		resultMutants(), resolveMutants(), removeMutants(), boundMutants(), []mutant{
			{"wakeNever", func(b *broken) store.Store { return deaf{b} }, []string{"WakeOnAppend", "WakeWhenDue"}},
		})
}

type deaf struct{ *broken }

func (deaf) Listen(context.Context, ...string) (<-chan struct{}, error) {
	return make(chan struct{}, 1), nil
}

// brokenTopics are topics of which some methods are replaced.
type brokenTopics struct {
	*broken
	store.Topics
	onDeclare func(*store.Declaration)
	onAlter   func(*store.Topic)
	onPause   func(*time.Duration) (skip bool)
	onStats   func(*store.TopicStats)
}

func (t *brokenTopics) Declare(ctx context.Context, d store.Declaration) (store.Topic, error) {
	if t.onDeclare != nil {
		t.onDeclare(&d)
	}
	return t.Topics.Declare(ctx, d)
}

func (t *brokenTopics) Alter(ctx context.Context, to store.Topic) (store.Topic, error) {
	if t.onAlter != nil {
		t.onAlter(&to)
	}
	return t.Topics.Alter(ctx, to)
}

func (t *brokenTopics) Pause(ctx context.Context, topic string, d time.Duration, by, reason string) error {
	if t.onPause != nil && t.onPause(&d) {
		return nil
	}
	return t.Topics.Pause(ctx, topic, d, by, reason)
}

func (t *brokenTopics) Stats(ctx context.Context, topics ...string) ([]store.TopicStats, error) {
	all, err := t.Topics.Stats(ctx, topics...)
	for i := range all {
		if t.onStats != nil {
			t.onStats(&all[i])
		}
	}
	return all, err
}

func topicMutants() []mutant {
	topics := func(set func(*brokenTopics)) breakage {
		return func(b *broken) store.Store {
			inner, _ := store.As[store.Topics](b.Store)
			t := &brokenTopics{broken: b, Topics: inner}
			set(t)
			return t
		}
	}
	declaring := func(change func(*store.Declaration)) breakage {
		return topics(func(t *brokenTopics) { t.onDeclare = change })
	}
	pausing := func(change func(*time.Duration) bool) breakage {
		return topics(func(t *brokenTopics) { t.onPause = change })
	}
	figures := func(change func(*store.TopicStats)) breakage {
		return topics(func(t *brokenTopics) { t.onStats = change })
	}
	return []mutant{
		{"orderIgnored", declaring(func(d *store.Declaration) { d.Order = "" }),
			[]string{"NoOrderNoLanes", "DeclareCreates"}},
		{"deadlineIgnored", declaring(func(d *store.Declaration) { d.Deadline = 0 }),
			[]string{"LeaseNeverOutlivesTheDeadline", "ExtendStopsAtTheDeadline"}},
		{"ageingIgnored", declaring(func(d *store.Declaration) { d.Ageing = 0 }),
			[]string{"AgeingIsExact", "AgeingChangesForLaterOnes"}},
		{"parkIgnored", declaring(func(d *store.Declaration) { d.Park = nil }),
			[]string{"ParkSendsFollowersToTheDead", "ParkTakesTheRestOfTheRun", "ParkTakesWhatComesLater"}},
		{"tailIgnored", declaring(func(d *store.Declaration) { d.Tail = nil }),
			[]string{"RetryGoesToTheTail", "TailRetryLeavesTheRunOpen", "TailIsDeclared", "TailChangesOnEmptyOnly"}},
		{"retainIgnored", declaring(func(d *store.Declaration) { d.Retain = nil }),
			[]string{"RetainKeepsTheAcked", "IDOfTheRetainedIsTaken"}},
		{"boundIgnored", declaring(func(d *store.Declaration) { d.MaxWaiting = nil }),
			[]string{"FullTopicRefuses", "BoundIsDeclared"}},
		{"declareKeeps", topics(declareKeeps), []string{"NewestDeclarationWins", "AlteredIsDeclared"}},
		{"alterIgnoresTheVersion", topics(alterIgnoresTheVersion), []string{"AlterComparesTheVersion"}},
		{"pauseIgnored", pausing(func(*time.Duration) bool { return true }),
			[]string{"PauseStopsClaims", "TimedPauseEndsByItself", "PauseSaysWhy"}},
		{"pauseNeverEnds", pausing(func(d *time.Duration) bool { *d = 0; return false }),
			[]string{"TimedPauseEndsByItself", "PauseReplacesThePause"}},
		{"statsForgetCancelled", figures(func(st *store.TopicStats) { st.Cancelled = 0 }),
			[]string{"StatsCountTotals", "StatsAddUp"}},
		{"statsCountHeldAsWaiting", figures(func(st *store.TopicStats) {
			st.Waiting, st.Delayed = st.Waiting+st.Delayed,
				0
		}), []string{"StatsCountStates"}},
		{"duplicatesUncounted", figures(func(st *store.TopicStats) { st.Duplicates = 0 }),
			[]string{"StatsCountTotals", "EmitDuplicateIsSkipped", "DuplicateStoresNothing"}},
		{"stuckUncounted", figures(func(st *store.TopicStats) { st.Stuck = 0 }), []string{"StuckAreCounted"}},
		{"lastAckUntold", figures(func(st *store.TopicStats) { st.LastAck = time.Time{} }), []string{"LastAckIsTold"}},
		{"oldestUntold", figures(func(st *store.TopicStats) { st.OldestWaiting = 0 }), []string{"OldestWaitingIsTold"}},
	}
}

// declareKeeps lets the first declaration win.
func declareKeeps(t *brokenTopics) {
	t.onDeclare = func(d *store.Declaration) {
		if now, err := t.Topics.Topic(context.Background(), d.Name); err == nil && now.Version > 0 {
			*d = store.Declaration{Name: d.Name}
		}
	}
}

func alterIgnoresTheVersion(t *brokenTopics) {
	t.onAlter = func(to *store.Topic) {
		if now, err := t.Topics.Topic(context.Background(), to.Name); err == nil {
			to.Version = now.Version
		}
	}
}

// brokenInspector is an inspector of which some methods are replaced.
type brokenInspector struct {
	store.Store
	store.Inspector
	onGet    func(store.Record) store.Record
	onList   func(store.Filter, iter.Seq2[store.Record, error]) iter.Seq2[store.Record, error]
	onCancel func(refused map[string]error)

	idle bool // RunNow does nothing, Skip removes
}

func (i *brokenInspector) Unwrap() store.Store { return i.Store }

func (i *brokenInspector) Get(ctx context.Context, id string) (store.Record, error) {
	r, err := i.Inspector.Get(ctx, id)
	if i.onGet != nil && err == nil {
		r = i.onGet(r)
	}
	return r, err
}

func (i *brokenInspector) List(ctx context.Context, f store.Filter) iter.Seq2[store.Record, error] {
	seq := i.Inspector.List(ctx, f)
	if i.onList != nil {
		seq = i.onList(f, seq)
	}
	return seq
}

func (i *brokenInspector) Cancel(ctx context.Context, ids ...string) (map[string]error, error) {
	refused, err := i.Inspector.Cancel(ctx, ids...)
	if i.onCancel != nil && err == nil {
		i.onCancel(refused)
	}
	return refused, err
}

func (i *brokenInspector) RunNow(ctx context.Context, ids ...string) (map[string]error, error) {
	if i.idle {
		return nil, nil
	}
	return i.Inspector.RunNow(ctx, ids...)
}

func (i *brokenInspector) Skip(ctx context.Context, reason string, ids ...string) (map[string]error, error) {
	if i.idle {
		return i.Inspector.Cancel(ctx, ids...)
	}
	return i.Inspector.Skip(ctx, reason, ids...)
}

func lookMutants() []mutant {
	looking := func(set func(*brokenInspector)) breakage {
		return func(b *broken) store.Store {
			inner, _ := store.As[store.Inspector](b.Store, store.CanLookup)
			i := &brokenInspector{Store: b, Inspector: inner}
			set(i)
			return i
		}
	}
	getting := func(change func(*store.Record)) breakage {
		return looking(func(i *brokenInspector) {
			i.onGet = func(r store.Record) store.Record { change(&r); return r }
		})
	}
	return []mutant{
		{"cancelLeased", cancelLeased, []string{"CancelRefuses"}},
		{"cancelIsSilent",
			looking(func(i *brokenInspector) { i.onCancel = func(refused map[string]error) { clear(refused) } }),
			[]string{"CancelRefuses"}},
		{"runsNothingNow", looking(func(i *brokenInspector) { i.idle = true }),
			[]string{"RunNowIsDue", "RunNowRefuses", "SkipBuries"}},
		{"listOnePage", looking(func(i *brokenInspector) { i.onList = onePage }),
			[]string{"ListIsComplete", "ListBearsChanges"}},
		{"listLimitsFirst", looking(func(i *brokenInspector) { i.onList = i.stillThere }),
			[]string{"ListLimitCountsWhatIsYielded"}},
		{"listHidesTheRetained", looking(func(i *brokenInspector) {
			i.onList = func(f store.Filter, seq iter.Seq2[store.Record, error]) iter.Seq2[store.Record, error] {
				if f.State == store.Acked {
					return func(func(store.Record, error) bool) {}
				}
				return seq
			}
		}), []string{"ListFindsTheRetained"}},
		{"listUnordered", looking(func(i *brokenInspector) { i.onList = byBody }), []string{"ListByRank"}},
		{"historyLost", getting(func(r *store.Record) { r.History = nil }),
			[]string{"FailureIsOnRecord", "HistoryIsOldestFirst", "RescueIsOnRecord"}},
		{"companyKills", getting(func(r *store.Record) { r.Lonely = max(r.Lonely, r.Rescues-1) }),
			[]string{"RescuesBesideOthersNeverKill"}},
		{"historyNewestFirst", getting(func(r *store.Record) { slices.Reverse(r.History) }),
			[]string{"HistoryIsOldestFirst"}},
		{"historyOfTheLastOnly", getting(func(r *store.Record) { r.History = r.History[max(0, len(r.History)-1):] }),
			[]string{"HistoryIsOldestFirst", "DeadCountsAnAttempt"}},
		{"uniqueNotOnRecord", getting(func(r *store.Record) { r.Unique = pawl.Unique{} }), []string{"RecordIsWhole"}},
		{"dueStaysDelayed", getting(func(r *store.Record) {
			if r.Delay > 0 {
				r.State = store.Delayed
			}
		}), []string{"DueIsWaiting"}},
		{"reasonOfTheFirst", getting(func(r *store.Record) { r.Reason = "appended" }),
			[]string{"ReasonIsOfTheLastTransition"}},
	}
}

// cancelLeased removes what somebody is working on, too.
func cancelLeased(b *broken) store.Store {
	inner, _ := store.As[store.Inspector](b.Store, store.CanLookup)
	return &brokenInspector{Store: b, Inspector: inner, onCancel: func(refused map[string]error) {
		for id := range refused {
			if r, err := inner.Get(context.Background(), id); err == nil && r.State == store.Leased {
				_, _ = b.Store.Settle(context.Background(), store.NewBatch(store.Settlement{Token: r.Lease.Token,
					ID: id, Verdict: store.Ack}))
				delete(refused, id)
			}
		}
	}}
}

func onePage(_ store.Filter, seq iter.Seq2[store.Record, error]) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		n := 0
		for r, err := range seq {
			if n++; n > 1000 || !yield(r, err) {
				return
			}
		}
	}
}

// stillThere leaves out of a limited listing what is gone, and lets nothing take
// its place.
func (i *brokenInspector) stillThere(_ store.Filter,
	seq iter.Seq2[store.Record, error]) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for r, err := range seq {
			if _, gone := i.Inspector.Get(context.Background(), r.ID); gone == nil && !yield(r, err) {
				return
			}
		}
	}
}

func byBody(_ store.Filter, seq iter.Seq2[store.Record, error]) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		var all []store.Record
		for r, err := range seq {
			if err != nil {
				yield(r, err)
				return
			}
			all = append(all, r)
		}
		slices.SortFunc(all, func(a, b store.Record) int { return strings.Compare(string(b.Body), string(a.Body)) })
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// brokenDead are dead letters of which some methods are replaced.
type brokenDead struct {
	*broken
	store.DeadLetters
	onDead   func(store.DeadFilter, iter.Seq2[store.Record, error]) iter.Seq2[store.Record, error]
	onReplay func(ids []string)
	after    func(ids []string) // a replay
	onPurge  func(refused map[string]error)
	onEdit   func(*store.Edit)
	onImport func(*store.Record)
	imported func(ids []string)
}

func (d *brokenDead) Edit(ctx context.Context, edits ...store.Edit) (map[string]error, error) {
	if d.onEdit != nil {
		edits = slices.Clone(edits)
		for i := range edits {
			d.onEdit(&edits[i])
		}
	}
	return d.DeadLetters.Edit(ctx, edits...)
}

func (d *brokenDead) Import(ctx context.Context, letters ...store.Record) (map[string]error, error) {
	letters = slices.Clone(letters)
	var ids []string
	for i := range letters {
		if ids = append(ids, letters[i].ID); d.onImport != nil {
			d.onImport(&letters[i])
		}
	}
	if d.imported != nil {
		d.imported(ids)
	}
	return d.DeadLetters.Import(ctx, letters...)
}

func (d *brokenDead) Dead(ctx context.Context, f store.DeadFilter) iter.Seq2[store.Record, error] {
	seq := d.DeadLetters.Dead(ctx, f)
	if d.onDead != nil {
		seq = d.onDead(f, seq)
	}
	return seq
}

func (d *brokenDead) Replay(ctx context.Context, topic string, ids ...string) (map[string]error, error) {
	if d.onReplay != nil {
		ids = slices.Clone(ids)
		d.onReplay(ids)
	}
	refused, err := d.DeadLetters.Replay(ctx, topic, ids...)
	if d.after != nil {
		d.after(ids)
	}
	return refused, err
}

func (d *brokenDead) Purge(ctx context.Context, ids ...string) (map[string]error, error) {
	refused, err := d.DeadLetters.Purge(ctx, ids...)
	if d.onPurge != nil {
		d.onPurge(refused)
	}
	return refused, err
}

func deadMutants() []mutant {
	dead := func(set func(*brokenDead)) breakage {
		return func(b *broken) store.Store {
			inner, _ := store.As[store.DeadLetters](b.Store)
			d := &brokenDead{broken: b, DeadLetters: inner}
			set(d)
			return d
		}
	}
	changed := func(change func(*store.Record) bool) breakage {
		return dead(func(d *brokenDead) {
			d.onDead = func(_ store.DeadFilter, seq iter.Seq2[store.Record, error]) iter.Seq2[store.Record, error] {
				return func(yield func(store.Record, error) bool) {
					for r, err := range seq {
						if change(&r) && !yield(r, err) {
							return
						}
					}
				}
			}
		})
	}
	return []mutant{
		{"replayToHead", dead(replayToHead), []string{"ReplayJoinsTheTail", "ReplayRanksAnew"}},
		{"replayInOrderOfIDs", dead(func(d *brokenDead) { d.onReplay = func(ids []string) { slices.Sort(ids) } }),
			[]string{"ReplayKeepsTheOrderOfIDs"}},
		{"replayKeepsAttempts", dead(replayKeepsAttempts), []string{"ReplayCountsAnew"}},
		{"deadWithoutHeaders", changed(func(r *store.Record) bool { r.Headers = nil; return true }),
			[]string{"DeadLettersAreComplete"}},
		{"deadWithoutHistory", changed(func(r *store.Record) bool { r.History = nil; return true }),
			[]string{"DeadLettersAreComplete", "DeathCanRepeat"}},
		{"deadCapped", dead(func(d *brokenDead) { d.onDead = cappedAt1000 }), []string{"DeadOldestFirst"}},
		{"deadExpire", deadExpire, []string{"DeadIsNeverDelivered"}},
		{"textIsOfTheReason", dead(func(d *brokenDead) { d.onDead = textOfTheReason }), []string{"DeadHaveTheText"}},
		{"editForgetsHeaders", dead(func(d *brokenDead) { d.onEdit = func(a *store.Edit) { a.Headers = nil } }),
			[]string{"EditChangesWhereItIs"}},
		{"buriedDieNow", dead(func(d *brokenDead) { d.onImport = func(r *store.Record) { r.DeadAt = d.now() } }),
			[]string{"ImportStoresThemAsTheyAre"}},
		{"buriedWithoutHistory", dead(func(d *brokenDead) { d.onImport = func(r *store.Record) { r.History = nil } }),
			[]string{"ImportStoresThemAsTheyAre"}},
		{"importReplaces", dead(func(d *brokenDead) {
			d.imported = func(ids []string) { _, _ = d.Purge(context.Background(), ids...) }
		}), []string{"ImportRefuses"}},
		{"purgeIsSilent", dead(func(d *brokenDead) { d.onPurge = func(refused map[string]error) { clear(refused) } }),
			[]string{"PurgeRemovesForGood"}},
	}
}

// textOfTheReason looks for a text in the reason alone.
func textOfTheReason(f store.DeadFilter, seq iter.Seq2[store.Record, error]) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for r, err := range seq {
			if strings.Contains(strings.ToLower(r.Reason), strings.ToLower(f.Text)) && !yield(r, err) {
				return
			}
		}
	}
}

func cappedAt1000(_ store.DeadFilter, seq iter.Seq2[store.Record, error]) iter.Seq2[store.Record, error] {
	return onePage(store.Filter{}, seq)
}

// replayToHead hands out what was replayed before anything else.
func replayToHead(d *brokenDead) {
	replayed := map[string]bool{}
	d.after = func(ids []string) {
		for _, id := range ids {
			replayed[id] = true
		}
	}
	claimed(func(_ *broken, ds []pawl.Delivery) []pawl.Delivery {
		slices.SortStableFunc(ds, func(a, b pawl.Delivery) int {
			switch {
			case replayed[a.ID] == replayed[b.ID]:
				return 0
			case replayed[a.ID]:
				return -1
			default:
				return 1
			}
		})
		return ds
	})(d.broken)
}

func replayKeepsAttempts(d *brokenDead) {
	attempts, kept := map[string]int{}, map[string]int{}
	d.after = func(ids []string) {
		for _, id := range ids {
			kept[id] += attempts[id]
		}
	}
	claimed(func(_ *broken, ds []pawl.Delivery) []pawl.Delivery {
		for i := range ds {
			ds[i].Attempt += kept[ds[i].ID]
			attempts[ds[i].ID] = ds[i].Attempt
		}
		return ds
	})(d.broken)
}

// deadExpire forgets dead letters after a month.
func deadExpire(b *broken) store.Store {
	inner, _ := store.As[store.DeadLetters](b.Store)
	return &brokenDead{broken: b, DeadLetters: inner, onDead: func(_ store.DeadFilter,
		seq iter.Seq2[store.Record, error]) iter.Seq2[store.Record, error] {
		return func(yield func(store.Record, error) bool) {
			for r, err := range seq {
				if b.now().Sub(r.DeadAt) < 30*24*time.Hour && !yield(r, err) {
					return
				}
			}
		}
	}}
}
