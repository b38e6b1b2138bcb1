package codec_test

import (
	"context"
	"fmt"
	"iter"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// hooked is a store in whose listings something happens, one after the other, when
// the first record comes.
type hooked struct {
	store.Store
	store.Inspector
	during []func()
}

func (h *hooked) Unwrap() store.Store { return h.Store }

func (h *hooked) List(ctx context.Context, f store.Filter) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		var hook func()
		if len(h.during) > 0 {
			hook, h.during = h.during[0], h.during[1:]
		}
		for r, err := range h.Inspector.List(ctx, f) {
			if hook != nil {
				hook()
				hook = nil
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// letDie lets one message die.
func (r *rig) letDie(inner store.Store, id string) {
	r.Helper()
	ds, err := inner.Claim(r.Context(), []store.Want{{Topic: "a", Limit: 1000}}, store.Lease{For: time.Minute})
	r.must(err)
	for _, d := range ds {
		if d.ID == id {
			refused, err := inner.Settle(r.Context(), store.NewBatch(store.Settlement{Token: d.Token, ID: d.ID,
				Verdict: store.Dead}))
			if r.must(err); len(refused) == 0 {
				return
			}
		}
	}
	r.Fatalf("%d deliveries, and %s does not die", len(ds), id)
}

// TestCollectAndTheDelayed: a delayed message with a key moves to another place of
// the listing when it is due. One that does so between two pages of the listing
// keeps its body.
func TestCollectAndTheDelayed(t *testing.T) {
	for _, dead := range []bool{false, true} { // and it dies before the next listing
		t.Run(fmt.Sprintf("dead %v", dead), func(t *testing.T) {
			r := &rig{TB: t, clock: &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)},
				blobs: filepath.Join(t.TempDir(), "blobs")}
			inner, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "x.db"), Now: r.Now})
			r.must(err)
			t.Cleanup(func() { r.must(inner.Close()) })
			h := &hooked{Store: inner, Inspector: inner}
			r.inner = h
			r.wrap(codec.Config{Offload: 1024})
			var small []pawl.Message
			for n := range 300 { // more than a page
				m := msg(fmt.Append(nil, n))
				m.Topic = "a"
				small = append(small, m)
			}
			r.put(small...)
			late := keyed("k", noise(2000, 1))
			late.Topic, late.Delay = "a", time.Minute
			id := r.put(late)[0]
			r.age(48*time.Hour, r.file())
			h.during = []func(){func() {
				r.Advance(2 * time.Minute)
				_, err := inner.Claim(t.Context(), []store.Want{{Topic: "a", Limit: 1}}, store.Lease{For: time.Minute})
				r.must(err)
			}}
			if dead {
				h.during = append(h.during, func() { r.letDie(inner, id) })
			}
			_, err = r.Collect(t.Context(), 0)
			r.must(err)
			r.file()
			if got := r.seen(id); string(got.Body) != string(late.Body) {
				t.Fatalf("its body is gone: %+v", got)
			}
		})
	}
}
