package cron

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestClockGoesBack: another process takes over soon although the clock of the store went back just before the one that
// fired died, and what it had fired is not fired again.
func TestClockGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64
		r := newRig(t, memory.New(memory.Config{Now: func() time.Time {
			return time.Now().Add(-time.Duration(back.Load()))
		}}))
		time.Sleep(2 * time.Hour)
		r.put(Schedule{Name: "s", Every: time.Minute})
		a := r.start("a")
		time.Sleep(3 * time.Minute)
		stop := r.start("b")
		defer func() { stop() }()
		time.Sleep(5 * time.Second)
		e, err := r.entries.GetState(r.Context(), leaderKey)
		r.must(err)
		_, err = r.entries.PutState(r.Context(), leaderKey, e.Value, store.AnyVersion, "dead") // its lease stays
		r.must(err)
		a()
		back.Store(int64(90 * time.Second))
		time.Sleep(leadFor + 2*look)
		if e, err = r.entries.GetState(r.Context(), leaderKey); err != nil || e.Writer != "b" {
			t.Errorf("%s leads, %v", e.Writer, err)
		}
		time.Sleep(4 * time.Minute)
		r.want(r.history("s"), "02:01:00 fired, 02:02:00 fired, 02:03:00 fired, 02:04:00 fired, 02:05:00 fired")
	})
}

// TestClockWasFarAhead: schedules that fired, were written, or were resumed while the clock of the store was days ahead
// fire again when it is right; they did when it had passed that time again. Who fires may have begun before or after.
func TestClockWasFarAhead(t *testing.T) {
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var ahead atomic.Int64
			r := newRig(t, memory.New(memory.Config{Now: func() time.Time {
				return time.Now().Add(time.Duration(ahead.Load()))
			}}))
			r.put(Schedule{Name: "fired", Every: time.Minute, Missed: MissedSkip})
			r.put(Schedule{Name: "resumed", Every: time.Minute, Missed: MissedSkip})
			r.must(r.Pause(r.Context(), "resumed"))
			stop := r.start("a")
			defer func() { stop() }()
			time.Sleep(10 * time.Second)
			ahead.Store(int64(3 * 24 * time.Hour))
			time.Sleep(2 * time.Minute)
			r.put(Schedule{Name: "written", Every: time.Minute})
			r.must(r.Resume(r.Context(), "resumed"))
			time.Sleep(time.Minute)
			ahead.Store(0)
			if restart {
				stop()
				stop = r.start("b")
			}
			time.Sleep(2 * time.Minute)
			for _, name := range []string{"fired", "resumed", "written"} {
				s, err := r.Status(r.Context(), name)
				r.must(err)
				if now := time.Now(); now.Sub(s.LastTick) > time.Minute+10*time.Second || s.LastTick.After(now) {
					t.Errorf("restart %v, %s: at %v the last tick is %v", restart, name, now, s.LastTick)
				}
			}
		})
	}
}

// TestResumeWhatWasWrittenPaused: a schedule goes on, unless a file states that it is paused.
func TestResumeWhatWasWrittenPaused(t *testing.T) {
	bubble(t, func(r *rig) {
		r.put(Schedule{Name: "s", Every: time.Minute, Paused: true})
		_, err := r.Declare(r.Context(), "f", []Schedule{{Name: "file", Every: time.Minute, Topic: "t", Paused: true}})
		r.must(err)
		stop := r.start("a")
		time.Sleep(90 * time.Second)
		r.must(r.Resume(r.Context(), "s"))
		if err := r.Resume(r.Context(), "file"); !errors.Is(err, store.ErrConflict) {
			t.Errorf("a pause of the file is resumed: %v", err)
		}
		time.Sleep(time.Minute)
		stop()
		r.want(r.history("s")+r.history("file"), "00:02:00 fired")
	})
}

// TestNothingDueIsCheap: a pass looks at no schedule before one is due or something is written, however many there are.
func TestNothingDueIsCheap(t *testing.T) {
	bubble(t, func(r *rig) {
		r.put(Schedule{Name: "s", Cron: "@yearly"})
		lead := &term{Scheduler: r.Scheduler}
		if ok, err := lead.campaign(r.Context(), &rival{}); !ok || err != nil {
			t.Fatal(ok, err)
		}
		pass := func(want string) {
			t.Helper()
			wait := look
			r.must(lead.pass(r.Context(), &wait))
			r.want(r.history("s"), want)
		}
		pass("")
		lead.all["s"].next = time.Now() // as nothing but a look at it could tell
		pass("")
		r.put(Schedule{Name: "other", Cron: "@yearly"})
		pass("00:00:00 fired")
	})
}
