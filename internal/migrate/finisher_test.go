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

// TestAWorkerFinishesACutOver whose process was killed while the old store was worked off,
// and not before it is taken for gone. Until then the status says what is wrong.
func TestAWorkerFinishesACutOver(t *testing.T) {
	onRoad(t, func(r *road) {
		t := r.T
		r.draining(0)
		r.must(r.new.Resume(t.Context(), "mail")) // what ann had paused is not what this is about
		alone := func() bool {
			return slices.ContainsFunc(r.problems(), func(p string) bool {
				return strings.HasPrefix(p, "nobody carries its cut-over on")
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
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan struct{})
		f := &Finisher{From: r.through, Who: "worker", Target: "memory:", Logger: slog.New(slog.DiscardHandler),
			Open: func(context.Context) (store.Store, error) { return staying{r.new}, nil }}
		go func() { defer close(over); f.Run(ctx) }()
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
		<-over
	})
}
