package storetest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	"github.com/pawl-dev/pawl/store"
)

// sameDeadLetters: many bury, amend, replay and purge the same dead letters at
// once, each in an order of its own; every call succeeds, and each letter is
// buried, and goes, once.
func sameDeadLetters(t *T) {
	const n, callers = 60, 6
	for round := range 3 {
		var letters []store.Record
		for i := range n {
			letters = append(letters, letter(t.msg("x"), strconv.Itoa(round)+"-"+strconv.Itoa(i)))
		}
		did := map[string]map[string]int{"bury": {}, "amend": {}, "replay or purge": {}}
		var mu sync.Mutex
		each := func(what string, call func(d store.DeadLetters, i int,
			mixed []store.Record) (map[string]error, error)) {
			t.together(callers, func(i int, s store.Store) error {
				mixed := slices.Clone(letters)
				rand.Shuffle(n, func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
				d, _ := store.As[store.DeadLetters](s)
				refused, err := call(d, i, mixed)
				mu.Lock()
				defer mu.Unlock()
				for _, r := range letters {
					if err == nil && refused[r.ID] == nil {
						did[what][r.ID]++
					}
				}
				return err
			})
		}
		each("bury", func(d store.DeadLetters, _ int, mixed []store.Record) (map[string]error, error) {
			return d.Bury(t.ctx(), mixed...)
		})
		for range 5 {
			each("amend", func(d store.DeadLetters, i int, mixed []store.Record) (map[string]error, error) {
				return d.Amend(t.ctx(), amendmentsOf(mixed, strconv.Itoa(i))...)
			})
		}
		each("replay or purge", func(d store.DeadLetters, i int, mixed []store.Record) (map[string]error, error) {
			if i%3 == 0 {
				return d.Purge(t.ctx(), idsOf(mixed)...)
			}
			return d.Replay(t.ctx(), "", idsOf(mixed)...)
		})
		for what, want := range map[string]int{"bury": 1, "amend": 5 * callers, "replay or purge": 1} {
			if got := slices.Sorted(maps.Values(did[what])); len(got) != n || got[0] != want || got[n-1] != want {
				t.Fatalf("round %d: %s succeeded so often, by letter: %v; want %d", round, what, got, want)
			}
		}
	}
}

func idsOf(rs []store.Record) []string {
	return each(rs, func(r store.Record) string { return r.ID })
}

func amendmentsOf(rs []store.Record, body string) []store.Amendment {
	return each(rs, func(r store.Record) store.Amendment {
		return store.Amendment{ID: r.ID, Body: []byte(body), Headers: map[string]string{"by": body}}
	})
}
