package kafka_test

import (
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// In a cluster that was just started the coordinator of a group is not there yet: who
// asks for figures waits for it.
func TestCoordinatorIsWaitedFor(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	s := open(t, brisk(cluster.ListenAddrs()))
	send(t, s, "a", 0, 3)
	var asked atomic.Int32
	cluster.ControlKey(kmsg.FindCoordinator.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if asked.Add(1) > 12 {
			return nil, nil, false
		}
		req := r.(*kmsg.FindCoordinatorRequest)
		resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
		resp.ErrorCode = kerr.CoordinatorNotAvailable.Code
		for _, key := range req.CoordinatorKeys {
			c := kmsg.NewFindCoordinatorResponseCoordinator()
			c.Key, c.ErrorCode = key, kerr.CoordinatorNotAvailable.Code
			resp.Coordinators = append(resp.Coordinators, c)
		}
		return resp, nil, true
	})
	if stats, err := s.Stats(t.Context(), "a"); err != nil || stats[0].Waiting != 3 {
		t.Fatalf("%+v, %v", stats, err)
	}
}
