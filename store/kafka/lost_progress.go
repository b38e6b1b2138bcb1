package kafka

import (
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// lostProgress is what only this process knows of a partition that it lost: what was finished
// in it and could not be committed. When no broker answers for a while the client gives
// up its place in the group, and every partition comes back from where it was
// committed. What this process finished since then it need not repeat.
type lostProgress struct {
	source       uint32
	epoch        int32
	acked, tried committedState
	cp           gate.Checkpoint
}

// committedState is what is committed of a partition: an offset, and the text beside it.
type committedState struct {
	base int64 // -1: nothing is committed
	text string
}

// remember keeps what is known of an assignment that is over, and not committed.
func (e *engine) remember(a *assignment) {
	e.mu.Lock()
	defer e.mu.Unlock()
	cp := e.conclude(a)
	m := &lostProgress{source: a.source, epoch: a.epoch.Load(), acked: *a.acked.Load(), tried: *a.acked.Load(), cp: cp}
	if tried := a.tried.Load(); tried != nil {
		m.tried = *tried
	}
	a.topic.memories[a.partition] = m
}

// recall returns what is remembered of a partition that comes back, and forgets it; nil
// if there is nothing, or if it is outdated. It counts if the committed offset is the
// one that this process committed last: an offset that was set back means that
// everything after it is to be carried out again, and another process's commit is
// further along.
func (e *engine) recall(name string, partition int32, source uint32, found committedState) *lostProgress {
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

// forget drops what is remembered of a topic that was created again.
func (e *engine) forget(name string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.topic(name).memories)
}

// offset is from where the client reads on. It notices if the log was cut.
func (m *lostProgress) offset() kgo.Offset { return kgo.NewOffset().At(m.cp.Base).WithEpoch(m.epoch) }

// reassign begins the assignment of a partition that came back.
func (e *engine) reassign(name string, partition int32, m *lostProgress, found committedState) {
	a := e.begin(name, partition, m, m.cp.Base, found)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.touch(a)
}
