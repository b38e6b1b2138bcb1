package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// When a broker refuses some messages of a call, the receipts tell which; they are
// surely not stored, and the others are.
func TestAppendTellsWhatFailed(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 2)
	s := open(t, brisk(cluster.ListenAddrs()))
	for node, topic := range []string{"a", "b"} {
		send(t, s, topic, 0, 1)
		if err := cluster.MoveTopicPartition(topic, 0, int32(node)); err != nil {
			t.Fatal(err)
		}
	}
	send(t, s, "a", 1, 1) // so that the client knows where they are
	send(t, s, "b", 1, 1)
	cluster.ControlKey(kmsg.Produce.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if cluster.CurrentNode() != 1 {
			return nil, nil, false
		}
		return refusal(r.(*kmsg.ProduceRequest)), nil, true
	})
	rs, err := s.Append(t.Context(), store.NewBatch(
		pawl.Message{Topic: "a", Body: []byte("x")}, pawl.Message{Topic: "b", Body: []byte("y")},
		pawl.Message{Topic: "a", Body: []byte("z")}))
	if err == nil || len(rs) != 3 {
		t.Fatalf("%v, %v", rs, err)
	}
	if rs[0].Err != nil || rs[2].Err != nil || !errors.Is(rs[1].Err, store.ErrUnavailable) ||
		errors.Is(rs[1].Err, store.ErrUnknown) {
		t.Fatalf("receipts %+v", rs)
	}
	for topic, want := range map[string]int64{"a": 4, "b": 2} {
		if stats, err := s.Stats(t.Context(), topic); err != nil || stats[0].Appended != want {
			t.Errorf("topic %s has %+v; want %d: %v", topic, stats, want, err)
		}
	}
}

// When a broker does not answer in time, it is unknown whether a message is stored.
func TestAppendTellsWhatIsUnknown(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	s := open(t, brisk(cluster.ListenAddrs()))
	send(t, s, "a", 0, 1)
	release := make(chan struct{})
	defer close(release)
	cluster.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.SleepControl(func() { <-release })
		return nil, nil, false
	})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	rs, err := s.Append(ctx, store.NewBatch(pawl.Message{Topic: "a"}))
	if err == nil || len(rs) != 1 || !errors.Is(rs[0].Err, store.ErrUnknown) {
		t.Fatalf("%+v, %v", rs, err)
	}
	if !errors.Is(rs[0].Err, store.ErrNoAnswer) || !errors.Is(rs[0].Err, context.DeadlineExceeded) {
		t.Errorf("%v does not say why", rs[0].Err)
	}
}

// hang makes a cluster leave records unanswered until release is called.
func hang(t testing.TB, cluster *kfake.Cluster) (release func()) {
	over := make(chan struct{})
	release = sync.OnceFunc(func() { close(over) })
	t.Cleanup(release)
	cluster.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		select {
		case <-over:
		default:
			cluster.SleepControl(func() { <-over })
		}
		return nil, nil, false
	})
	return release
}

// inTime is Append with a deadline, which it must honour.
func inTime(t testing.TB, s *kafka.Store, msgs ...pawl.Message) ([]store.Receipt, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	type answer struct {
		rs  []store.Receipt
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		rs, err := s.Append(ctx, store.NewBatch(msgs...))
		answers <- answer{rs, err}
	}()
	select {
	case a := <-answers:
		return a.rs, a.err
	case <-time.After(30 * time.Second):
		t.Fatal("Append hangs, though its context is long over")
		return nil, nil
	}
}

// While the buffer is full of what no broker answers, an Append ends with its context;
// nothing of it is stored, then or later, and its receipts say so.
func TestAFullBufferHonoursTheContext(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	config := brisk(cluster.ListenAddrs())
	config.Produce.BatchBytes, config.Produce.BufferBytes, config.Produce.Timeout = 100<<10, 100<<10, time.Minute
	s := open(t, config)
	send(t, s, "a", 0, 1)
	release := hang(t, cluster)
	large := func(key string) pawl.Message {
		return pawl.Message{Topic: "a", Key: []byte(key), Body: make([]byte, 70<<10)}
	}
	if rs, err := inTime(t, s, large("k")); err == nil || rs[0].Outcome() != store.Unknown {
		t.Fatalf("the first: %+v, %v", rs, err)
	}
	for range 3 {
		rs, err := inTime(t, s, large("k"), large("l"))
		if err == nil || len(rs) != 2 || rs[0].Outcome() != store.Failed || rs[1].Outcome() != store.Failed {
			t.Fatalf("into a full buffer: %+v, %v", rs, err)
		}
		if !errors.Is(rs[0].Err, store.ErrNoAnswer) {
			t.Errorf("no broker said so: %v", rs[0].Err)
		}
	}
	release()
	send(t, s, "a", 1, 1) // as soon as there is room
	if stats, err := s.Stats(t.Context(), "a"); err != nil || stats[0].Appended != 3 {
		t.Errorf("%+v, %v; want two small ones and the first large one", stats, err)
	}
}

