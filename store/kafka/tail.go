package kafka

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
)

// tail reads a topic from its start and goes on reading it, so that a copy in memory follows
// the writes of all processes. A topic that is deleted and created again is another one: the
// copy of the first is forgotten, and the second is read from its start.
type tail struct {
	s     *Store
	topic string // at the brokers
	// apply gets every record, those of a partition in order, and clear forgets
	// what apply has made of them. Both are called with mu held.
	apply func(*kgo.Record)
	clear func()

	mu     sync.Mutex
	id     kadm.TopicID    // of the topic that is read
	next   map[int32]int64 // offset behind the last one that was seen
	moved  chan struct{}   // closed and replaced when next has changed
	client *kgo.Client
	stop   context.CancelFunc // of its loop
	failed error              // of the last fetch
	asking bool               // whether the topic is still there: see ask
}

func newTail(s *Store, topic string, apply func(*kgo.Record), forget func()) *tail {
	return &tail{s: s, topic: topic, apply: apply, clear: forget, next: map[int32]int64{}, moved: make(chan struct{})}
}

// follow brings the copy in memory up to the present end of the topic. A topic that is not
// there is empty.
func (t *tail) follow(ctx context.Context) error {
	for {
		id, ends, err := t.ends(ctx)
		if err != nil {
			return err
		}
		if ends == nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.leave()
			return nil
		}
		if err := t.start(ctx, id, ends); err != nil {
			return err
		}
		for p, end := range ends {
			if err = t.reach(ctx, id, p, end); err != nil {
				break
			}
		}
		if !errors.Is(err, errMadeAgain) {
			return err
		}
	}
}

// errMadeAgain: the topic was deleted and created again.
var errMadeAgain = errors.New("the topic was made again")

// ends asks which topic has the name now, and where its partitions end; nil if there is none.
// The client's knowledge of a topic may be a moment old, and it would miss the records of a
// topic that was just created.
func (t *tail) ends(ctx context.Context) (id kadm.TopicID, ends map[int32]int64, err error) {
	op := "read " + t.topic
	for {
		details, err := t.s.describe(ctx, t.topic)
		found := details[t.topic]
		if err == nil {
			err = found.Err
		}
		switch {
		case err == nil:
			ends, err := t.s.offsetsOf(ctx, op, t.topic, t.s.admin.ListCommittedOffsets)
			if err != nil || len(ends) > 0 {
				return found.ID, ends, err
			}
		case !errors.Is(err, kerr.UnknownTopicOrPartition):
			return id, nil, t.s.explain(op, err)
		}
		there, err := t.s.topics.there(ctx, t.topic)
		if err != nil || !there {
			return id, nil, err
		}
		if store.Sleep(ctx, metadataMin) != nil {
			return id, nil, t.s.explain(op, ctx.Err())
		}
	}
}

// leave drops a topic that no longer exists, or was created again, and forgets its
// contents. The caller holds mu.
func (t *tail) leave() {
	if t.client == nil {
		return
	}
	t.s.cfg.Logger.Error("topic was deleted, or made again: what was in it is forgotten", "topic", t.topic)
	t.s.topics.forget(t.topic)
	t.stop()
	t.client, t.failed, t.id, t.next = nil, nil, kadm.TopicID{}, map[int32]int64{}
	t.clear()
	t.move()
}

// move wakes the callers that wait for the topic to be read. The caller holds mu.
func (t *tail) move() {
	close(t.moved)
	t.moved = make(chan struct{})
}

