package operate

import (
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// records yields n messages; the last one is special.
func records(n int) func(yield func(store.Record, error) bool) {
	return func(yield func(store.Record, error) bool) {
		for i := range n {
			r := store.Record{Message: pawl.Message{ID: "plain", Body: []byte("nothing")}}
			if i == n-1 {
				r = store.Record{Message: pawl.Message{ID: "special", Key: []byte("Customer-7"), Body: []byte("Hello"),
					Headers: map[string]string{"tenant": "Acme"}, Unique: pawl.Unique{Key: "once"}}}
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

func TestSearch(t *testing.T) {
	for _, c := range []struct {
		search Search
		want   int
	}{
		{Search{Text: "hello"}, 1}, {Search{Text: "ACME"}, 1}, {Search{Text: "customer-7"}, 1}, {Search{Text: "SPEC"}, 1},
		{Search{Text: "hallo"}, 0}, {Search{Header: "tenant"}, 1}, {Search{Header: "tenant=Acme"}, 1},
		{Search{Header: "tenant=other"}, 0}, {Search{UniqueKey: "once"}, 1}, {Search{UniqueKey: "twice"}, 0},
		{Search{Text: "hello", UniqueKey: "twice"}, 0}, {Search{}, 3},
	} {
		var found []string
		for r, err := range c.search.In(records(3), func() { t.Error("more") }) {
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, r.ID)
		}
		if len(found) != c.want || c.want == 1 && !slices.Equal(found, []string{"special"}) {
			t.Errorf("%+v finds %v", c.search, found)
		}
	}
	more := false
	for range (Search{Text: "hello"}).In(records(MostSearched+1), func() { more = true }) {
		t.Error("it looks further than it may")
	}
	if !more {
		t.Error("it does not say that there is more")
	}
}
