package cli

import (
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/cli/flag"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// Messages that are retried are selected by the facts of their last failure.
func TestLiveFilterByFacts(t *testing.T) {
	s := memory.New(memory.Config{})
	t.Cleanup(func() { _ = s.Close() })
	var msgs []pawl.Message
	for _, id := range []string{"a", "b", "c", "d"} {
		msgs = append(msgs, pawl.Message{ID: id, Topic: "t"})
	}
	if _, err := s.Append(t.Context(), store.NewBatch(msgs...)); err != nil {
		t.Fatal(err)
	}
	ds, err := s.Claim(t.Context(), []store.Want{{Topic: "t", Limit: 3}}, store.Lease{For: time.Minute})
	if err != nil || len(ds) != 3 {
		t.Fatal(ds, err)
	}
	var items []store.Settlement
	for i, status := range []string{"404", "500", "404"} {
		items = append(items, store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Retry, After: time.Hour,
			Failure: store.Failure{Error: "failed", Attrs: map[string]string{"status": status}}})
	}
	if refused, err := s.Settle(t.Context(), store.NewBatch(items...)); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	for _, c := range []struct {
		f    liveFilter
		want []string
	}{
		{liveFilter{topic: "t"}, []string{"a", "b", "c", "d"}},
		{liveFilter{attrs: flag.Facts{"status": "404"}}, []string{"a", "c"}},
		{liveFilter{attrs: flag.Facts{"status": "404"}, limit: 1}, []string{"a"}},
		{liveFilter{attrs: flag.Facts{"status": "404", "host": "x"}}, nil},
		{liveFilter{topic: "other"}, nil},
	} {
		found, err := c.f.find(t.Context(), s, store.Filter{}, func(*store.Record) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		got := idsOf(found)
		if slices.Sort(got); !slices.Equal(got, slices.Concat([]string{}, c.want)) {
			t.Errorf("%+v selects %q; want %q", c.f, got, c.want)
		}
	}
}
