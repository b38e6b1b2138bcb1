package migrate

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/mirror"
)

// claimable wants that what is appended now is worked off.
func (r *road) claimable(id int) {
	r.Helper()
	r.append(r.through, letter("k", id))
	time.Sleep(settleTime)
	if done := r.work(); len(done) != 1 {
		r.Errorf("%v were done", done)
	}
}

// problems are those of the status.
func (r *road) problems() []string {
	r.Helper()
	st, err := r.traffic.Status(r.Context(), "mail")
	r.must(err)
	return st[0].Problems
}

// TestTwoCutOvers: one that knows less than another one pauses nothing that works.
func TestTwoCutOvers(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.copies()
		r.append(r.through, letter("k", 1))
		first := make(chan error, 1)
		go func() {
			_, err := r.traffic.CutOver(context.Background(), "mail", Moving{Calm: time.Second})
			first <- err
		}()
		time.Sleep(20 * time.Second)
		p, err := r.traffic.Plans.Get(t.Context(), "mail")
		if err != nil || p.Stage != mirror.Draining {
			t.Fatalf("it is %s, %v", p.Stage, err)
		}
		r.work()
		r.must(<-first)
		if _, err = r.traffic.drain(t.Context(), p, Moving{}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("the second one: %v", err)
		}
		if ps := r.problems(); len(ps) != 0 {
			t.Errorf("problems are %v", ps)
		}
		r.claimable(2)
	})
}

// overtaken is a store whose topic moves on while it is being paused.
type overtaken struct {
	store.Topics
	meanwhile func()
}

func (o *overtaken) Pause(ctx context.Context, topic string, d time.Duration, by, reason string) error {
	err := o.Topics.Pause(ctx, topic, d, by, reason)
	o.meanwhile()
	return err
}

// TestPauseIsOvertaken: a pause that comes when the topic has moved on ends again.
func TestPauseIsOvertaken(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.copies()
		r.append(r.through, letter("k", 1))
		_, err := r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second, Timeout: time.Second})
		if !errors.Is(err, ErrUnfinished) {
			t.Fatal(err)
		}
		r.work()
		second, err := New(t.Context(), r.old, r.new, "second", "memory:")
		r.must(err)
		second.to = &overtaken{second.to, func() {
			_, err := r.traffic.CutOver(t.Context(), "mail", Moving{})
			r.must(err)
			p, err := r.traffic.Plans.Get(t.Context(), "mail")
			r.must(err)
			// It paused after the other one had resumed.
			r.must(r.new.Pause(t.Context(), p.InMirrored(), 0, "second", pauseReason))
		}}
		if _, err := second.CutOver(t.Context(), "mail", Moving{}); !errors.Is(err, store.ErrConflict) {
			t.Errorf("the second one: %v", err)
		}
		r.claimable(2)
	})
}

// TestPausedWhenMoved: a cut-over that dies before the topic is resumed leaves a problem,
// and the same command mends it.
func TestPausedWhenMoved(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.copies()
		_, err := r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second})
		r.must(err)
		r.append(r.through, letter("k", 1))
		r.must(r.new.Pause(t.Context(), "mail", 0, "tester", pauseReason))
		if ps := r.problems(); len(ps) != 1 || !strings.Contains(ps[0],
			"it is moved, but paused in the new store: run `pawl traffic cut-over mail`") {
			t.Errorf("problems are %v", ps)
		}
		_, err = r.traffic.CutOver(t.Context(), "mail", Moving{})
		r.must(err)
		if ps := r.problems(); len(ps) != 0 {
			t.Errorf("problems are %v", ps)
		}
		if done := r.work(); len(done) != 1 {
			t.Errorf("%v were done", done)
		}
	})
}

// pausedBy is who paused the topic in both stores, and why.
func (r *road) pausedBy() (old, nu string) {
	r.Helper()
	said := func(s *memory.Store) string {
		stats, err := s.Stats(r.Context(), "mail")
		r.must(err)
		if stats[0].Paused == nil {
			return ""
		}
		return stats[0].Paused.By + ": " + stats[0].Paused.Reason
	}
	return said(r.old), said(r.new)
}

