package kafka_test

import (
	"errors"
	"hash/crc32"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// TestTheFirstMessageIsOnRecord: before the first message of a partition is carried
// out a commit says so, and none does after a clean end. Where commits hang it is
// not waited for long.
func TestTheFirstMessageIsOnRecord(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	var takes, done atomic.Int64 // how long a commit takes; how many are done
	cluster.ControlKey(kmsg.OffsetCommit.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		cluster.SleepControl(func() { time.Sleep(time.Duration(takes.Load())) })
		done.Add(1)
		return nil, nil, false
	})
	takes.Store(int64(200 * time.Millisecond))
	config := brisk(cluster.ListenAddrs())
	config.Consume.Commit = time.Minute
	s := open(t, config)
	send(t, s, "orders", 0, 2)
	if claimOne(t, s, false); done.Load() == 0 {
		t.Error("a message was handed out before anything was committed")
	}
	if cp := onRecord(t, cluster, 0); !cp.Open || cp.Horizon != 0 || len(cp.Tries) != 0 {
		t.Errorf("on record is %+v", cp)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if cp := onRecord(t, cluster, 0); cp.Open {
		t.Errorf("after a clean end on record is %+v", cp)
	}

	takes.Store(int64(4 * time.Second))
	s = open(t, config)
	began := time.Now()
	claimOne(t, s, false)
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("a commit that hangs held up the first message for %v", took)
	}
	takes.Store(0)
}

// TestASuspectThatIsOverIsOnRecord: who was tried alone, and survived, is no suspect
// on record any more when the next one is tried, in whatever partition that is.
// Otherwise a killer's deaths would count for its neighbours.
func TestASuspectThatIsOverIsOnRecord(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	config := brisk(cluster.ListenAddrs())
	config.Consume.Commit, config.Create.Partitions = time.Minute, 2
	s := open(t, config)
	if _, err := s.Ensure(t.Context(), "orders", kafka.TopicSpec{Partitions: 2, Replicas: 1}, false); err != nil {
		t.Fatal(err)
	}
	admin := adminOf(t, cluster.ListenAddrs())
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	os, source := kadm.Offsets{}, sourceOf(t, admin)
	for p := range int32(2) {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: "orders", Partition: p,
			Value: []byte("a body")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		died := gate.Checkpoint{Extra: gate.Extra{Source: source, Open: true, Crashes: 1,
			Tries: []gate.Try{{Pos: 0, Count: 1}}}}
		os.Add(kadm.Offset{Topic: "orders", Partition: p, At: 0, LeaderEpoch: -1, Metadata: died.Text()})
	}
	if err := admin.CommitAllOffsets(t.Context(), "pawl", os); err != nil {
		t.Fatal(err)
	}
	first := claimOne(t, s, true)
	was := onRecord(t, cluster, placeOf(t, first))
	if len(was.Tries) != 1 || was.Tries[0].Count != 2 {
		t.Fatalf("the first is tried alone, and on record is %+v", was)
	}
	ack := store.Settlement{Token: first.Token, ID: first.ID, Verdict: store.Ack}
	if refused, err := s.Settle(t.Context(), store.NewBatch(ack)); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	second := claimOne(t, s, true)
	if placeOf(t, second) == placeOf(t, first) {
		t.Fatalf("%s came after %s", second.ID, first.ID)
	}
	if is := onRecord(t, cluster, placeOf(t, first)); is.Base != 1 || len(is.Tries) != 0 {
		t.Errorf("the first is over, the second is tried alone, and on record of the first is %+v", is)
	}
}

// claimOne claims until something comes.
func claimOne(t *testing.T, s *kafka.Store, alone bool) (d pawl.Delivery) {
	t.Helper()
	eventually(t, "a message comes", func() bool {
		ds, err := s.Claim(t.Context(), []store.Want{{Topic: "orders", Limit: 1}},
			store.Lease{For: time.Minute, Owner: "test", Alone: alone})
		if err != nil {
			t.Fatal(err)
		}
		if len(ds) == 1 {
			d = ds[0]
		}
		return len(ds) == 1
	})
	return d
}

// placeOf is the partition of a message that has its place for an id.
func placeOf(t *testing.T, d pawl.Delivery) int32 {
	t.Helper()
	switch d.ID {
	case "orders/0/0":
		return 0
	case "orders/1/0":
		return 1
	}
	t.Fatalf("a message with the id %q came", d.ID)
	return -1
}

// sourceOf returns which incarnation of the topic commits are about.
func sourceOf(t *testing.T, admin *kadm.Client) uint32 {
	t.Helper()
	topics, err := admin.ListTopics(t.Context(), "orders")
	if err != nil {
		t.Fatal(err)
	}
	id := topics["orders"].ID
	return crc32.ChecksumIEEE(id[:])
}

// onRecord is what the group's last commit of a partition says.
func onRecord(t *testing.T, cluster *kfake.Cluster, partition int32) gate.Checkpoint {
	t.Helper()
	admin := adminOf(t, cluster.ListenAddrs())
	os, err := admin.FetchOffsets(t.Context(), "pawl")
	if err != nil {
		t.Fatal(err)
	}
	o, ok := os.Lookup("orders", partition)
	if !ok {
		return gate.Checkpoint{}
	}
	cp, err := gate.Decode(o.At, sourceOf(t, admin), o.Metadata)
	if err != nil {
		t.Fatal(err)
	}
	return cp
}

// A log keeps no marks: an ack that writes some is refused by itself, and changes nothing.
func TestMarksOnAnAckAreRefused(t *testing.T) {
	t.Parallel()
	s := openFake(t).Store
	if err := store.Send(t.Context(), s, pawl.Message{Topic: "a"}); err != nil {
		t.Fatal(err)
	}
	ds, err := s.Claim(t.Context(), []store.Want{{Topic: "a", Limit: 1}}, store.Lease{For: time.Minute})
	if err != nil || len(ds) != 1 {
		t.Fatal(len(ds), err)
	}
	ack := store.Settlement{Token: ds[0].Token, ID: ds[0].ID, Verdict: store.Ack}
	marking := ack
	marking.Marks = []pawl.Mark{{Scope: "seen", Key: "k"}}
	refused, err := s.Settle(t.Context(), store.NewBatch(marking))
	if err != nil || len(refused) != 1 || !errors.Is(refused[0].Err, store.ErrUnsupported) {
		t.Fatal(refused, err)
	}
	if refused, err = s.Settle(t.Context(), store.NewBatch(ack)); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
}
