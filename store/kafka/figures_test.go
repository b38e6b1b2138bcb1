package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// watched is a store over a broker within the process, which the test can tell what
// to answer.
type watched struct {
	*testing.T
	*kafka.Store
	cluster *kfake.Cluster
}

func newWatched(t *testing.T, change func(*kafka.Config)) *watched {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SleepOutOfOrder(),
		kfake.BrokerConfigs(map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	config := kafka.Config{Brokers: cluster.ListenAddrs(), Create: kafka.Creation{Partitions: 1, Replicas: 1}}
	config.Produce.Linger = -1
	config.Consume.FetchMin, config.Consume.FetchWait, config.Consume.Commit = 1, 50*time.Millisecond,
		20*time.Millisecond
	if change != nil {
		change(&config)
	}
	s, err := kafka.Open(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return &watched{t, s, cluster}
}

// send appends n messages, each with a key of its own.
func (w *watched) send(n int) {
	w.Helper()
	var ms []pawl.Message
	for i := range n {
		ms = append(ms, pawl.Message{Topic: "mail", Key: fmt.Append(nil, "key", i), Body: []byte("hello")})
	}
	if _, err := w.Append(context.Background(), store.NewBatch(ms...)); err != nil {
		w.Fatal(err)
	}
}

// claim waits for n deliveries, and returns them in the order of the log.
func (w *watched) claim(n int) []pawl.Delivery {
	w.Helper()
	var all []pawl.Delivery
	for end := time.Now().Add(20 * time.Second); len(all) < n; time.Sleep(5 * time.Millisecond) {
		ds, err := w.Claim(context.Background(), []store.Want{{Topic: "mail", Limit: n - len(all)}},
			store.Lease{For: time.Minute, Owner: "test"})
		if err != nil {
			w.Fatal(err)
		}
		if all = append(all, ds...); time.Now().After(end) {
			w.Fatalf("only %d of %d came", len(all), n)
		}
	}
	return all
}

func (w *watched) settle(verdict store.Verdict, ds ...pawl.Delivery) {
	w.Helper()
	var items []store.Settlement
	for i := range ds {
		items = append(items, store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: verdict,
			Failure: store.Failure{Kind: "Timeout", Error: "no answer"}})
	}
	if refused, err := w.Settle(context.Background(), store.NewBatch(items...)); err != nil || len(refused) > 0 {
		w.Fatalf("refused %v: %v", refused, err)
	}
}

// until waits for figures.
func (w *watched) until(what string, ok func(*kafka.Figures) bool) kafka.Figures {
	w.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		f := w.Figures()
		if ok(&f) {
			return f
		}
		if time.Now().After(end) {
			w.Fatalf("never: %s: %+v", what, f)
		}
	}
}

// One message that is stuck shows as a backlog and by its age, and nothing waits to
// be committed all the same: the metadata has the rest.
func TestFiguresOfAStuckPartition(t *testing.T) {
	t.Parallel()
	w := newWatched(t, nil)
	if f := w.Figures(); len(f.Topics) != 0 || len(f.Partitions) != 0 || f.Produced.Stored != 0 {
		t.Fatalf("before anything: %+v", f)
	}
	w.send(10)
	ds := w.claim(10)
	w.settle(store.Ack, ds[1:]...)
	time.Sleep(30 * time.Millisecond)
	f := w.until("everything else on record", func(f *kafka.Figures) bool {
		return f.Commits.OK > 0 && len(f.Partitions) == 1 && f.Partitions[0].Backlog == 9 &&
			f.Partitions[0].CommitLag == 0
	})
	p := f.Partitions[0]
	if p.Topic != "mail" || p.InHand != 1 || p.Lag != 1 || p.OldestAge < 30*time.Millisecond ||
		p.OldestAge > time.Minute {
		t.Errorf("%+v", p)
	}
	if f.Produced.Stored < 10 || f.Topics[0].Topic != "mail" || f.Topics[0].Consumed != 10 || f.Assigned == 0 ||
		f.Commits.Failed != 0 {
		t.Errorf("%+v", f)
	}
	if f.Traffic.Requests == 0 || f.Traffic.BytesWritten == 0 || f.Traffic.BytesRead == 0 || f.Traffic.Connects == 0 {
		t.Errorf("%+v", f.Traffic)
	}
	w.settle(store.Ack, ds[0])
	f = w.until("nothing left", func(f *kafka.Figures) bool {
		return f.Partitions[0].Backlog == 0 && f.Partitions[0].CommitLag == 0
	})
	if p := f.Partitions[0]; p.InHand != 0 || p.OldestAge != 0 {
		t.Errorf("nothing is in hand: %+v", p)
	}
}

