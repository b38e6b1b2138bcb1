package kafka

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/pawl-dev/pawl/store"
)

// expireEvery is between looks at what retention has taken of the logs of dead
// letters. Brokers look every five minutes themselves.
const expireEvery = time.Minute

// expireLoop forgets letters as the brokers do.
func (x *deadIndex) expireLoop() {
	for store.Sleep(x.s.ctx, expireEvery) == nil {
		ctx, cancel := context.WithTimeout(x.s.ctx, expireEvery)
		if err := x.expire(ctx); err != nil {
			x.s.cfg.Logger.Debug("it is not known which dead letters retention has taken", "error", err)
		}
		cancel()
	}
}

// expire forgets letters that stand before the start of their log. A reader of a log
// learns where it starts only when a new record comes, so the brokers are asked, for
// all topics at once.
func (x *deadIndex) expire(ctx context.Context) error {
	var names []string
	read := map[*topicIndex]kadm.TopicID{}
	x.mu.Lock()
	all := slices.Collect(maps.Values(x.by))
	x.mu.Unlock()
	for _, g := range all { // a topic that is just being opened delays only this loop
		if g.tail.started() {
			names, read[g] = append(names, g.tail.topic), g.tail.reading()
		}
	}
	if len(names) == 0 {
		return nil
	}
	starts, err := x.s.admin.ListStartOffsets(ctx, names...)
	for g, id := range read {
		g.expire(id, starts[g.tail.topic])
	}
	return x.s.explain("forget dead letters", err)
}

// expire forgets letters before the starts of the topic with that id.
func (t *topicIndex) expire(id kadm.TopicID, starts map[int32]kadm.ListedOffset) {
	t.tail.mu.Lock()
	defer t.tail.mu.Unlock()
	if t.tail.id != id {
		return // it was made again meanwhile: its letters are others
	}
	moved := false
	for p, o := range starts {
		if o.Err == nil && o.Offset > t.starts[p] {
			t.starts[p], moved = o.Offset, true
		}
	}
	if !moved {
		return
	}
	for _, gr := range t.letters {
		if gr.at.offset < t.starts[gr.at.partition] {
			t.remove(gr)
		}
	}
}
