package project

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// rebuilt starts a daemon, and rebuilds its index once.
func (r *rig) rebuilt() (p *projection, health func() string) {
	r.t.Helper()
	d, _ := r.daemon()
	p = r.projection()
	r.put(1, "one", 1)
	r.drained()
	_, err := p.begin(r.t.Context())
	r.ok(err)
	r.until("the rebuild is searched", func() bool {
		st, err := p.state(r.t.Context())
		return err == nil && st.State == running && st.Previous != ""
	})
	return p, func() string { return d.Health(r.t.Context()).Degraded }
}

// TestRollbackWhoseAnswerIsLost: the alias has moved, and the state does not say so. Changes reach both indices all the
// same, and a rebuild keeps the one that is searched.
func TestRollbackWhoseAnswerIsLost(t *testing.T) {
	onBoth(t, func(r *rig) {
		p, _ := r.rebuilt()
		r.proxy.breaks(func(w http.ResponseWriter, q *http.Request, body []byte) bool {
			if q.URL.Path != "/_aliases" || !bytes.Contains(body, []byte("remove")) {
				return false
			}
			r.ok(r.direct().call(r.t.Context(), q.Method, q.URL.Path, body, nil))
			w.WriteHeader(http.StatusBadGateway)
			return true
		})
		before, err := p.state(r.t.Context())
		r.ok(err)
		if _, err := p.rollback(r.t.Context()); err == nil {
			r.t.Fatal("the answer was lost, and that is no error")
		}
		r.proxy.breaks(nil)
		r.put(2, "two", 1)
		r.drained()
		for _, index := range []string{before.Index, before.Previous} {
			found, err := r.direct().get(r.t.Context(), index, []string{"2"})
			if r.ok(err); !found[0].Found {
				r.t.Errorf("%s does not have the change", index)
			}
		}
		again, err := p.begin(r.t.Context())
		if r.ok(err); again.Index != before.Previous {
			r.t.Errorf("a rebuild takes %s for what is searched", again.Index)
		}
		if r.index()["2"] == "" {
			r.t.Error("a rebuild removed the index that is searched")
		}
		r.equal()
	})
}

// TestRollbackThatIsRepeated: it ends one whose answer was lost.
func TestRollbackThatIsRepeated(t *testing.T) {
	onBoth(t, func(r *rig) {
		p, _ := r.rebuilt()
		before, err := p.state(r.t.Context())
		r.ok(err)
		r.ok(p.search.point(r.t.Context(), r.alias, before.Index, before.Previous))
		r.put(2, "two", 1)
		r.drained()
		after, err := p.rollback(r.t.Context())
		if r.ok(err); after.Index != before.Previous || after.Previous != before.Index {
			r.t.Errorf("after the second rollback: %+v", after)
		}
		r.equal()
	})
}

// TestAliasThatWasMovedByHand: a projection is parked where the searched index is none of those that are written to,
// also while the index before the last rebuild is kept.
func TestAliasThatWasMovedByHand(t *testing.T) {
	onBoth(t, func(r *rig) {
		p, health := r.rebuilt()
		st, err := p.state(r.t.Context())
		r.ok(err)
		other := r.alias + "-000099"
		r.ok(r.direct().create(r.t.Context(), other, []byte("{}")))
		r.ok(r.direct().point(r.t.Context(), r.alias, st.Index, other))
		want := "the alias " + r.alias + " points to " + other + ", not to " + st.Index
		r.until("the projection is parked", func() bool { return health() == want })
		r.ok(r.direct().point(r.t.Context(), r.alias, other, st.Index))
		r.until("the projection goes on", func() bool { return health() == "" })
	})
}

// TestIndicesThatNoStateNames: what a rebuild could not remove, or made and then got no answer, is removed by the next
// one; an index of somebody else stays.
func TestIndicesThatNoStateNames(t *testing.T) {
	onBoth(t, func(r *rig) {
		p, _ := r.rebuilt() // of 000001 and 000002
		other := r.alias + "-000009"
		r.ok(r.direct().create(r.t.Context(), other, []byte("{}")))
		r.proxy.breaks(func(w http.ResponseWriter, q *http.Request, body []byte) bool {
			made := q.Method == http.MethodPut && strings.HasSuffix(q.URL.Path, "-000010")
			if made {
				r.ok(r.direct().call(r.t.Context(), q.Method, q.URL.Path, body, nil))
			}
			if made || q.Method == http.MethodDelete {
				w.WriteHeader(http.StatusBadGateway)
			}
			return made || q.Method == http.MethodDelete
		})
		if st, err := p.begin(r.t.Context()); err == nil {
			r.t.Fatalf("its index got no answer, and that is no error: %+v", st)
		}
		if st, err := p.begin(r.t.Context()); err == nil {
			r.t.Fatalf("the last index was not removed, and that is no error: %+v", st)
		}
		r.proxy.breaks(nil)
		ended := func() bool {
			st, err := p.state(r.t.Context())
			return err == nil && st.State == running && st.Previous != ""
		}
		r.until("the rebuild is searched", ended)
		_, err := p.begin(r.t.Context())
		r.ok(err)
		r.until("the next one is searched", ended)
		names, err := r.direct().named(r.t.Context(), r.alias)
		r.ok(err)
		slices.Sort(names)
		want := []string{other, r.alias + "-000011", r.alias + "-000012"}
		if !slices.Equal(names, want) {
			r.t.Errorf("the indices are %v, want %v", names, want)
		}
		r.equal()
	})
}