// A failed attempt counts, a dead letter by its kind, and while it cannot be written it
// waits.
func TestFiguresOfFailuresAndDeadLetters(t *testing.T) {
	t.Parallel()
	var refuse atomic.Bool
	w := newWatched(t, nil)
	w.send(3)
	ds := w.claim(3)
	w.settle(store.Retry, ds[0])
	w.settle(store.Dead, ds[1])
	f := w.until("one dead letter", func(f *kafka.Figures) bool { return len(f.Dead) == 1 })
	if d := f.Dead[0]; d.Topic != "mail" || d.Kind != "Timeout" || d.Written != 1 ||
		time.Since(d.LastAt) > time.Minute {
		t.Errorf("%+v", d)
	}
	if m := f.Topics[0]; m.Failed != 2 || m.Dying != 0 || m.TopKeyShare != 1 {
		t.Errorf("%+v", m)
	}
	refuse.Store(true)
	w.cluster.ControlKey(kmsg.Produce.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		if !refuse.Load() {
			return nil, nil, false
		}
		return refusal(r.(*kmsg.ProduceRequest)), nil, true
	})
	w.settle(store.Dead, ds[2])
	w.until("one that waits", func(f *kafka.Figures) bool {
		return f.Topics[0].Dying == 1 && f.DeadFailures > 0 && f.Faults > 0 && f.Produced.Refused > 0
	})
	refuse.Store(false)
	f = w.until("both", func(f *kafka.Figures) bool { return f.Dead[0].Written == 2 && f.Topics[0].Dying == 0 })
	if m := f.Topics[0]; m.TopKeyShare != 0.5 || m.Failed != 3 {
		t.Errorf("two keys, a letter each, three failures: %+v", m)
	}
}

// refusal is an answer that takes nothing.
func refusal(req *kmsg.ProduceRequest) *kmsg.ProduceResponse {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	for _, rt := range req.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic, t.TopicID = rt.Topic, rt.TopicID
		for _, rp := range rt.Partitions {
			p := kmsg.NewProduceResponseTopicPartition()
			p.Partition, p.ErrorCode = rp.Partition, kerr.TopicAuthorizationFailed.Code
			t.Partitions = append(t.Partitions, p)
		}
		resp.Topics = append(resp.Topics, t)
	}
	return resp
}

// While commits fail, the lag of what should be committed grows; after one it is gone.
func TestCommitLagGrowsWhileCommitsFail(t *testing.T) {
	t.Parallel()
	w := newWatched(t, nil)
	var fail atomic.Bool
	fail.Store(true)
	w.cluster.ControlKey(kmsg.OffsetCommit.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		if !fail.Load() {
			return nil, nil, false
		}
		req := r.(*kmsg.OffsetCommitRequest)
		resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, rt := range req.Topics {
			t := kmsg.NewOffsetCommitResponseTopic()
			t.Topic, t.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				p := kmsg.NewOffsetCommitResponseTopicPartition()
				p.Partition, p.ErrorCode = rp.Partition, kerr.GroupAuthorizationFailed.Code
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil, true
	})
	w.send(2)
	ds := w.claim(2)
	w.settle(store.Ack, ds...)
	acked := time.Now()
	f := w.until("a lag that survives failures", func(f *kafka.Figures) bool {
		return f.Commits.Failed >= 3 && f.Partitions[0].CommitLag >= 200*time.Millisecond
	})
	if f.Commits.OK != 0 || f.Partitions[0].CommitLag > time.Since(acked)+time.Minute {
		t.Errorf("%+v", f)
	}
	fail.Store(false)
	w.until("no lag", func(f *kafka.Figures) bool { return f.Commits.OK > 0 && f.Partitions[0].CommitLag == 0 })
}