// TestPauseGoesAlong: what somebody has paused is paused wherever the topic is worked on,
// and nowhere else when that has ended.
func TestPauseGoesAlong(t *testing.T) {
	for _, lasts := range []time.Duration{0, time.Hour} {
		onRoad(t, func(r *road) {
			t := r.T
			r.append(r.old, letter("k", 1))
			r.work()
			r.copies()
			r.must(r.old.Pause(t.Context(), "mail", lasts, "ann", "the printer burns"))
			_, err := r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second})
			r.must(err)
			if old, nu := r.pausedBy(); nu != "ann: the printer burns" || old != "tester: "+pauseReason {
				t.Errorf("after the cut-over: %q and %q", old, nu)
			}
			if _, err := r.traffic.CutOver(t.Context(), "mail", Moving{}); err != nil {
				t.Error(err)
			}
			r.append(r.through, letter("k", 2))
			if done := r.work(); len(done) != 0 || len(r.problems()) != 0 {
				t.Errorf("%v were done; problems are %v", done, r.problems())
			}
			_, err = r.traffic.RollBack(t.Context(), "mail", Moving{})
			r.must(err)
			if old, nu := r.pausedBy(); old != "ann: the printer burns" || nu != "" {
				t.Errorf("after the roll-back: %q and %q", old, nu)
			}
			if lasts == 0 {
				r.must(r.old.Resume(t.Context(), "mail"))
			}
			time.Sleep(lasts)
			if done := r.work(); len(done) != 1 {
				t.Errorf("when it is over %v were done", done)
			}
		})
	}
}

// TestResumedStaysResumed: a pause that was ended in the new store does not come again.
func TestResumedStaysResumed(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.append(r.old, letter("k", 1))
		r.work()
		r.copies()
		r.must(r.old.Pause(t.Context(), "mail", 0, "ann", "the printer burns"))
		_, err := r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second})
		r.must(err)
		r.must(r.new.Resume(t.Context(), "mail"))
		_, err = r.traffic.CutOver(t.Context(), "mail", Moving{})
		r.must(err)
		r.claimable(2)
		_, err = r.traffic.RollBack(t.Context(), "mail", Moving{})
		r.must(err)
		r.claimable(3)
	})
}

// draining is a topic of which the old store has k1, and the new one k2, where ann has
// paused it for so long. Then the cut-over goes on.
func (r *road) draining(pause time.Duration) {
	r.Helper()
	cutOver := func() {
		r.Helper()
		if _, err := r.traffic.CutOver(r.Context(), "mail", Moving{Calm: time.Second,
			Timeout: time.Second}); !errors.Is(err, ErrUnfinished) {
			r.Fatal(err)
		}
	}
	r.copies()
	r.append(r.through, letter("k", 1))
	cutOver()
	r.must(r.new.Pause(r.Context(), "mail", pause, "ann", "the printer burns"))
	r.append(r.through, letter("k", 2))
	cutOver()
	cutOver() // what it has noted stays
}

// TestAPauseThatEndsTooEarly: what somebody has paused for a while in the new store is
// not claimed there before the old one is empty, and is still paused if that was sooner.
func TestAPauseThatEndsTooEarly(t *testing.T) {
	for _, lasts := range []time.Duration{time.Minute, time.Hour} {
		onRoad(t, func(r *road) {
			t := r.T
			r.draining(lasts)
			time.Sleep(2 * time.Minute)
			ds, err := r.new.Claim(t.Context(), []store.Want{{Topic: "mail", Limit: 1}}, store.Lease{For: time.Minute})
			if err != nil || len(ds) != 0 {
				t.Fatalf("the new store gives %d before the old one is empty, %v", len(ds), err)
			}
			if done := r.work(); len(done) != 1 || done[0] != "k1" {
				t.Fatalf("%v were done", done)
			}
			_, err = r.traffic.CutOver(t.Context(), "mail", Moving{})
			r.must(err)
			if _, nu := r.pausedBy(); (nu == "ann: the printer burns") != (lasts == time.Hour) {
				t.Errorf("after the cut-over: %q", nu)
			}
			time.Sleep(lasts)
			if done := r.work(); len(done) != 1 || done[0] != "k2" {
				t.Errorf("when it is over %v were done", done)
			}
		})
	}
}

