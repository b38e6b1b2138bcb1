package kafka

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// producers are the clients that produce, by the largest batch they make. One writes
// messages, and whatever takes no larger batches; topics of dead letters that do are
// written to by others. A single one would not do: a client asks how large batches of a
// topic may be when it comes to know the topic, and never again. It can be made to
// forget the topic, but then counts its batches from 0 anew, as the same producer; and
// brokers take a batch with a number that they have just seen for a repetition: they
// say that it is stored, and drop it.
type producers struct {
	s    *Store
	main *kgo.Client

	mu     sync.Mutex
	large  map[int32]*kgo.Client // few: topics are seldom configured one by one
	closed bool
}

func (p *producers) init(s *Store) (err error) {
	p.s, p.large = s, map[int32]*kgo.Client{}
	p.main, err = kgo.NewClient(s.producerOptions()...)
	return err
}

// of is the client that writes to a topic.
func (p *producers) of(topic string) *kgo.Client {
	if _, dead := p.s.cfg.deadHome(p.s.plain(topic)); !dead {
		return p.main
	}
	bytes := p.s.topics.limitOf(topic).bytes
	if bytes == p.s.cfg.Produce.BatchBytes {
		return p.main
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.large[bytes]; c != nil || p.closed {
		return cmp.Or(c, p.main) // which is closed, too, and says so
	}
	c, err := kgo.NewClient(append(p.s.producerOptions(), kgo.ProducerBatchMaxBytes(bytes))...)
	if err != nil { // the same options were good for main
		return p.main
	}
	p.large[bytes] = c
	return c
}

func (p *producers) all() []*kgo.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.AppendSeq([]*kgo.Client{p.main}, maps.Values(p.large))
}

// forget has the clients forget topics. That is right only for topics that were made
// again: their log is empty, and has seen no batch of ours.
func (p *producers) forget(topics ...string) {
	for _, c := range p.all() {
		c.PurgeTopicsFromProducing(slices.Clone(topics)...) // which sorts them
	}
}

// flush waits for what is on its way.
func (p *producers) flush(ctx context.Context) (err error) {
	for _, c := range p.all() {
		err = errors.Join(err, c.Flush(ctx))
	}
	return err
}

// buffered is what is on its way.
func (p *producers) buffered() (records, bytes int64) {
	for _, c := range p.all() {
		records, bytes = records+c.BufferedProduceRecords(), bytes+c.BufferedProduceBytes()
	}
	return records, bytes
}

func (p *producers) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for _, c := range p.all() {
		c.Close()
	}
}