// Where the brokers take no metadata, what is finished behind a stuck message is not
// on record: it lags, though commits succeed.
func TestCommitLagWithoutRoomInTheMetadata(t *testing.T) {
	t.Parallel()
	w := newWatched(t, nil)
	w.cluster.ControlKey(kmsg.OffsetCommit.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		req := r.(*kmsg.OffsetCommitRequest)
		resp, full := req.ResponseKind().(*kmsg.OffsetCommitResponse), false
		for _, rt := range req.Topics {
			t := kmsg.NewOffsetCommitResponseTopic()
			t.Topic, t.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				p := kmsg.NewOffsetCommitResponseTopicPartition()
				p.Partition = rp.Partition
				if rp.Metadata != nil && *rp.Metadata != "" {
					p.ErrorCode, full = kerr.OffsetMetadataTooLarge.Code, true
				}
				t.Partitions = append(t.Partitions, p)
			}
			resp.Topics = append(resp.Topics, t)
		}
		return resp, nil, full
	})
	w.send(200)
	ds := w.claim(200)
	for i := 1; i < len(ds); i += 2 { // every other one: a text that needs room
		w.settle(store.Ack, ds[i])
	}
	f := w.until("a lag in spite of commits", func(f *kafka.Figures) bool {
		return f.Commits.Bare > 0 && f.Commits.OK > 0 && f.Partitions[0].Backlog == 100 &&
			f.Partitions[0].CommitLag >= 200*time.Millisecond
	})
	if f.Faults == 0 {
		t.Error("nobody is told of the brokers' limit")
	}
	for i := 0; i < len(ds); i += 2 {
		w.settle(store.Ack, ds[i])
	}
	w.until("no lag", func(f *kafka.Figures) bool {
		return f.Partitions[0].Backlog == 0 && f.Partitions[0].CommitLag == 0
	})
}

// What is still on its way when a store is closed, and does not arrive in time, is
// counted, and the error tells.
func TestRecordsLeftAtFlush(t *testing.T) {
	t.Parallel()
	w := newWatched(t, func(c *kafka.Config) { c.Produce.CloseWait = 200 * time.Millisecond })
	w.send(2)
	answer := make(chan struct{})
	t.Cleanup(func() { close(answer) })
	w.cluster.ControlKey(kmsg.Produce.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		w.cluster.SleepControl(func() { <-answer })
		return nil, nil, false
	})
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	batch := store.NewBatch(pawl.Message{Topic: "mail", Body: []byte("a")},
		pawl.Message{Topic: "mail", Body: []byte("b")}, pawl.Message{Topic: "mail", Body: []byte("c")})
	if _, err := w.Append(ctx, batch); !errors.Is(err, store.ErrUnknown) {
		t.Fatalf("an append that nobody answered: %v", err)
	}
	if f := w.Figures(); f.Produced.Buffered != 3 || f.Produced.LeftAtFlush != 0 {
		t.Fatalf("before the end: %+v", f.Produced)
	}
	err := w.Close()
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), "3 records were still on their way") {
		t.Errorf("closed: %v", err)
	}
	if f := w.Figures(); f.Produced.LeftAtFlush != 3 {
		t.Errorf("after the end: %+v", f.Produced)
	}
}

// A close that has the time leaves nothing.
func TestNothingLeftAtFlush(t *testing.T) {
	t.Parallel()
	w := newWatched(t, nil)
	w.send(3)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if f := w.Figures(); f.Produced.LeftAtFlush != 0 || f.Produced.Stored < 3 {
		t.Errorf("%+v", f.Produced)
	}
}

// logged is what a logger wrote.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// Once a minute the figures are logged, at the level for those who look into it.
func TestFiguresAreLoggedEveryMinute(t *testing.T) {
	for level, want := range map[slog.Level]int{slog.LevelDebug: 2, slog.LevelInfo: 0} {
		synctest.Test(t, func(t *testing.T) {
			var l logged
			s, err := kafka.New(kafka.Config{Brokers: []string{"127.0.0.1:1"},
				Logger: slog.New(slog.NewTextHandler(&l, &slog.HandlerOptions{Level: level}))})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(2*time.Minute + 30*time.Second)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if n := strings.Count(l.text.String(), "figures of Kafka"); n != want {
				t.Errorf("at %v: %d lines in two minutes and a half, want %d:\n%s", level, n, want, l.text.String())
			}
		})
	}
}
