package kafka

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TestTopicsMadeAgainAreSeenOnce: also when some brokers still show the topic before.
func TestTopicsMadeAgainAreSeenOnce(t *testing.T) {
	var d directory
	d.init(nil)
	for i, c := range []struct {
		id    byte
		again bool
	}{{1, false}, {1, false}, {2, true}, {1, false}, {2, false}, {0, false}, {2, false}, {3, true}} {
		want := []string(nil)
		if c.again {
			want = []string{"t"}
		}
		if got := d.note([]string{"t"}, map[string]entry{"t": {id: kadm.TopicID{c.id},
			partitions: 1}}); !slices.Equal(got, want) {
			t.Errorf("look %d, id %d: made again: %q, want %q", i, c.id, got, want)
		}
	}
}

// TestTopicsWithoutIDsAreForgotten: nobody can tell whether they were made again.
func TestTopicsWithoutIDsAreForgotten(t *testing.T) {
	var d directory
	d.init(nil)
	d.note([]string{"old", "new"}, map[string]entry{"old": {partitions: 1},
		"new": {id: kadm.TopicID{1}, partitions: 1}})
	for name, nameless := range map[string]bool{"old": true, "new": false, "unknown": false} {
		if got := d.forget(name); got != nameless {
			t.Errorf("%s: nameless %v", name, got)
		}
	}
	if _, ok := d.known("new"); ok {
		t.Error("it is still known")
	}
}
