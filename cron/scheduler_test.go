package cron

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// rig is a store, and schedulers that run over it. In a bubble it is 2000-01-01 00:00:00 UTC.
type rig struct {
	*testing.T
	*Scheduler
	store store.Store
}

func newRig(t *testing.T, s store.Store) *rig {
	t.Cleanup(func() { _ = s.Close() })
	c, err := New(s, Config{Owner: "command"})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, c, s}
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// start runs a scheduler; stop ends it.
func (r *rig) start(owner string) (stop func()) {
	r.Helper()
	s, err := New(r.store, Config{Owner: owner})
	r.must(err)
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	return func() { cancel(); <-done }
}

func (r *rig) put(s Schedule) {
	r.Helper()
	if s.Topic == "" {
		s.Topic = "t"
	}
	r.must(r.Put(r.Context(), s))
}

// ticks are the nominal times of the messages of a topic.
func (r *rig) ticks() (ticks []string) {
	for m, err := range r.store.(store.Inspector).List(r.Context(), store.Filter{Topic: "t"}) {
		r.must(err)
		ticks = append(ticks, m.Headers[HeaderTick][11:])
	}
	slices.Sort(ticks)
	return ticks
}

// history is what became of the ticks, the oldest first.
func (r *rig) history(name string) string {
	r.Helper()
	runs, err := r.History(r.Context(), name)
	r.must(err)
	var all []string
	for _, run := range slices.Backward(runs) {
		all = append(all, run.Tick.Format("15:04:05")+" "+run.Action)
	}
	return strings.Join(all, ", ")
}

func (r *rig) want(got, want string) {
	r.Helper()
	if got != want {
		r.Errorf("got  %s\nwant %s", got, want)
	}
}

func bubble(t *testing.T, test func(r *rig)) {
	synctest.Test(t, func(t *testing.T) { test(newRig(t, memory.New(memory.Config{}))) })
}

// TestEachTickOnce: schedulers come, and end or die, and no tick is lost or doubled.
func TestEachTickOnce(t *testing.T) {
	bubble(t, eachTickOnce)
	t.Run("sqlite", func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), sqlite.Config{Path: t.TempDir() + "/pawl.db"})
		if err != nil {
			t.Fatal(err)
		}
		r := newRig(t, s)
		r.put(Schedule{Name: "s", Every: time.Second})
		a, b := r.start("a"), r.start("b")
		for deadline := time.Now().Add(20 * time.Second); len(r.ticks()) < 4 && time.Now().Before(deadline); {
			<-time.After(50 * time.Millisecond)
		}
		a()
		b()
		inRow(r)
	})
}

func eachTickOnce(r *rig) {
	r.put(Schedule{Name: "s", Every: time.Second})
	stop := r.start("0")
	for n := range 10 {
		next := r.start(fmt.Sprint(n + 1))
		time.Sleep(2500 * time.Millisecond)
		if n%2 == 0 {
			// Dies: the lease stays, as if by a process that is gone.
			e, err := r.entries.GetState(r.Context(), leaderKey)
			r.must(err)
			_, err = r.entries.PutState(r.Context(), leaderKey, e.Value, store.AnyVersion, "dead")
			r.must(err)
		}
		stop()
		stop = next
	}
	time.Sleep(10 * time.Second)
	stop()
	if n := len(r.ticks()); n < 33 {
		r.Errorf("%d ticks", n)
	}
	inRow(r)
}

// TestLeaderOfAnotherClock: a process that died before the clock was set back does not lead until it has caught up.
func TestLeaderOfAnotherClock(t *testing.T) {
	bubble(t, func(r *rig) {
		text, err := json.Marshal(leader{"dead", time.Now().Add(time.Hour).UnixMilli(), time.Now().UnixMilli()})
		r.must(err)
		_, err = r.entries.PutState(r.Context(), leaderKey, text, store.AnyVersion, "dead")
		r.must(err)
		r.put(Schedule{Name: "s", Every: time.Second})
		defer r.start("next")()
		time.Sleep(20 * time.Second)
		inRow(r)
	})
}