// TestNobodyOpensTheNewStore while a cut-over waits for the old one, and what was said of
// it then counts afterwards.
func TestNobodyOpensTheNewStore(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.copies()
		r.append(r.through, letter("k", 1))
		ended := make(chan error, 1)
		go func() {
			_, err := r.traffic.CutOver(context.Background(), "mail", Moving{Calm: time.Second})
			ended <- err
		}()
		time.Sleep(20 * time.Second)
		for _, do := range []func() error{
			func() error { return r.new.Resume(t.Context(), "mail") },
			func() error { return r.new.Pause(t.Context(), "mail", time.Hour, "ann", "the printer burns") },
		} {
			r.must(do())
			time.Sleep(time.Second)
			if _, nu := r.pausedBy(); !strings.HasPrefix(nu, "tester: "+pauseReason) {
				t.Errorf("it is paused by %q", nu)
			}
		}
		r.work()
		r.must(<-ended)
		if _, nu := r.pausedBy(); nu != "ann: the printer burns" {
			t.Errorf("after the cut-over: %q", nu)
		}
	})
}

// TestAPauseThatGoesBack: a roll-back takes along what ours stands in for.
func TestAPauseThatGoesBack(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.draining(time.Hour)
		_, err := r.traffic.RollBack(t.Context(), "mail", Moving{})
		r.must(err)
		if old, nu := r.pausedBy(); old != "ann: the printer burns" || nu != "" {
			t.Errorf("after the roll-back: %q and %q", old, nu)
		}
		time.Sleep(time.Hour)
		if done := r.work(); len(done) != 2 || done[0] != "k1" {
			t.Errorf("when it is over %v were done", done)
		}
	})
}

// TestALongPauseIsNoted, whatever it says.
func TestALongPauseIsNoted(t *testing.T) {
	nasty := strings.Repeat("\x01<ü\xff", store.MaxReason)
	q := &store.Pause{Until: time.Now(), By: nasty, Reason: nasty}
	said := store.Text(standIn(q))
	got := theirs(&store.TopicStats{Paused: &store.Pause{Reason: said}})
	if got == nil || !got.Until.Equal(q.Until) || got.By == "" || got.Reason == "" ||
		!strings.HasPrefix(nasty, got.By[:4]) {
		t.Errorf("of %d bytes: %+v", len(said), got)
	}
}

// TestDryRunOnlyLooks, also at a topic that was closed and not opened again.
func TestDryRunOnlyLooks(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.copies()
		p, err := r.traffic.Plans.Get(t.Context(), "mail")
		r.must(err)
		if _, err := r.traffic.shut(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		time.Sleep(closedFor)
		for what, do := range map[string]func(context.Context, string, Moving) (*Moved,
			error){"cut over": r.traffic.CutOver, "roll back": r.traffic.RollBack} {
			if moved, err := do(t.Context(), "mail", Moving{DryRun: true}); err != nil || moved.Stage != mirror.Dual {
				t.Errorf("%s: %+v, %v", what, moved, err)
			}
		}
		if now, err := r.traffic.Plans.Get(t.Context(), "mail"); err != nil || now.Version() != p.Version() {
			t.Errorf("the plan is at version %d and was at %d, %v", now.Version(), p.Version(), err)
		}
	})
}

// unwilling is a store whose state does not take some values.
type unwilling struct {
	*memory.Store
	refuses string
}

func (u *unwilling) PutState(ctx context.Context, key string, value []byte, version int64,
	writer string) (store.Entry, error) {
	if bytes.Contains(value, []byte(u.refuses)) {
		return store.Entry{}, &store.Error{Op: "put state", Code: store.ErrFull}
	}
	return u.Store.PutState(ctx, key, value, version, writer)
}

// TestStageThatIsNotStored is not told.
func TestStageThatIsNotStored(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.copies()
		traffic, err := New(t.Context(), &unwilling{r.old, `"stage":"moved"`}, r.new, "tester", "memory:")
		r.must(err)
		moved, err := traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second})
		if !errors.Is(err, store.ErrFull) || moved.Stage != mirror.Draining || moved.Position != nil {
			t.Errorf("%+v, %v", moved, err)
		}
	})
}