// A burst of more than the buffer holds waits for a healthy broker, and fails nobody.
func TestABurstIsHeldBack(t *testing.T) {
	t.Parallel()
	config := brisk(fakeCluster(t, 1).ListenAddrs())
	config.Produce.BatchBytes, config.Produce.BufferBytes, config.Produce.Timeout = 100<<10, 100<<10, time.Minute
	s := open(t, config)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			var batch store.Batch[pawl.Message]
			for range i%5 + 1 {
				batch.Items = append(batch.Items, pawl.Message{Topic: "a", Key: []byte("k"),
					Body: make([]byte, 60<<10)})
			}
			rs, err := s.Append(t.Context(), batch)
			if err != nil {
				t.Errorf("%d of %d are not stored: %v", len(rs), len(batch.Items), err)
			}
		})
	}
	wg.Wait()
	if stats, err := s.Stats(t.Context(), "a"); err != nil || stats[0].Appended != 120 {
		t.Errorf("%+v, %v", stats, err)
	}
}

// What a broker says of a message is told apart from what the client says while nobody
// answers, and both are in the receipt.
func TestReceiptsSayWhoFailedAndWhy(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	s := open(t, brisk(cluster.ListenAddrs()))
	send(t, s, "a", 0, 1)
	cluster.ControlKey(kmsg.Produce.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return refusal(r.(*kmsg.ProduceRequest)), nil, true
	})
	rs, _ := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "a"}))
	if len(rs) != 1 || rs[0].Outcome() != store.Failed || errors.Is(rs[0].Err, store.ErrNoAnswer) ||
		!errors.Is(rs[0].Err, kerr.TopicAuthorizationFailed) {
		t.Errorf("refused by a broker: %+v", rs)
	}
	cluster.Close()
	rs, _ = s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "a"}))
	if len(rs) != 1 || rs[0].Outcome() == store.Stored || rs[0].Outcome() == store.Refused ||
		!errors.Is(rs[0].Err, store.ErrNoAnswer) {
		t.Errorf("nobody is there: %+v", rs)
	}
}

// A batch whose outcome was unknown is repeated, and is in the log twice: behind all of the first copy, so that the
// first copies of a key's messages are in order.
func TestARepeatedBatchIsBehindItsFirstCopy(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	s := open(t, brisk(cluster.ListenAddrs()))
	send(t, s, "a", 0, 1)
	release := hang(t, cluster)
	var messages []pawl.Message
	for n := range 204 {
		messages = append(messages, pawl.Message{Topic: "a", ID: fmt.Sprint(n), Key: fmt.Append(nil, n%200)})
	}
	if _, err := inTime(t, s, messages...); !errors.Is(err, store.ErrUnknown) {
		t.Fatal(err)
	}
	repeated := make(chan error, 1)
	go func() {
		_, err := s.Append(t.Context(), store.NewBatch(messages...))
		repeated <- err
	}()
	release()
	if err := <-repeated; err != nil {
		t.Fatal(err)
	}
	lines, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("a"))
	if err != nil {
		t.Fatal(err)
	}
	defer lines.Close()
	var ids []string
	for len(ids) < 2*204+1 && t.Context().Err() == nil {
		lines.PollFetches(t.Context()).EachRecord(func(r *kgo.Record) {
			for _, h := range r.Headers {
				if h.Key == "pawl-id" {
					ids = append(ids, string(h.Value))
				}
			}
		})
	}
	for n, id := range ids[1:] {
		if id != fmt.Sprint(n%204) {
			t.Fatalf("offset %d has %s; the log: %q", n+1, id, ids)
		}
	}
}
