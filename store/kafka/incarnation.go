package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// assign begins an assignment. It is read from the start if the commit is of another
// incarnation of the topic, and from where this process was if it is the process that lost it.
func (g *group) assign(topic string, partition int32, by holder, committed int64, metadata *string) {
	at := place{g.s.wire(topic), partition}
	from := beginning{holder: by, at: committed, epoch: -1, found: committedState{base: committed}}
	if committed >= 0 && metadata != nil {
		from.found.text = *metadata
	}
	if m := g.s.ownership.recall(topic, partition, by.source, from.found); m != nil {
		from = m.beginning(by, from.found)
		g.from[at] = kgo.NewOffset().At(m.cp.Base).WithEpoch(m.epoch) // so that it notices if the log was cut
	} else if from.found.text != "" {
		var err error
		if from.cp, err = gate.Decode(committed, by.source, from.found.text); err != nil {
			g.s.health.note(partitionName(topic, partition), "the metadata of the commit is not ours: %v; "+
				"finished work above the committed offset is repeated", err)
		}
		if errors.Is(err, gate.ErrSource) {
			g.s.ownership.begin(topic, partition, fromStart(by))
			g.from[at] = kgo.NewOffset().AtStart()
			return
		}
	}
	g.s.ownership.begin(topic, partition, from)
	g.recallSkips(topic, partition)
}

// fromStart is the beginning of a log of which nothing is known.
func fromStart(by holder) beginning {
	return beginning{holder: by, at: -1, epoch: -1, found: committedState{base: -1}}
}

// recallSkips carries out skips that were requested before the partition was assigned
// to this process.
func (g *group) recallSkips(topic string, partition int32) {
	for _, e := range g.s.state.list(fmt.Sprintf("%s%s/%d/", keySkip, topic, partition),
		func(store.Entry) bool { return true }, 1) {
		g.s.heedSkip(e.Key)
	}
}

// adjust makes the client read from another offset than the committed one where [group.fetched]
// found that it has to. The client calls it right after that.
func (g *group) adjust(_ context.Context, from map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset,
	error) {
	for at, offset := range g.from {
		if _, ok := from[at.topic][at.partition]; ok {
			from[at.topic][at.partition] = offset
		}
	}
	return from, nil
}

// next is the lowest offset that may come next. The caller holds feedMu.
func (g *group) next(a *assignment) int64 {
	if n := len(a.overflow); n > 0 {
		return a.overflow[n-1].Offset + 1
	}
	return g.s.engine.tail(a)
}

// compare checks whether the log is still the one that was read. As a rule it goes on behind
// the last record. If it goes back, the client was told that the log ends before that: it was
// cut, or created again. Then the records at finished offsets are different ones if another
// leader wrote them, or if nothing is known of them except that they were committed: the
// assignment begins again there. The caller holds feedMu.
func (g *group) compare(a *assignment, records []*kgo.Record) (*assignment, []*kgo.Record) {
	next := g.next(a)
	for i, r := range records {
		if r.Offset >= next {
			break
		}
		if epoch := a.epoch.Load(); epoch >= 0 && r.LeaderEpoch <= epoch {
			continue // the same again
		}
		g.s.health.note(partitionName(a.topic.Name, a.partition),
			"its log was cut or made again: it was read up to offset %d and goes on at %d", next, r.Offset)
		g.s.cfg.Logger.Error("a log was cut or made again", "topic", a.topic.Name, "partition", a.partition,
			"read_up_to", next, "goes_on_at", r.Offset)
		anew := g.s.ownership.begin(a.topic.Name, a.partition, fromStart(a.holder))
		anew.paused = a.paused
		return anew, records[i:]
	}
	return a, records
}

// lostProgress is the progress in a lost partition that only this process knows, because it
// could not be committed. When no broker answers for a while, the client gives up its place in
// the group, and every partition comes back at its committed offset. This process need not
// repeat the work that it has finished since.
type lostProgress struct {
	source       uint32
	epoch        int32
	acked, tried committedState
	cp           gate.Checkpoint
}

// committedState is the commit of a partition: an offset, and the text beside it.
type committedState struct {
	base int64 // -1: nothing is committed
	text string
}

// remember keeps the progress of an assignment that is over and could not be committed.
func (e *ownership) remember(a *assignment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	cp := e.conclude(a)
	m := &lostProgress{source: a.source, epoch: a.epoch.Load(), acked: *a.acked.Load(), tried: *a.acked.Load(), cp: cp}
	if tried := a.tried.Load(); tried != nil {
		m.tried = *tried
	}
	a.topic.memories[a.partition] = m
}

// recall returns the remembered progress of a partition that comes back, and forgets it; nil if
// there is nothing, or if it is outdated. It counts if the committed offset is the one that
// this process committed last: an offset that was set back means that everything after it is to
// be carried out again, and another process's commit is further along.
func (e *ownership) recall(name string, partition int32, source uint32, found committedState) *lostProgress {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.topic(name)
	m := t.memories[partition]
	delete(t.memories, partition)
	if m == nil || m.source != source || m.cp.Base < found.base || found != m.acked && found != m.tried {
		return nil
	}
	return m
}

// forget drops the remembered progress of a topic that was created again.
func (e *ownership) forget(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.topic(name).memories)
}

// beginning is that of a partition that came back.
func (m *lostProgress) beginning(by holder, found committedState) beginning {
	return beginning{holder: by, at: m.cp.Base, epoch: m.epoch, cp: m.cp, found: found, ahead: true}
}
