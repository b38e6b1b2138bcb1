package operate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// longAudit is a store with so many entries of the audit, of which every tenth is an edit.
func longAudit(t *testing.T, n int) *countingStore {
	t.Helper()
	s := &countingStore{Store: memory.New(memory.Config{})}
	for i := range n {
		a := AuditEntry{ID: fmt.Sprintf("%06d", i), Action: "cancel", Target: "mail"}
		if i%10 == 0 {
			a.Action = "edit"
		}
		if err := Audit(t.Context(), s, a); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestAuditReadsTheLatestOnly: what a long audit is asked for is read, and not all of it.
func TestAuditReadsTheLatestOnly(t *testing.T) {
	s := longAudit(t, 5000)
	for _, f := range []AuditFilter{{Limit: 1}, {Limit: 3}, {Limit: 3, Action: "edit"}} {
		s.read = 0
		all, err := ListAudit(t.Context(), s, f)
		if err != nil || len(all) != f.Limit {
			t.Fatalf("%+v: %d entries, %v", f, len(all), err)
		}
		if last := all[len(all)-1]; f.Action == "" && last.ID != "004999" || f.Action != "" && last.ID != "004990" {
			t.Errorf("%+v: the last one is %s", f, last.ID)
		}
		if s.read > 50 {
			t.Errorf("%+v: %d entries were read", f, s.read)
		}
	}
	if _, err := ShowTopic(t.Context(), s, s, "mail"); err == nil {
		t.Error("a topic that is not there is shown")
	}
	s.read = 0
	if r := findRemoval(t.Context(), s, "none"); r != nil || s.read != 5000 {
		t.Errorf("%+v, %d entries were read", r, s.read)
	}
}

// TestAuditPages: the pages of an audit have every entry once, in either order, and a filter looks at so many.
func TestAuditPages(t *testing.T) {
	s := longAudit(t, 500)
	since, err := s.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []Part{{Limit: 70}, {Limit: 70, Newest: true}, {Limit: 70, Looks: 30},
		{Limit: 7, Looks: 45, Newest: true}} {
		for _, f := range []AuditFilter{{}, {Action: "edit"}, {Since: since.Add(-1e15)}} {
			var got []string
			for at := part; ; {
				p, err := PageAudit(t.Context(), s, f, at)
				if err != nil || len(p.Items) > at.Limit || p.Looked > at.Looks {
					t.Fatalf("%+v %+v: %d items, looked at %d, %v", f, at, len(p.Items), p.Looked, err)
				}
				for _, a := range p.Items {
					got = append(got, a.ID)
				}
				if at.From = p.Next; p.Next == 0 {
					break
				}
			}
			want := 500
			if f.Action != "" {
				want = 50
			}
			order := strings.Compare
			if part.Newest {
				order = func(a, b string) int { return strings.Compare(b, a) }
			}
			if len(got) != want || !slices.IsSortedFunc(got, order) {
				t.Errorf("%+v %+v: %d entries in order %v", f, part, len(got), slices.IsSortedFunc(got, order))
			}
		}
	}
}

// TestAuditSince: what is older is not read, for the newest, and not shown first, for the oldest.
func TestAuditSince(t *testing.T) {
	s := longAudit(t, 300)
	later, err := s.Clock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	later = later.Add(1)
	for i := range 20 {
		if err := Audit(t.Context(), s, AuditEntry{ID: fmt.Sprint("later-", i+10), Action: "skip"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, part := range []Part{{Limit: 5}, {Limit: 5, Newest: true}} {
		s.read = 0
		p, err := PageAudit(t.Context(), s, AuditFilter{Since: later}, part)
		if err != nil || len(p.Items) != 5 || p.Next == 0 || s.read > 30 {
			t.Fatalf("%+v: %d items, next %d, %v; %d were read", part, len(p.Items), p.Next, err, s.read)
		}
		want := map[bool]string{false: "later-10", true: "later-29"}[part.Newest]
		if p.Items[0].ID != want {
			t.Errorf("%+v: the first is %s, want %s", part, p.Items[0].ID, want)
		}
	}
}

// TestLargeEntriesEndAPage: a page with a bound has some megabytes at most.
func TestLargeEntriesEndAPage(t *testing.T) {
	s := memory.New(memory.Config{})
	value := make([]byte, store.MaxStateValue)
	for i := range 40 {
		if _, err := s.PutState(t.Context(), fmt.Sprint("large/", i), value, store.AnyVersion, ""); err != nil {
			t.Fatal(err)
		}
	}
	take := func(e *store.Entry) (string, bool, error) { return e.Key, true, nil }
	n := 0
	for part := (Part{Limit: 100, Looks: MostSearched}); ; {
		p, err := PageOf(t.Context(), s, "large/", part, take)
		if n += len(p.Items); err != nil || len(p.Items) > 20 {
			t.Fatalf("%d items, %v", len(p.Items), err)
		}
		if part.From = p.Next; p.Next == 0 {
			break
		}
	}
	if n != 40 {
		t.Errorf("%d entries", n)
	}
}
