package kafka_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// replicasOf are the brokers that have the topic of the state.
func replicasOf(t *testing.T, admin *kadm.Client, topic string) []int32 {
	t.Helper()
	found, err := admin.ListTopics(t.Context(), topic)
	if err != nil || found[topic].Err != nil {
		t.Fatal(err, found[topic].Err)
	}
	return found[topic].Partitions[0].Replicas
}

func isr(t *testing.T, admin *kadm.Client, topic string) string {
	t.Helper()
	all, err := admin.DescribeTopicConfigs(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all[0].Configs {
		if c.Key == "min.insync.replicas" {
			return c.MaybeValue()
		}
	}
	return ""
}

// TestStateOutlivesABroker: its topic has three replicas wherever there are three brokers,
// whatever their default is; in a cluster of one it has one.
func TestStateOutlivesABroker(t *testing.T) {
	t.Parallel()
	for brokers, want := range map[int]string{1: "1", 2: "1", 3: "2"} {
		config := brisk(fakeCluster(t, brokers).ListenAddrs())
		config.Create.Replicas = 0
		s, admin := open(t, config), adminOf(t, config.Brokers)
		if _, err := s.PutState(t.Context(), "a", nil, store.AnyVersion, "test"); err != nil {
			t.Fatal(err)
		}
		if n := len(replicasOf(t, admin, "pawl.state")); n != brokers || isr(t, admin, "pawl.state") != want {
			t.Errorf("of %d brokers %d have it, and %s have to be in sync; want %s", brokers, n,
				isr(t, admin, "pawl.state"), want)
		}
	}
}

// TestEnsureStateRepairs a topic that was made with one replica, of which health tells.
func TestEnsureStateRepairs(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 3)
	config := brisk(cluster.ListenAddrs())
	admin := adminOf(t, config.Brokers)
	var asked atomic.Int32 // replicas; this broker says yes, and moves nothing
	cluster.ControlKey(kmsg.AlterPartitionAssignments.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asked.Store(int32(len(r.(*kmsg.AlterPartitionAssignmentsRequest).Topics[0].Partitions[0].Replicas)))
		return nil, nil, false
	})
	if resp, err := admin.CreateTopics(t.Context(), 1, 1, nil, "pawl.state"); err != nil || resp.Error() != nil {
		t.Fatal(err, resp.Error())
	}
	config.Create.Replicas = 0
	s := open(t, config)
	ill := func() bool {
		h, err := s.Health(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range h.Faults {
			if strings.Contains(f.What, "the state has 1 replicas of 3") {
				return true
			}
		}
		return false
	}
	if !ill() {
		t.Error("health says nothing of a state with one replica")
	}
	if e, err := s.EnsureState(t.Context(), kafka.Production, true); err != nil || len(e.Changed) == 0 ||
		asked.Load() != 0 {
		t.Errorf("a dry run: %+v, %v", e, err)
	}
	if e, err := s.EnsureState(t.Context(), kafka.Production, false); err != nil || e.Replicas != 3 ||
		isr(t, admin, "pawl.state") != "2" {
		t.Fatalf("%+v, %v", e, err)
	}
	if n := asked.Load(); n != 3 {
		t.Errorf("the brokers were asked for %d replicas", n)
	}
}

// TestProductionOnOneBroker: the error says that there are too few brokers, and what to do.
func TestProductionOnOneBroker(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, _ *kadm.Client) {
		_, err := open(t, config).Ensure(t.Context(), "mail", kafka.Production, false)
		if err == nil || !strings.Contains(err.Error(), "the cluster has 1 brokers") {
			t.Errorf("got %v", err)
		}
	})
}
