package storetest

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var topicSentences = []Sentence{
	{Text: "A topic that is not there is created by an append, with default settings at version 0.",
		Name: "AppendCreatesTheTopic", Test: func(t *T) {
			t.put(t.msg("a"))
			t.wantSettings(store.NewTopic(t.Topic))
		}},
	{Text: "The settings of a topic that is not there are ErrNotFound.",
		Name: "UnknownTopicIsNotFound", Test: func(t *T) {
			t.wantErr(errOf(t.topics().Topic(t.ctx(), "none")), store.ErrNotFound)
			t.wantErr(errOf(t.topics().Alter(t.ctx(), store.NewTopic("none"))), store.ErrNotFound)
		}},
	{Text: "Declare creates the topic with what is stated; a zero field states nothing and gets the default.",
		Name: "DeclareCreates", Test: func(t *T) {
			want := t.allStated(store.OrderNone, time.Minute, 1)
			got := t.declare(stating(want))
			t.check(got == want, "declared %+v; want %+v", got, want)
			t.wantSettings(want)
			t.Topic += "2"
			want = store.NewTopic(t.Topic)
			want.Deadline, want.Version = time.Minute, 1
			t.declare(store.Declaration{Deadline: time.Minute})
			t.wantSettings(want)
		}},
	{Text: "Declaring what was declared agrees and changes nothing, the version included.",
		Name: "DeclareAgrees", Test: func(t *T) {
			d := store.Declaration{Name: t.Topic, Order: store.OrderNone, Deadline: time.Minute, Retain: new(time.Hour)}
			want := t.declare(d)
			for _, again := range []store.Declaration{d, {}, {Deadline: time.Minute},
				{Order: store.OrderNone, Retain: new(time.Hour)}} {
				got := t.declare(again)
				t.check(got == want, "declared again %+v; want %+v", got, want)
			}
			t.put(t.msg("a"))
			t.declare(d)
			t.wantSettings(want)
		}},
	{Text: "Declaring otherwise than was declared changes what is stated, and nothing else: the newest declaration wins.",
		Name: "NewestDeclarationWins", Test: func(t *T) {
			want := t.declare(store.Declaration{Order: store.OrderKey, Deadline: time.Minute, Ageing: time.Minute,
				Park: new(false), Retain: new(time.Hour)})
			t.put(t.msg("a"))
			for _, d := range []store.Declaration{
				{Deadline: time.Hour}, {Ageing: time.Hour}, {Park: new(true)}, {Retain: new(time.Duration)},
				{Order: store.OrderKey, Deadline: time.Minute, Ageing: time.Second},
			} {
				d.Name = t.Topic
				want.Deadline, want.Ageing = cmp.Or(d.Deadline, want.Deadline), cmp.Or(d.Ageing, want.Ageing)
				want.Park, want.Retain = *cmp.Or(d.Park, &want.Park), *cmp.Or(d.Retain, &want.Retain)
				want.Version++
				got := t.declare(d)
				t.check(got == want, "declared %+v; want %+v", got, want)
				t.wantSettings(want)
			}
			t.conflict(errOf(t.topics().Declare(t.ctx(), store.Declaration{
				Name: t.Topic, Order: store.OrderNone, Deadline: time.Hour})))
			t.wantSettings(want)
			t.claims("a")
		}},
	{Text: "What an append created may be declared freely.",
		Name: "DeclareAfterAppend", Test: func(t *T) {
			t.put(t.msg("a"))
			t.declare(store.Declaration{}) // states nothing
			v := t.settings().Version
			t.check(v == 0, "version %d of a topic that nobody has declared", v)
			want := t.allStated(store.OrderKey, time.Minute, 1)
			t.declare(stating(want))
			t.wantSettings(want)
			t.claims("a")
		}},
	{Text: "For a topic with messages, only its current order can be stated.",
		Name: "DeclareKeepsTheOrderOfMessages", Test: func(t *T) {
			t.put(t.msg("a"))
			d := store.Declaration{Name: t.Topic, Order: store.OrderNone}
			t.conflict(errOf(t.topics().Declare(t.ctx(), d)))
			t.wantSettings(store.NewTopic(t.Topic))
			t.ack(t.claims("a")...)
			t.unordered()
			got := t.settings()
			t.check(got.Order == store.OrderNone && got.Version == 1, "settings %+v", got)
		}},
	{Text: "Alter changes settings if the topic is still at that version, and counts the version up; ErrConflict otherwise.",
		Name: "AlterComparesTheVersion", Test: func(t *T) {
			at := t.declare(store.Declaration{Deadline: time.Minute})
			want := t.allStated(store.OrderNone, time.Hour, at.Version)
			got := t.alter(want)
			want.Version++
			t.check(got == want, "altered to %+v; want %+v", got, want)
			t.wantSettings(want)
			for _, v := range []int64{at.Version, want.Version + 1, 0} {
				stale := store.NewTopic(t.Topic)
				stale.Version = v
				t.conflict(errOf(t.topics().Alter(t.ctx(), stale)))
			}
			t.wantSettings(want)
		}},
	{Text: "What was altered may be declared otherwise again.",
		Name: "AlteredIsDeclared", Test: func(t *T) {
			d := store.Declaration{Name: t.Topic, Deadline: time.Minute}
			at := t.declare(d)
			at.Deadline = time.Hour
			t.alter(at)
			got := t.declare(d)
			t.check(got.Deadline == time.Minute && got.Version == at.Version+2, "declared %+v", got)
		}},
	{Text: "Order changes only while the topic is empty; ErrConflict otherwise.",
		Name: "OrderChangesOnEmptyOnly", Test: func(t *T) {
			at := t.declare(store.Declaration{Order: store.OrderKey})
			to := at
			to.Order = store.OrderNone
			for _, m := range []pawl.Message{t.msg("a"), t.delayed(t.msg("a"), time.Minute)} {
				if m.Delay > 0 && !t.has(store.CanDelay) {
					continue
				}
				t.put(m)
				t.conflict(errOf(t.topics().Alter(t.ctx(), to)))
				ds := t.later(2*time.Minute, "a")
				t.conflict(errOf(t.topics().Alter(t.ctx(), to)))
				t.ack(ds...)
			}
			t.wantSettings(at)
			t.alter(to)
			t.lane("k", "a", "b")
			t.claimRun(1, 1)
			t.claims("b") // a lane of its own
		}},
	{Text: "Dead letters do not keep a topic from changing its order; once replayed they do.",
		Name: "DeadLettersDoNotCountForOrder", Needs: needs(store.CanDeadLetters), Test: func(t *T) {
			at := t.declare(store.Declaration{Order: store.OrderKey})
			t.lane("k", "a", "b")
			ids := []string{}
			for range 2 {
				d := t.claimRun(1, 1)[0]
				ids = append(ids, d.ID)
				t.kill(d, "dead")
			}
			at.Order = store.OrderNone
			at = t.alter(at)
			t.replay("", ids...)
			to := at
			to.Order = store.OrderKey
			t.conflict(errOf(t.topics().Alter(t.ctx(), to))) // a replayed message counts
			t.wantBodies([]pawl.Delivery{t.claimOne()}, "a")
			t.claims("b")
		}},
	{Text: "Altered settings hold for the next claim.",
		Name: "AlterTakesEffect", Needs: needs(store.CanDeadline), Test: func(t *T) {
			at := t.declare(store.Declaration{Deadline: time.Hour})
			t.put(t.msg("a"))
			at.Deadline = time.Minute
			t.alter(at)
			d := t.claimOne()
			t.check(d.Deadline == time.Minute && d.LeaseFor == time.Minute, "leased for %v with a deadline of %v",
				d.LeaseFor, d.Deadline)
			t.later(61*time.Second, "a")
		}},
	{Text: "What no topic can be is refused with an InvalidError, and changes nothing.",
		Name: "BadSettingsAreRefused", Test: func(t *T) {
			at := t.declare(store.Declaration{Deadline: time.Minute})
			for _, d := range []store.Declaration{
				{}, {Name: "a b"}, {Name: "x", Order: "fifo"}, {Name: "x", Deadline: -1},
				{Name: "x", Deadline: store.MaxLease + 1},
				{Name: "x", Ageing: -1}, {Name: "x", Retain: new(time.Duration(-1))},
				{Name: "x", Retain: new(pawl.MaxDelay + 1)},
			} {
				t.invalid(errOf(t.topics().Declare(t.ctx(), d)))
			}
			for _, change := range []func(*store.Topic){
				func(to *store.Topic) { to.Order = "" }, func(to *store.Topic) { to.Deadline = 0 }, func(to *store.Topic) {
					to.Retain = -1
				},
			} {
				to := at
				change(&to)
				t.invalid(errOf(t.topics().Alter(t.ctx(), to)))
			}
			t.wantSettings(at)
			all, err := t.topics().Stats(t.ctx())
			t.must(err)
			t.check(!slices.ContainsFunc(all, func(st store.TopicStats) bool { return st.Name != t.Topic }),
				"a refused declaration left a topic: %+v", all)
		}},
	{Text: "A paused topic hands nothing out; what is leased goes on; appends are taken; other topics are not concerned.",
		Name: "PauseStopsClaims", Test: func(t *T) {
			t.put(t.msg("a"), t.msg("b"), pawl.Message{Topic: "other", Body: []byte("c")})
			d := t.claimOne()
			t.pause(0)
			t.nothing()
			t.put(t.msg("d"))
			t.nothing()
			lost := t.extendLosing(lease, d)
			t.check(len(lost) == 0, "a lease was lost by a pause")
			t.ack(d)
			t.later(time.Hour)
			got := t.claimWith(store.Lease{For: lease}, store.Want{Topic: t.Topic, Limit: 5},
				store.Want{Topic: "other", Limit: 5})
			t.wantBodies(got, "c")
			t.resume()
			t.claims("b", "d")
		}},
	{Text: "Resume ends a pause; resuming a topic that is not paused changes nothing.",
		Name: "ResumeEndsThePause", Test: func(t *T) {
			t.put(t.msg("a"))
			before := t.settings()
			t.resume()
			t.pause(0)
			t.resume()
			t.wantSettings(before)
			t.claims("a")
			t.notPaused()
		}},
	{Text: "A pause with a duration ends by itself, by the store's clock.",
		Name: "TimedPauseEndsByItself", Test: func(t *T) {
			t.put(t.msg("a"))
			t.pause(2 * time.Minute)
			t.later(90 * time.Second)
			t.later(time.Minute, "a")
			t.notPaused()
		}},
	{Text: "A pause as long as a duration can be holds until Resume.",
		Name: "LongestPause", Test: func(t *T) {
			t.put(t.msg("a"))
			t.pause(pawl.Forever)
			t.nothing()
			t.later(10 * time.Hour)
			p := t.stats().Paused
			t.check(p != nil && (p.Until.IsZero() || p.Until.Sub(p.Since) >= pawl.MaxDelay), "pause %+v", p)
			t.resume()
			t.claims("a")
		}},
	{Text: "Pausing a paused topic replaces the pause.",
		Name: "PauseReplacesThePause", Test: func(t *T) {
			t.put(t.msg("a"))
			t.pause(0)
			t.pause(2 * time.Minute)
			t.later(time.Minute)
			t.pause(2 * time.Minute)
			t.later(90 * time.Second)
			t.later(time.Minute, "a")
		}},
	{Text: "The figures of a paused topic say since when, until when, by whom and why.",
		Name: "PauseSaysWhy", Test: func(t *T) {
			t.put(t.msg("a"))
			t.must(t.topics().Pause(t.ctx(), t.Topic, time.Hour, "ann\x00", "the \xff downstream"))
			p := t.stats().Paused
			t.check(p != nil && p.By == store.Text("ann\x00") && p.Reason == store.Text("the \xff downstream"),
				"pause %+v", p)
			t.near("the pause", p.Until.Sub(p.Since), time.Hour)
			t.near("the time from the append to the pause", p.Since.Sub(t.storeNow()), 0)
			t.pause(0)
			if p := t.stats().Paused; p == nil || !p.Until.IsZero() || p.Since.IsZero() {
				t.Fatalf("pause without an end %+v", p)
			}
		}},
}

