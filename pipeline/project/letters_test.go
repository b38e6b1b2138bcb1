package project

import (
	"testing"

	"github.com/pawl-dev/pawl/store"
)

// TestLetterThatIsResolvedByHand: it is not replayed, and the view says who has dealt with it.
func TestLetterThatIsResolvedByHand(t *testing.T) {
	onBoth(t, func(r *rig) {
		p := r.projection()
		p.mapping = []byte(`{"mappings":{"dynamic":"strict","properties":{"other":{"type":"text"}}}}`)
		first := indexAfter(r.alias, "")
		r.ok(p.search.create(r.t.Context(), first, p.mapping))
		r.ok(p.search.point(r.t.Context(), r.alias, "", first))
		_, stop := r.daemon()
		r.put(1, "one", 1)
		r.put(2, "two", 1)
		r.until("two dead letters", func() bool { return r.standing().failed == 2 })
		stop()
		letters, _ := store.As[store.DeadLetters](r.store)
		for rec, err := range letters.Dead(r.t.Context(), store.DeadFilter{Topic: p.topic, Key: []byte("1")}) {
			r.ok(err)
			refused, err := letters.Resolve(r.t.Context(), "ann", "by hand", rec.ID)
			if r.ok(err); len(refused) > 0 {
				r.t.Fatal(refused)
			}
		}
		got := r.one(`SELECT doc_id || ' ' || resolved_by FROM dead_letter_outbox WHERE resolved_at IS NOT NULL`)
		if got != "1 ann" {
			r.t.Errorf("resolved is %q", got)
		}
		again := replay{projection: p, who: "ann"}
		r.ok(again.all(r.t.Context(), store.DeadFilter{Topic: p.topic}))
		if again.matched != 1 || again.replayed != 1 || r.standing().pending != 1 {
			r.t.Errorf("matched %d, replayed %d, pending %d", again.matched, again.replayed, r.standing().pending)
		}
	})
}
