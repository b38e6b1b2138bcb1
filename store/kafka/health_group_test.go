package kafka_test

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl/store/kafka"
)

// TestHealthWithoutMembers: messages that nobody is there for are a problem, whether or
// not somebody was.
func TestHealthWithoutMembers(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	s := open(t, brisk(cluster.ListenAddrs()))
	send(t, s, "a", 0, 3)
	wantFault(t, s, "3 messages are there, and group pawl has never done any")
	commit(t, cluster.ListenAddrs(), "pawl", "a", 1, "")
	wantFault(t, s, "2 messages are left, and group pawl has no member")
	commit(t, cluster.ListenAddrs(), "pawl", "a", 3, "")
	wantFault(t, s, "")
	cluster.ControlKey(kmsg.ListOffsets.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if !concerns(r, "a") {
			return nil, nil, false
		}
		return without(r, [16]byte{}, kerr.UnknownServerError), nil, true
	})
	wantFault(t, s, "how much of it is left is unknown")
}

// wantFault asks how topic "a" is; "" is well.
func wantFault(t *testing.T, s *kafka.Store, words string) {
	t.Helper()
	h, err := s.Health(t.Context(), "a")
	if err != nil || len(h.Topics) != 1 {
		t.Fatalf("%+v, %v", h, err)
	}
	n := 0
	for _, f := range h.Faults {
		if f.About == "a" {
			if n++; words == "" || !strings.Contains(f.What, words) {
				t.Errorf("%s; want %q", f.What, words)
			}
		}
	}
	if words != "" && n != 1 {
		t.Errorf("%d faults %+v; want %q", n, h.Faults, words)
	}
}
