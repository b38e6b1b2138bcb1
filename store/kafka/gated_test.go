package kafka

import "testing"

// TestGated counts what is finished behind the first message that is not.
func TestGated(t *testing.T) {
	for want, l := range map[int64]Lag{3: {Start: 0, End: 10, Committed: 4, Left: 3}, 0: {End: 10, Committed: 10},
		2: {Start: 5, End: 10, Committed: -1, Left: 3}} {
		if got := l.gated(); got != want {
			t.Errorf("%+v: %d, want %d", l, got, want)
		}
	}
}