// inRow checks that ticks follow one another by a second, each once.
func inRow(r *rig) {
	r.Helper()
	ticks := r.ticks()
	if len(ticks) < 4 {
		r.Fatalf("only %d ticks", len(ticks))
	}
	first, _ := time.Parse("15:04:05Z", ticks[0])
	for i, tick := range ticks {
		r.want(tick, first.Add(time.Duration(i)*time.Second).Format("15:04:05Z"))
	}
}

// TestMessage: what a tick's message says.
func TestMessage(t *testing.T) {
	bubble(t, func(r *rig) {
		r.put(Schedule{Name: "s", Cron: "30 2 * * *", Zone: "Europe/Berlin", Body: []byte("x"), Priority: 7,
			Headers: map[string]string{"a": "b"}, Jitter: time.Minute})
		defer r.start("a")()
		time.Sleep(90*time.Minute + time.Second/10)
		for m, err := range r.store.(store.Inspector).List(r.Context(), store.Filter{}) {
			r.must(err)
			r.want(fmt.Sprintf("%s %s %s %d %v", m.Topic, m.Key, m.Body, m.Priority, m.Headers), "t schedule/s x 7 "+
				"map[Pawl-Schedule:s Pawl-Tick:2000-01-01T02:30:00+01:00 a:b]")
			if late := m.NotBefore.Sub(m.EnqueuedAt); late <= 0 || late >= time.Minute {
				r.Errorf("delayed by %v", late)
			}
		}
		r.want(r.history("s"), "02:30:00 fired")
	})
}

// TestOverlap: what becomes of a tick while the message before is there.
func TestOverlap(t *testing.T) {
	for overlap, want := range map[string]string{
		OverlapQueue:   "00:01:00 fired, 00:02:00 fired, 00:03:00 fired",
		OverlapSkip:    "00:01:00 fired, 00:02:00 skipped, 00:03:00 skipped",
		OverlapReplace: "00:01:00 replaced, 00:02:00 replaced, 00:03:00 fired",
	} {
		bubble(t, func(r *rig) {
			r.put(Schedule{Name: "s", Every: time.Minute, Overlap: overlap})
			stop := r.start("a")
			time.Sleep(200 * time.Second)
			stop()
			r.want(r.history("s"), want)
			r.want(fmt.Sprint(len(r.ticks())), fmt.Sprint(strings.Count(want, "fired")))
		})
	}
}

// TestPauseRunAndChange: pauses leave ticks out, a run by hand moves nothing, new times count from the change.
func TestPauseRunAndChange(t *testing.T) {
	bubble(t, func(r *rig) {
		ctx := r.Context()
		r.put(Schedule{Name: "s", Every: time.Minute})
		stop := r.start("a")
		time.Sleep(90 * time.Second)
		r.must(r.Pause(ctx, "s"))
		time.Sleep(2 * time.Minute)
		r.put(Schedule{Name: "s", Every: time.Minute, Priority: 1}) // a change does not end the pause
		_, err := r.RunNow(ctx, "s")
		r.must(err)
		stop()
		time.Sleep(time.Minute)
		r.must(r.Resume(ctx, "s")) // 00:04:30
		stop = r.start("b")
		time.Sleep(time.Minute)
		r.put(Schedule{Name: "s", Every: 90 * time.Second}) // 00:05:30
		time.Sleep(2*time.Minute + 5*time.Second)
		r.must(r.Remove(ctx, "s"))
		time.Sleep(10 * time.Minute)
		r.put(Schedule{Name: "s", Every: 90 * time.Second}) // 00:17:30
		time.Sleep(time.Minute + 35*time.Second)
		stop()
		r.want(r.history("s"),
			"00:01:00 fired, 00:03:30 manual, 00:05:00 fired, 00:06:00 fired, 00:07:30 fired, 00:18:00 fired")
		if _, err := r.RunNow(ctx, "unknown"); err == nil {
			t.Error("an unknown schedule runs")
		}
	})
}