// allStated are settings none of which is a default.
func (t *T) allStated(order store.Order, deadline time.Duration, version int64) store.Topic {
	return store.Topic{Name: t.Topic, Order: order, Deadline: deadline, Ageing: time.Second, Park: true,
		Retain: time.Hour, Version: version}
}

// stating declares these settings, and all of them.
func stating(to store.Topic) store.Declaration {
	return store.Declaration{Order: to.Order, Deadline: to.Deadline, Ageing: to.Ageing, Park: &to.Park, Tail: &to.Tail,
		Retain: &to.Retain}
}

func (t *T) settings() store.Topic {
	got, err := t.topics().Topic(t.ctx(), t.Topic)
	t.must(err)
	return got
}

func (t *T) wantSettings(want store.Topic) {
	got := t.settings()
	t.check(got == want, "settings %+v\nwant     %+v", got, want)
}

// conflict fails unless err is one.
func (t *T) conflict(err error) {
	t.wantErr(err, store.ErrConflict)
}

func (t *T) pause(d time.Duration) {
	t.must(t.topics().Pause(t.ctx(), t.Topic, d, "ann", "why not"))
}

// notPaused fails if the figures tell of a pause.
func (t *T) notPaused() {
	p := t.stats().Paused
	t.check(p == nil, "paused: %+v", p)
}

func (t *T) resume() {
	t.must(t.topics().Resume(t.ctx(), t.Topic))
}

// storeNow is when, by the store's clock, a message of another topic is stored.
func (t *T) storeNow() time.Time {
	t.put(pawl.Message{Topic: "clock"})
	ds := t.claimWith(store.Lease{For: lease}, store.Want{Topic: "clock", Limit: 1})
	t.ack(ds...)
	return ds[0].EnqueuedAt
}
