package kafka_test

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// TestCommitsInARebalance: one that waits for a member that is not there any more
// takes as long as that member's session. What the others finish meanwhile is
// committed as ever.
func TestCommitsInARebalance(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		wire := config.Prefix + "orders"
		s := open(t, config)
		send(t, s, "orders", 0, 20)
		receive(t, s, "orders", 20)
		committed(t, admin, config.Group, wire, 20)
		staysOnRecord(t, s, config, admin, 20)
	})
}

// TestFirstCommitInARebalance: so it is with what a member commits for the first time.
func TestFirstCommitInARebalance(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		create(t, admin, config.Prefix+"orders", 1)
		s := open(t, config)
		if _, err := s.Claim(t.Context(), []store.Want{{Topic: "orders", Limit: 1}},
			store.Lease{For: time.Minute, Owner: "test"}); err != nil {
			t.Fatal(err)
		}
		inState(t, admin, config.Group, "Stable", 1)
		staysOnRecord(t, s, config, admin, 0)
	})
}

// staysOnRecord lets a rebalance wait, and looks whether what s finishes meanwhile is
// committed. So many are finished already.
func staysOnRecord(t *testing.T, s *kafka.Store, config kafka.Config, admin *kadm.Client, done int) {
	t.Helper()
	wire := config.Prefix + "orders"
	vanish(t, config, admin)
	late := open(t, config)
	if _, err := late.Claim(t.Context(), []store.Want{{Topic: "orders", Limit: 1}},
		store.Lease{For: time.Minute, Owner: "late"}); err != nil {
		t.Fatal(err)
	}
	inState(t, admin, config.Group, "PreparingRebalance", 2)
	for n := done; n < done+20; n++ { // it is not known when s takes part in it
		time.Sleep(2 * config.Consume.Heartbeat / 5)
		send(t, s, "orders", n, 1)
		receive(t, s, "orders", 1)
	}
	committed(t, admin, config.Group, wire, int64(done)+20)
	inState(t, admin, config.Group, "PreparingRebalance", 2) // it was not over meanwhile
	for name, member := range map[string]*kafka.Store{"one that has the partition": s, "one that has none": late} {
		began := time.Now()
		if err := member.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("%s took %v to end: it waited for the member that is not there", name, took)
		}
	}
	if gs, err := admin.DescribeGroups(t.Context(), config.Group); err != nil {
		t.Error(err)
	} else if n := len(gs[config.Group].Members); n != 1 {
		t.Errorf("the group has %d members after two of three left", n)
	}
}

// vanish lets a member join that is not there any more, and has not left.
func vanish(t *testing.T, config kafka.Config, admin *kadm.Client) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(config.Brokers...), kgo.ConsumerGroup(config.Group),
		kgo.ConsumeTopics(config.Prefix+"orders"),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.InstanceID("gone"), kgo.SessionTimeout(time.Minute),
		kgo.DisableAutoCommit())
	if err != nil {
		t.Fatal(err)
	}
	inState(t, admin, config.Group, "Stable", 2)
	client.Close() // a member with a name does not leave
}

// inState waits until a group is in a state and has as many members, or more.
func inState(t *testing.T, admin *kadm.Client, group, state string, members int) {
	t.Helper()
	var g kadm.DescribedGroup
	for range 500 {
		gs, err := admin.DescribeGroups(t.Context(), group)
		if err == nil {
			if g = gs[group]; g.State == state && len(g.Members) >= members {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the group is %q with %d members, want %q with %d", g.State, len(g.Members), state, members)
}

// committed waits, not for long, until an offset of partition 0 is committed.
func committed(t *testing.T, admin *kadm.Client, group, wire string, offset int64) {
	t.Helper()
	var seen []int64
	for range 200 {
		os, err := admin.FetchOffsets(t.Context(), group)
		if err != nil {
			t.Fatal(err)
		}
		if o, ok := os.Lookup(wire, 0); ok {
			if o.At == offset {
				return
			}
			if !slices.Contains(seen, o.At) {
				seen = append(seen, o.At)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("committed: %v, want %d", seen, offset)
}

// TestNobodyAnswersForAWhile: the client gives up its place in the group, and its
// partitions come back from where they were committed. What was finished meanwhile
// is not repeated, nor lost to the record.
func TestNobodyAnswersForAWhile(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	config := brisk(cluster.ListenAddrs())
	s := open(t, config)
	send(t, s, "orders", 0, 20)
	receive(t, s, "orders", 20)
	admin := adminOf(t, config.Brokers)
	committed(t, admin, "pawl", "orders", 20)
	commits := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownServerError, Count: -1})
	send(t, s, "orders", 20, 20)
	receive(t, s, "orders", 20)
	hasFault(t, s, "cannot commit")
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Heartbeat}, Err: kerr.UnknownMemberID, TopLevel: true})
	hasFault(t, s, kerr.UnknownMemberID.Message)
	commits.Remove()
	send(t, s, "orders", 40, 1)
	if seen := receive(t, s, "orders", 1); len(seen) != 1 || seen["m40"] != 1 {
		t.Errorf("came: %v, want m40 and nothing of what was finished", seen)
	}
	committed(t, admin, "pawl", "orders", 41)
}
