package kafka

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestWhatTheClientAcceptsBehindAFailureIsDropped: a broker refuses a message while its call still hands others
// to the client, which accepts one more of the key before it tells of the failure. That one is not stored; one of
// another topic is.
func TestWhatTheClientAcceptsBehindAFailureIsDropped(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	s, err := Open(t.Context(), Config{Brokers: cluster.ListenAddrs(),
		Produce: Producing{Linger: time.Minute, Compression: "none"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var refuse atomic.Bool // the next request
	cluster.ControlKey(kmsg.Produce.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if !refuse.Swap(false) {
			return nil, nil, false
		}
		req := r.(*kmsg.ProduceRequest)
		resp, p := req.ResponseKind().(*kmsg.ProduceResponse), kmsg.NewProduceResponseTopicPartition()
		p.ErrorCode = kerr.UnknownServerError.Code
		resp.Topics = []kmsg.ProduceResponseTopic{{Topic: req.Topics[0].Topic, TopicID: req.Topics[0].TopicID,
			Partitions: []kmsg.ProduceResponseTopicPartition{p}}}
		return resp, nil, true
	})
	var errs []error
	for range 20 { // now and then the client sends at once what should wait for the linger
		errs = behindAFailure(t, s, &refuse)
		if errors.Is(errs[0], kerr.UnknownServerError) && errors.Is(errs[1], errDropped) && errs[2] == nil {
			return
		}
	}
	t.Errorf("outcomes of the last of 20 calls: %q", errs)
}

// behindAFailure is a call of two messages to a and one to b. The client tells of failures one by one, and is held up
// at another one before the first of the call.
func behindAFailure(t *testing.T, s *Store, refuse *atomic.Bool) []error {
	record := func(topic string) *kgo.Record {
		return &kgo.Record{Topic: topic, Key: []byte("k"), Value: []byte("v"), Timestamp: time.Now()}
	}
	sendAll := func(ctx context.Context) {
		for err := context.DeadlineExceeded; err != nil && ctx.Err() == nil; {
			soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			err = s.producers.flush(soon)
			cancel()
		}
	}
	s.producers.main.TryProduce(t.Context(), record("a"), nil) // so that the client knows the topics
	s.producers.main.TryProduce(t.Context(), record("b"), nil)
	sendAll(t.Context())
	refuse.Store(true)
	failed, tell, c := make(chan struct{}), make(chan struct{}), newCall(3)
	s.producers.main.TryProduce(t.Context(), record("a"), func(*kgo.Record, error) { close(failed); <-tell })
	s.put(c, 0, record("a"), time.Now(), s.producers.of)
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { sendAll(ctx); close(stopped) }()
	<-failed
	stop()
	<-stopped
	s.put(c, 1, record("a"), time.Now(), s.producers.of) // waits for the linger, as does the next
	s.put(c, 2, record("b"), time.Now(), s.producers.of)
	close(tell)
	for n := 0; n < 1000 && c.to(ctx, "a").Err() == nil; n++ {
		time.Sleep(time.Millisecond)
	}
	sendAll(t.Context())
	<-c.done
	return c.errs
}
