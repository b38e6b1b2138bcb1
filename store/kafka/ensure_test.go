package kafka_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// Brokers hear of a new topic one after the other: one that does not know it yet
// is no reason to fail, neither for who made it nor for who comes right after.
func TestEnsureOfATopicJustMade(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	unknown := forgetful(cluster)
	ensure := func(behind int32, created bool) {
		t.Helper()
		s := open(t, brisk(cluster.ListenAddrs()))
		unknown.Store(behind)
		e, err := s.Ensure(t.Context(), "mail", kafka.TopicSpec{Partitions: 3, Replicas: 1}, false)
		if err != nil || e.Created != created || e.Partitions != 3 {
			t.Errorf("%+v, %v", e, err)
		}
		if created {
			if left := unknown.Load(); left >= 0 {
				t.Errorf("it was said to be made %d looks before it could be seen", left+1)
			}
		}
	}
	ensure(3, true)
	ensure(2, false)
	unknown.Store(0)
}

// Who appends to a topic that was made a moment ago waits until the brokers know it.
func TestAppendToATopicJustMade(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	unknown := forgetful(cluster)
	s := open(t, brisk(cluster.ListenAddrs()))
	unknown.Store(12)
	if _, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "mail", ID: "m1",
		Body: []byte("hello")})); err != nil {
		t.Error(err)
	}
	unknown.Store(0)
}

// forgetful makes that a broker does not know the topic that it is asked for, as
// many more times as the answer says.
func forgetful(cluster *kfake.Cluster) *atomic.Int32 {
	unknown := &atomic.Int32{}
	cluster.ControlKey(kmsg.Metadata.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := r.(*kmsg.MetadataRequest)
		if len(req.Topics) != 1 || unknown.Add(-1) < 0 {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.TopicID = req.Topics[0].Topic, req.Topics[0].TopicID
		topic.ErrorCode = kerr.UnknownTopicOrPartition.Code
		resp.Topics = append(resp.Topics, topic)
		return resp, nil, true
	})
	return unknown
}

// A topic that an append finds missing is made by the profile, and so is that of its dead letters.
func TestTopicsAreMadeByTheProfile(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 3)
	config := brisk(cluster.ListenAddrs())
	config.Create = kafka.Creation{Profile: "production"}
	s := open(t, config)
	if _, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "mail", ID: "m1",
		Body: []byte("hello")})); err != nil {
		t.Fatal(err)
	}
	e, err := s.Ensure(t.Context(), "mail", kafka.Production, true)
	if err != nil || e.Created || len(e.Changed) > 0 {
		t.Errorf("the topic is not as the profile says: %+v, %v", e, err)
	}
	letter := store.Record{Message: pawl.Message{Topic: "mail", ID: "m2", Body: []byte("x")}, State: store.IsDead,
		Kind: "Test", EnqueuedAt: time.Now(), DeadAt: time.Now()}
	if refused, err := s.Import(t.Context(), letter); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	want := kafka.Production.Dead()
	want.Compression = "snappy"
	if e, err = s.Ensure(t.Context(), "mail.dead", want, true); err != nil || e.Created || len(e.Changed) > 0 {
		t.Errorf("that of the dead letters is not: %+v, %v", e, err)
	}
	config.Create.Profile = "huge"
	if _, err := kafka.New(config); err == nil || !strings.Contains(err.Error(), "production, development") {
		t.Errorf("a profile that is not there: %v", err)
	}
}
