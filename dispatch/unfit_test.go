package dispatch_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// picky is a store that takes no delays: it says so before, or only when it settles.
type picky struct {
	store.Store
	tells bool
}

var errPicky = &store.Error{Op: "append", Code: store.ErrUnsupported, Err: errors.New("no delays here")}

func (p picky) Unwrap() store.Store { return p.Store }

func (p picky) Describe() store.Description {
	d := store.Describe(p.Store)
	d.Refuses = func(m *pawl.Message) error {
		if p.tells && m.Delay > 0 {
			return errPicky
		}
		return nil
	}
	return d
}

func (p picky) Settle(ctx context.Context, b store.Batch[store.Settlement]) (refused []store.Refusal, err error) {
	fit := store.Batch[store.Settlement]{ID: b.ID}
	var at []int
	for i, st := range b.Items {
		bad := false
		for _, m := range st.Emit {
			bad = bad || m.Delay > 0
		}
		if bad {
			refused = append(refused, store.Refusal{Index: i,
				Err: &pawl.InvalidError{Field: "emit", Why: errPicky.Error()}})
			continue
		}
		fit.Items, at = append(fit.Items, st), append(at, i)
	}
	more, err := p.Store.Settle(ctx, fit)
	for _, r := range more {
		refused = append(refused, store.Refusal{Index: at[r.Index], Err: r.Err})
	}
	return refused, err
}

// What the store of this worker does not take to be emitted fails its own delivery, at
// once and with the reason, whenever the store says so.
func TestUnfitEmitIsPermanent(t *testing.T) {
	for name, tells := range map[string]bool{"told before": true, "told by the settle": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.store.Store = picky{r.mem, tells}
				r.append(pawl.Message{Topic: "a", ID: "bad", Key: []byte("k")},
					pawl.Message{Topic: "a", ID: "next", Key: []byte("k")}, pawl.Message{Topic: "a", ID: "other"})
				calls := map[string]int{}
				r.run(one(1, func(_ context.Context, d *pawl.Delivery) error {
					calls[d.ID]++
					m := pawl.Message{Topic: "b", Body: []byte(d.ID)}
					if d.ID == "bad" {
						m.Delay = time.Second
					}
					d.Emit(m)
					return nil
				}))
				time.Sleep(10 * time.Second) // leases and deadlines are longer
				rec := r.get("bad")
				equal(r, []any{rec.State, rec.Attempts, rec.Kind, rec.Rescues},
					[]any{store.IsDead, 1, pawl.KindEmit, 0})
				equal(r, strings.Contains(rec.Reason, "no delays here"), true)
				r.gone("next")
				r.gone("other")
				equal(r, calls["bad"], 1)
				equal(r, r.stats("b").Waiting, int64(2))
				equal(r, r.d.Snapshot().Topics[0].Dead, int64(1))
			})
		})
	}
}
