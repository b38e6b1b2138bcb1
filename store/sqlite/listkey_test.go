package sqlite

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// BenchmarkListKey is what it costs to find out whether a key has messages among
// 100,000 of 1,000 others.
func BenchmarkListKey(b *testing.B) {
	s := open(b, Config{Path: filepath.Join(b.TempDir(), "pawl.db")})
	const n, keys = 100_000, 1000
	for from := 0; from < n; from += 10_000 {
		var batch store.Batch[pawl.Message]
		for i := range 10_000 {
			batch.Items = append(batch.Items, pawl.Message{Topic: "orders", Key: fmt.Append(nil, "key", (from+i)%keys),
				Body: []byte("body")})
		}
		if _, err := s.Append(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	for name, key := range map[string]string{"there": "key7", "last": "key999", "none": "key"} {
		for _, limit := range []int{0, 1} {
			b.Run(fmt.Sprintf("%s/limit=%d", name, limit), func(b *testing.B) {
				for b.Loop() {
					for _, err := range s.List(b.Context(), store.Filter{Topic: "orders", Key: []byte(key),
						Limit: limit}) {
						if err != nil {
							b.Fatal(err)
						}
						break
					}
				}
			})
		}
	}
}

// TestKeyIsLookedUp: listing a key reads no other messages.
func TestKeyIsLookedUp(t *testing.T) {
	s := open(t, Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	load(t, s, 3000, 100)
	c, err := connect(t.Context(), dsn(s.cfg.Path, "mode=rw"))
	must(t, err)
	defer func() { _ = c.close() }()
	steps := plan(t, c, placesOf+isThere+ofKey+inOrder)
	if !slices.Contains(steps, "SEARCH m USING INTEGER PRIMARY KEY (rowid=?)") ||
		!slices.Contains(steps, "SEARCH o USING COVERING INDEX pawl_msg_lane (lane=?)") {
		t.Errorf("a key is listed like this: %q", steps)
	}
}
