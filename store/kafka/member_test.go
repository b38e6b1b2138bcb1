package kafka_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// owners are who has the partitions of a topic, by the member's instance.
func owners(t testing.TB, admin *kadm.Client, group string) (state string, by map[int32]string) {
	t.Helper()
	groups, err := admin.DescribeGroups(t.Context(), group)
	if errors.Is(err, kerr.CoordinatorNotAvailable) {
		return "", nil // a new broker makes its topic of groups for the first one
	}
	if err != nil {
		t.Fatal(err)
	}
	by = map[int32]string{}
	for _, m := range groups[group].Members {
		assigned, ok := m.Assigned.AsConsumer()
		if !ok || m.InstanceID == nil {
			continue
		}
		for _, topic := range assigned.Topics {
			for _, p := range topic.Partitions {
				by[p] = *m.InstanceID
			}
		}
	}
	return groups[group].State, by
}

// TestStaticMemberComesBack: a process with an instance that ends and starts again
// within the session has its partitions still, and nobody else notices.
func TestStaticMemberComesBack(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		config.Create.Partitions = 4
		config.Consume.Session = 20 * time.Second
		as := func(instance string) *kafka.Store {
			c := config
			c.Instance = instance
			return open(t, c)
		}
		claim := func(s *kafka.Store) []pawl.Delivery {
			ds, err := s.Claim(t.Context(), []store.Want{{Topic: "orders", Limit: 1000}}, store.Lease{For: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			var acks []store.Settlement
			for _, d := range ds {
				acks = append(acks, store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack})
			}
			if _, err := s.Settle(t.Context(), store.Batch[store.Settlement]{Items: acks}); err != nil {
				t.Fatal(err)
			}
			return ds
		}
		one, two := as("one"), as("two")
		moved := func() [3]uint64 { f := two.Figures(); return [3]uint64{f.Assigned, f.Revoked, f.Lost} }
		send(t, one, "orders", 0, 1)
		var before map[int32]string
		eventually(t, "both have two partitions", func() bool {
			claim(one)
			claim(two)
			var state string
			state, before = owners(t, admin, config.Group)
			n := map[string]int{}
			for _, who := range before {
				n[who]++
			}
			// the group knows before its member does
			return state == "Stable" && n["one"] == 2 && n["two"] == 2 && moved()[0] > 0
		})
		was := moved()
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
		one = as("one")
		send(t, two, "orders", 100, 100)
		got := map[*kafka.Store]map[string]int{one: {}, two: {}}
		eventually(t, "everything comes", func() bool {
			for s, seen := range got {
				for _, d := range claim(s) {
					seen[d.ID]++
				}
			}
			return len(got[one])+len(got[two]) >= 100
		})
		if _, after := owners(t, admin, config.Group); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("who has which partition: %v before, %v after", before, after)
		}
		if is := moved(); is != was {
			t.Errorf("the other process was given, revoked and lost partitions: %v times before, %v after", was, is)
		}
		if len(got[one]) == 0 || len(got[two]) == 0 {
			t.Errorf("one got %d messages, two %d", len(got[one]), len(got[two]))
		}
	})
}

// TestCommitsThatAreFenced: while the brokers refuse all commits because the member
// is thought to be another, nothing counts as done that is not: who comes next gets
// everything. Commits that are refused for a while are made up for.
func TestCommitsThatAreFenced(t *testing.T) {
	t.Parallel()
	for _, why := range []*kerr.Error{kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.FencedInstanceID,
		kerr.UnknownMemberID} {
		t.Run(why.Message, func(t *testing.T) {
			t.Parallel()
			cluster := fakeCluster(t, 1)
			fault := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: why, Count: -1})
			admin := adminOf(t, cluster.ListenAddrs())
			committed := func() int64 {
				os, err := admin.FetchOffsets(t.Context(), "pawl")
				if err != nil {
					t.Fatal(err)
				}
				if o, ok := os.Lookup("orders", 0); ok {
					return o.At
				}
				return -1
			}
			s := open(t, brisk(cluster.ListenAddrs()))
			send(t, s, "orders", 0, 30)
			receive(t, s, "orders", 30)
			eventually(t, "a commit is refused", func() bool { return fault.Hits() > 2 })
			hasFault(t, s, "cannot commit")
			if err := s.Close(); err != nil {
				t.Log(err)
			}
			if at := committed(); at > 0 {
				t.Fatalf("%d is committed although every commit was refused", at)
			}
			next := open(t, brisk(cluster.ListenAddrs()))
			if seen := receive(t, next, "orders", 30); len(seen) != 30 {
				t.Fatalf("%d of 30 messages came again", len(seen))
			}
			fault.Remove()
			eventually(t, "what was refused is committed", func() bool { return committed() == 30 })
		})
	}
}

// TestLockOfTheDead: a process that died while it changed dead letters holds up
// others until its lock is stale; what it had begun never took place.
func TestLockOfTheDead(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, _ *kadm.Client) {
		s := open(t, config)
		send(t, s, "orders", 0, 2)
		var dead []pawl.Delivery
		eventually(t, "two die", func() bool { dead = append(dead, kill(t, s, "orders")...); return len(dead) == 2 })
		died, err := kgo.NewClient(kgo.SeedBrokers(config.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.TransactionalID(config.Prefix+"pawl.state.dead"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(died.CloseAllowingRebalance)
		if _, err := s.PutState(t.Context(), "lock/dead", []byte("the dead"), store.AnyVersion,
			"the dead"); err != nil {
			t.Fatal(err)
		}
		if err := died.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		takeBack := &kgo.Record{Topic: config.Prefix + "orders.dead",
			Headers: []kgo.RecordHeader{{Key: "pawl-gone", Value: []byte(`{"id":"` + dead[0].ID +
				`","offset":0,"why":"purged"}`)}}}
		if err := died.ProduceSync(t.Context(), takeBack).FirstErr(); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if refused, err := s.Purge(t.Context(), dead[1].ID); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
		if took := time.Since(began); took < 9*time.Second || took > 40*time.Second {
			t.Errorf("the lock was taken over after %v; want 10 s, and not much more", took)
		}
		if got, ok := found(t, s); !ok || len(got) != 1 || got[0] != dead[0].ID {
			t.Errorf("letters: %v; want %s alone, which the dead process had begun to take back", got, dead[0].ID)
		}
		if err := died.EndTransaction(t.Context(), kgo.TryCommit); err == nil {
			t.Error("the dead process could commit after its lock was taken over")
		}
		if got, ok := found(t, s); !ok || len(got) != 1 {
			t.Errorf("after the dead process tried to commit: %v", got)
		}
	})
}

// TestAnotherAssignor: a program that is in the group and shares partitions in another way
// keeps this one out, and is named as the cause.
func TestAnotherAssignor(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		create(t, admin, config.Prefix+"orders", 1)
		other, err := kgo.NewClient(kgo.SeedBrokers(config.Brokers...), kgo.ConsumerGroup(config.Group),
			kgo.ConsumeTopics(config.Prefix+"orders"),
			kgo.Balancers(kgo.RangeBalancer()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(other.CloseAllowingRebalance)
		inState(t, admin, config.Group, "Stable", 1)
		s := open(t, config)
		if _, err := s.Claim(t.Context(), []store.Want{{Topic: "orders", Limit: 1}},
			store.Lease{For: time.Minute}); err != nil {
			t.Fatal(err)
		}
		hasFault(t, s, "the range assignor")
	})
}