// start makes the client, and adds partitions that are new.
func (t *tail) start(ctx context.Context, id kadm.TopicID, partitions map[int32]int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.id != id {
		t.leave()
	}
	fresh := map[int32]kgo.Offset{}
	for p := range partitions {
		if _, ok := t.next[p]; !ok {
			fresh[p] = kgo.NewOffset().AtStart()
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	starts, err := t.s.offsetsOf(ctx, "read "+t.topic, t.topic, t.s.admin.ListStartOffsets)
	if err != nil {
		return err
	}
	for p := range fresh {
		t.next[p] = starts[p]
	}
	if t.client != nil {
		t.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{t.topic: fresh})
		return nil
	}
	client, err := kgo.NewClient(t.s.readerOptions(t.topic, fresh)...)
	if err != nil {
		return &store.Error{Op: "read " + t.topic, Code: store.ErrInvalid, Err: err}
	}
	ctx, stop := context.WithCancel(t.s.ctx)
	if !t.s.background(func() { t.loop(ctx, client) }) {
		stop()
		client.Close()
		return &store.Error{Op: "read " + t.topic, Code: store.ErrClosed}
	}
	t.client, t.id, t.stop = client, id, stop
	return nil
}

// readerOptions are those of a client that reads partitions by itself, outside of
// any group.
func (s *core) readerOptions(topic string, from map[int32]kgo.Offset) []kgo.Opt {
	return append(s.options(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: maps.Clone(from)}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.FetchMaxWait(s.cfg.Consume.FetchWait), kgo.FetchMinBytes(1),
		kgo.FetchMaxBytes(s.cfg.Consume.FetchBytes), kgo.MaxDecompressBatchBytes(maxReadBytes),
	)
}

// reading is the id of the topic that is read.
func (t *tail) reading() kadm.TopicID {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.id
}

func (t *tail) started() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.client != nil
}

// loop takes in the records that a client fetches, until its context ends, and closes it.
// Nothing else closes it: a client must not be closed twice at a time.
func (t *tail) loop(ctx context.Context, client *kgo.Client) {
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil || fetches.IsClientClosed() || !t.take(client, fetches) {
			return
		}
	}
}

// take takes in fetched records; false if this client does not read the topic any more.
func (t *tail) take(client *kgo.Client, fetches kgo.Fetches) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.client != client {
		return false
	}
	fetches.EachError(func(_ string, p int32, err error) {
		t.failed = err
		t.s.health.fetchFailed(t.topic, p, about(t.topic, err))
		if isUnknownTopic(err) && !t.asking {
			t.asking = true
			t.s.wg.Go(t.ask)
		}
	})
	fetches.EachRecord(func(r *kgo.Record) {
		t.failed = nil
		if !r.Attrs.IsControl() {
			t.apply(r)
		}
		t.next[r.Partition] = max(t.next[r.Partition], r.Offset+1)
	})
	t.move()
	return true
}

// ask finds out what has become of a topic that the brokers do not know any more, or
// not as the one that is read, and goes on until one is read again.
func (t *tail) ask() {
	for asking := true; asking; {
		err := t.follow(t.s.ctx)
		t.mu.Lock()
		asking = (err != nil || t.client == nil) && t.s.ctx.Err() == nil
		t.asking = asking
		t.mu.Unlock()
		if asking {
			_ = store.Sleep(t.s.ctx, lookAgain)
		}
	}
}

// isUnknownTopic reports whether err is that of a topic that was deleted, or created again.
func isUnknownTopic(err error) bool {
	return errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.UnknownTopicOrPartition) ||
		errors.Is(err, kerr.InconsistentTopicID)
}

// reach waits until everything before an offset was seen of the topic with that id.
func (t *tail) reach(ctx context.Context, id kadm.TopicID, partition int32, end int64) error {
	for {
		t.mu.Lock()
		there, same, moved, failed := t.next[partition] >= end, t.id == id, t.moved, t.failed
		t.mu.Unlock()
		if !same {
			return errMadeAgain
		}
		if there {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return t.s.explain("read "+t.topic, errors.Join(ctx.Err(), failed))
		case <-t.s.ctx.Done():
			return &store.Error{Op: "read " + t.topic, Code: store.ErrClosed}
		case <-time.After(reachTimeout):
			return t.s.explain("read "+t.topic,
				errors.Join(errors.New("its end was not reached within "+reachTimeout.String()), failed))
		}
	}
}

// reachTimeout bounds the wait for one more answer while the end is not reached.
const reachTimeout = 30 * time.Second
