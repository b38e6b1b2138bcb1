package sqlstore

import (
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestAPageHasWhatFitsIntoMemory: the first page of whole letters is small, and the others are larger only if what they
// have is not.
func TestAPageHasWhatFitsIntoMemory(t *testing.T) {
	const n = 1000
	for name, c := range map[string]struct {
		body   int // bytes
		brief  bool
		atMost int // pages
	}{
		"small": {100, false, 5}, "large": {1 << 20, false, 126}, "huge": {12 << 20, false, n}, "brief": {0, true, 1},
	} {
		body := make([]byte, c.body)
		pages, got := 0, 0
		for r, err := range ListDead(store.DeadFilter{Brief: c.brief}, 20*firstPage*firstPage, false,
			func(after int64, limit int) (page []Letter, err error) {
				pages++
				if !c.brief && pages == 1 && limit > firstPage || pages > 1 && limit > 1 && limit*c.body > pageBytes {
					t.Errorf("%s: page %d has %d letters", name, pages, limit)
				}
				for i := after; i < n && len(page) < limit; i++ {
					page = append(page, Letter{store.Record{Message: pawl.Message{Topic: "t", Body: body}}, i + 1})
				}
				return page, nil
			}) {
			if err != nil || r.Topic != "t" {
				t.Fatal(r.Topic, err)
			}
			got++
		}
		if got != n || pages > c.atMost {
			t.Errorf("%s: %d letters in %d pages", name, got, pages)
		}
	}
}
