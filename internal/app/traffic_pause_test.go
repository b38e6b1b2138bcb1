package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
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
		second, err := NewTraffic(t.Context(), r.old, r.new, "second", "memory:")
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
		if ps := r.problems(); len(ps) != 1 || !strings.Contains(ps[0], "it is moved, but paused in the new store: run `pawl traffic cut-over mail`") {
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