// TestScheduleRefused: a schedule that could not work is refused when it is written.
func TestScheduleRefused(t *testing.T) {
	bubble(t, func(r *rig) {
		for field, s := range map[string]Schedule{
			"name":          {Name: "a/b", Cron: "@daily", Topic: "t"},
			"cron":          {Name: "a", Topic: "t"},
			"every":         {Name: "a", Topic: "t", Cron: "@daily", Every: time.Hour},
			"zone":          {Name: "a", Topic: "t", Cron: "@daily", Zone: "Local"},
			"topic":         {Name: "a", Cron: "@daily"},
			"overlap":       {Name: "a", Topic: "t", Cron: "@daily", Overlap: "never"},
			"missed":        {Name: "a", Topic: "t", Cron: "@daily", Missed: "never"},
			"jitter":        {Name: "a", Topic: "t", Cron: "@daily", Jitter: -1},
			"missed_within": {Name: "a", Topic: "t", Cron: "@daily", MissedWithin: -1},
			"headers":       {Name: "a", Topic: "t", Cron: "@daily", Headers: map[string]string{HeaderTick: "x"}},
		} {
			err := r.Put(r.Context(), s)
			if invalid, ok := errors.AsType[*pawl.InvalidError](err); !ok || invalid.Field != field {
				t.Errorf("%s: %v", field, err)
			}
		}
		huge := Schedule{Name: "a", Topic: "t", Cron: "@daily", MissedWithin: math.MaxInt64} // it is not added to
		if err := r.Put(r.Context(), huge); err == nil || strings.Contains(err.Error(), "unique") {
			t.Error(err)
		}
		err := r.Put(r.Context(), Schedule{Name: "a b", Cron: "61 * * * *", Zone: "Local", Topic: "x y", Missed: "never",
			Priority: 101})
		for _, all := range []string{"name is", "priority is", `cron has "61"`, `zone is "Local"`, `topic "x y"`, "missed is"} {
			if err == nil || !strings.Contains(err.Error(), all) {
				t.Errorf("%v, want %s, too", err, all)
			}
		}
	})
}

// TestDeclare: the schedules of a file are changed in the file only, and what left the file is removed.
func TestDeclare(t *testing.T) {
	bubble(t, func(r *rig) {
		ctx := r.Context()
		daily := func(name string) Schedule { return Schedule{Name: name, Cron: "@daily", Topic: "t"} }
		declare := func(file, want string, all ...Schedule) {
			r.Helper()
			changes, err := r.Declare(ctx, file, all)
			r.must(err)
			r.want(fmt.Sprint(changes), want)
		}
		r.put(daily("cli"))
		declare("/a", "[{a false} {b false}]", daily("a"), daily("b"))
		declare("/other", "[{c false}]", daily("c"))
		declare("/a", "[]", daily("a"), daily("b"))
		for _, err := range []error{r.Put(ctx, daily("a")), r.Remove(ctx, "a")} {
			if !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "/a states it") {
				t.Errorf("a schedule of the file: %v", err)
			}
		}
		r.must(r.Pause(ctx, "a"))
		hourly := daily("a")
		hourly.Cron = "@hourly"
		declare("/a", "[{a false} {b true}]", hourly)
		declare("/moved", "[]", hourly)
		declare("/a", "[]")
		status, err := r.Status(ctx, "a")
		r.must(err)
		r.want(fmt.Sprint(status.Cron, status.Paused, status.Origin), "@hourlytruefile")
		if _, err := r.Status(ctx, "b"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("b left the file: %v", err)
		}
		declare("/a", "[{cli false}]", daily("cli")) // the file takes it over
		if err := r.Remove(ctx, "cli"); !errors.Is(err, store.ErrConflict) {
			t.Errorf("cli is of the file: %v", err)
		}
	})
}

