package crawl

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// TestHosts looks at the hosts of a crawl from outside of its process.
func TestHosts(t *testing.T) {
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	p, err := find(s)
	if err != nil {
		t.Fatal(err)
	}
	shop := store.Declaration{Name: "shop.request", Order: store.OrderKey}
	if _, err := p.topics.Declare(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	send := func(keys ...string) {
		var all []pawl.Message
		for _, key := range keys {
			all = append(all, pawl.Message{Topic: "shop.request", Key: []byte(key)})
		}
		if _, err := s.Append(t.Context(), store.NewBatch(all...)); err != nil {
			t.Fatal(err)
		}
	}
	send("b.example#0", "a.example#0")
	claimed, err := s.Claim(t.Context(), []store.Want{{Topic: "shop.request", Limit: 2}}, store.Lease{For: time.Minute})
	if err != nil || len(claimed) != 2 {
		t.Fatal(len(claimed), err)
	}
	for i := range claimed {
		if string(claimed[i].Key) != "b.example#0" {
			continue
		}
		if _, err := s.Settle(t.Context(), store.NewBatch(store.Settlement{Token: claimed[i].Token, ID: claimed[i].ID,
			Verdict: store.Dead, Failure: store.Failure{Error: "410"}})); err != nil {
			t.Fatal(err)
		}
	}
	send("a.example#0", "a.example#1")
	r := run{ID: "r1"}
	if err := r.save(t.Context(), p, "shop"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.marks.PutMarks(t.Context(), pawl.Mark{Scope: scopeOf("r1"), Key: heldKey + "b.example",
		For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	all, err := hostsOf(t.Context(), p, "shop")
	if err != nil {
		t.Fatal(err)
	}
	a, b := all["a.example"], all["b.example"]
	if a == nil || b == nil || a.Waiting != 2 || a.InFlight != 1 || a.Errors != 0 || !a.HeldUntil.IsZero() {
		t.Fatalf("a: %+v, b: %+v", a, b)
	}
	if b.Waiting != 0 || b.Errors != 1 || time.Until(b.HeldUntil) < 50*time.Minute {
		t.Errorf("b: %+v", b)
	}
}
