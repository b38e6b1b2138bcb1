package migrate

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/mirror"
)

// staying is a store that a finisher may close, and that stays open.
type staying struct{ store.Store }

func (staying) Close() error          { return nil }
func (s staying) Unwrap() store.Store { return s.Store }

// finishing runs a finisher until what it returns is called.
func (r *road) finishing() (stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	over := make(chan struct{})
	f := &Finisher{From: r.through, Who: "worker", Target: "memory:", Logger: slog.New(slog.DiscardHandler),
		Open: func(context.Context) (from, to store.Store, err error) {
			return staying{r.old}, staying{r.new}, nil
		}}
	go func() { defer close(over); f.Run(ctx) }()
	return func() { cancel(); <-over }
}

// TestAWorkerFinishesACutOver whose process was killed while the old store was worked off,
// and not before it is taken for gone. Until then the status says what is wrong.
func TestAWorkerFinishesACutOver(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.draining(0)
		r.must(r.new.Resume(t.Context(), "mail")) // what ann had paused is not what this is about
		alone := func() bool {
			return slices.ContainsFunc(r.problems(), func(p string) bool {
				return strings.HasPrefix(p, "no process continues its cut-over")
			})
		}
		if !alone() {
			t.Errorf("a cut-over that gave up: %q", r.problems())
		}
		end, err := r.traffic.attend(t.Context(), "mail", store.AnyVersion)
		r.must(err)
		if alone() {
			t.Errorf("while somebody moves it: %q", r.problems())
		}
		end(false) // as if it was killed
		time.Sleep(moverGone)
		if !alone() {
			t.Errorf("a cut-over that was killed: %q", r.problems())
		}
		end, err = r.traffic.attend(t.Context(), "mail", store.AnyVersion)
		r.must(err)
		stop := r.finishing()
		time.Sleep(3 * moverGone)
		if p, err := r.traffic.Plans.Get(t.Context(), "mail"); err != nil || p.Stage != mirror.Draining || alone() {
			t.Errorf("while somebody moves it: %+v, %v, %q", p, err, r.problems())
		}
		end(false)
		if done := r.work(); len(done) != 1 || done[0] != "k1" {
			t.Errorf("%v were done in the old store", done)
		}
		time.Sleep(moverGone + 2*finisherLooks)
		if p, err := r.traffic.Plans.Get(t.Context(), "mail"); err != nil || p.Stage != mirror.Moved ||
			len(r.problems()) > 0 {
			t.Errorf("when a worker has finished it: %+v, %v, %q", p, err, r.problems())
		}
		if done := r.work(); len(done) != 1 || done[0] != "k2" {
			t.Errorf("%v were done in the new store", done)
		}
		stop()
	})
}

// TestAWorkerFinishesARollBack whose process was killed. One that ended by an error is left to who began it.
func TestAWorkerFinishesARollBack(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.copies()
		_, err := r.traffic.CutOver(t.Context(), "mail", Moving{Calm: time.Second})
		r.must(err)
		r.append(r.through, letter("k", 1))
		plan := func() *mirror.Plan {
			p, err := r.traffic.Plans.Get(t.Context(), "mail")
			r.must(err)
			return p
		}
		alone := func() bool {
			return slices.ContainsFunc(r.problems(), func(p string) bool {
				return strings.HasPrefix(p, "no process continues its roll-back")
			})
		}
		stop := r.finishing()

		r.must(r.traffic.put(t.Context(), plan(), mirror.Returning)) // as one that gave up
		time.Sleep(3 * moverGone)
		if plan().Stage != mirror.Returning || !alone() {
			t.Errorf("one that gave up: %+v, %q", plan(), r.problems())
		}
		end, err := r.traffic.attend(t.Context(), "mail", store.AnyVersion)
		r.must(err)
		time.Sleep(3 * moverGone)
		if plan().Stage != mirror.Returning || alone() {
			t.Errorf("while somebody is at it: %+v, %q", plan(), r.problems())
		}
		end(false) // as if it was killed
		time.Sleep(moverGone + 2*finisherLooks + closedFor)
		if plan().Stage != mirror.Dual || alone() {
			t.Errorf("when a worker has finished it: %+v, %q", plan(), r.problems())
		}
		if done := r.work(); len(done) != 1 || done[0] != "k1" {
			t.Errorf("%v were done in the old store", done)
		}
		stop()
	})
}