// TestReplaceAndCrash: who removed a message is written down before it is removed.
func TestReplaceAndCrash(t *testing.T) {
	bubble(t, func(r *rig) {
		ctx := r.Context()
		r.put(Schedule{Name: "s", Every: time.Minute, Overlap: OverlapReplace})
		stop := r.start("a")
		time.Sleep(90 * time.Second)
		stop()
		dead := &term{Scheduler: r.Scheduler}
		l, err := dead.get(ctx, "s")
		r.must(err)
		r.must(dead.replace(ctx, l, messageID("s", l.record.Last))) // and nothing more
		stop = r.start("b")
		time.Sleep(time.Minute)
		stop()
		r.want(r.history("s"), "00:01:00 replaced, 00:02:00 fired")
		r.want(fmt.Sprint(r.ticks()), "[00:02:00Z]")
	})
}

// TestRuns: each run is a message, with the tick that it is given.
func TestRuns(t *testing.T) {
	bubble(t, func(r *rig) {
		ctx := r.Context()
		r.put(Schedule{Name: "s", Cron: "@daily"})
		for range 2 {
			_, err := r.RunNow(ctx, "s")
			r.must(err)
		}
		_, err := r.RunAt(ctx, "s", time.Now().Add(-90*time.Minute))
		r.must(err)
		id, err := r.RunAt(ctx, "s", time.Now().Add(time.Hour))
		r.must(err)
		m, err := r.looker.Get(ctx, id)
		r.must(err)
		r.want(fmt.Sprintf("%s%v", m.State, m.NotBefore.Sub(m.EnqueuedAt)), "delayed1h0m0s")
		r.want(r.history("s"), "00:00:00 manual, 00:00:00 manual, 22:30:00 manual, 01:00:00 manual")
		r.want(fmt.Sprint(r.ticks()), "[00:00:00Z 00:00:00Z 01:00:00Z 22:30:00Z]")
		r.put(Schedule{Name: "z", Cron: "@daily", Zone: "Asia/Kathmandu"})
		_, err = r.RunNow(ctx, "z")
		r.must(err)
		r.must(r.Remove(ctx, "z"))
		r.want(r.history("z"), "05:45:00 manual") // in its zone, also when it is gone
	})
}

// TestBackfill: past ticks without a message get one, once.
func TestBackfill(t *testing.T) {
	bubble(t, func(r *rig) {
		ctx := r.Context()
		r.put(Schedule{Name: "s", Every: time.Minute, Missed: MissedSkip, Jitter: time.Minute})
		time.Sleep(4*time.Minute + 30*time.Second)
		stop := r.start("a")
		time.Sleep(time.Minute)
		stop()
		r.must(r.Pause(ctx, "s"))
		start := time.Now().Truncate(time.Minute).Add(-4 * time.Minute) // 00:01
		gaps, err := r.Gaps(ctx, "s", start, start.Add(time.Hour))
		r.must(err)
		r.want(fmt.Sprint(len(gaps)), "4") // not 00:05, nor what is to come
		before := time.Now()
		sent, err := r.Backfill(ctx, "s", append(gaps, start.Add(4*time.Minute)), 2)
		r.must(err)
		r.want(fmt.Sprint(len(sent), time.Since(before) >= 2*time.Second), "4 true")
		sent, err = r.Backfill(ctx, "s", gaps, 0)
		r.must(err)
		r.want(fmt.Sprint(len(sent), len(r.ticks())), "0 5")
		r.want(r.history("s"), "00:01:00 missed, 00:02:00 missed, 00:03:00 missed, 00:04:00 missed, 00:05:00 fired, "+
			"00:01:00 backfill, 00:02:00 backfill, 00:03:00 backfill, 00:04:00 backfill")
		gaps, err = r.Gaps(ctx, "s", start, start.Add(time.Hour))
		r.must(err)
		r.want(fmt.Sprint(len(gaps)), "0")
		if _, err := r.Gaps(ctx, "s", start, start); err == nil {
			t.Error("a reversed range is taken")
		}
		all, err := r.Statuses(ctx)
		r.must(err)
		r.want(fmt.Sprint(len(all), all[0].LastTick.Format("15:04"), all[0].Missed, all[0].Paused), "100:054 true")
	})
}

