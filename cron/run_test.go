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