// TestExplain: what is said of ticks.
func TestExplain(t *testing.T) {
	bubble(t, func(r *rig) {
		ctx := r.Context()
		zero := time.Now()
		time.Sleep(90 * time.Second)
		r.put(Schedule{Name: "s", Every: time.Minute})
		r.put(Schedule{Name: "odd", Cron: "45 2 0 * * *"})
		stop := r.start("a")
		time.Sleep(time.Minute)
		stop()
		time.Sleep(32 * time.Second) // 00:03:02
		defer r.start("b")()
		time.Sleep(5 * time.Second)
		for minute, want := range map[int]string{
			1: "none: due 00:01:00 UTC; the schedule was written at 2000-01-01T00:01:30Z",
			2: "fired: due 00:02:00 UTC; fired at 00:02:00 UTC; missed: once, overlap: queue",
			3: "made_up: due 00:03 UTC; no scheduler from 00:02:30 to 00:03:02; made up at 00:03:02 because missed: once",
			9: "none: due 00:09:00 UTC; it is still to come",
		} {
			run, err := r.Explain(ctx, "s", zero.Add(time.Duration(minute)*time.Minute))
			r.must(err)
			r.want(run.Action+": "+run.Why, want)
		}
		last, err := r.Explain(ctx, "s", time.Time{})
		r.must(err)
		r.want(last.Action, ActionMadeUp)
		last, err = r.Explain(ctx, "odd", time.Time{})
		r.must(err)
		r.want(last.Why, "due 00:02:45 UTC; no scheduler from 00:02:30 to 00:03:02; made up at 00:03:02 because missed: once")
		if _, err := r.Explain(ctx, "s", zero.Add(time.Second)); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
	})
}

// TestOverdue: a schedule that stands still is overdue since its first tick that could not be sent.
func TestOverdue(t *testing.T) {
	bubble(t, func(r *rig) {
		topics := r.store.(store.Topics)
		_, err := topics.Declare(r.Context(), store.Declaration{Name: "t", MaxWaiting: new(int64(1))})
		r.must(err)
		r.put(Schedule{Name: "s", Every: time.Second})
		booked := 0
		s, err := New(r.store, Config{Owner: "a", Booked: func(string, Run) { booked++ }})
		r.must(err)
		other, err := New(r.store, Config{})
		r.must(err)
		told := func() time.Duration { // by a process that does not fire
			status, err := other.Status(r.Context(), "s")
			r.must(err)
			return status.Overdue
		}
		time.Sleep(20 * time.Second)
		if late := told(); late < 18*time.Second || late > 20*time.Second {
			t.Errorf("while nobody fires: overdue for %v", late)
		}
		r.must(s.Pause(r.Context(), "s"))
		r.want(told().String(), "0s")
		r.must(s.Resume(r.Context(), "s"))
		r.want(told().String(), "0s")
		ctx, cancel := context.WithCancel(r.Context())
		done := make(chan struct{})
		go func() { defer close(done); s.Run(ctx) }()
		time.Sleep(time.Minute + time.Second/2)
		if late := s.Overdue(); late < 55*time.Second || late > time.Minute || (told()-late).Abs() > time.Second {
			t.Errorf("overdue for %v, by another process %v", late, told())
		}
		_, err = topics.Declare(r.Context(), store.Declaration{Name: "t", MaxWaiting: new(int64(0))})
		r.must(err)
		time.Sleep(5 * time.Second)
		if late := s.Overdue(); late != 0 || told() > time.Second || booked < 60 {
			t.Errorf("overdue for %v, by another process %v, %d ticks", late, told(), booked)
		}
		cancel()
		<-done
	})
}
