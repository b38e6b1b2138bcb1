package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// fullEvery is how often the store is asked which topics are full, while something is
// claimed from one that emits to them.
const fullEvery = time.Second

// targets tells, of each topic, to which of the topics that it emits to it gives way
// while they are full: those from which nothing leads back to it. So no circle of topics
// ever waits for itself.
func targets(topics []Topic) map[string][]string {
	emits := make(map[string][]string, len(topics))
	for i := range topics {
		emits[topics[i].Name] = topics[i].Emits
	}
	of := map[string][]string{}
	for name, all := range emits {
		for _, target := range all {
			if !slices.Contains(of[name], target) && !reaches(emits, target, name, map[string]bool{}) {
				of[name] = append(of[name], target)
			}
		}
	}
	return of
}

// reaches reports whether what is emitted leads from one topic to another.
func reaches(emits map[string][]string, from, to string, seen map[string]bool) bool {
	if from == to {
		return true
	}
	if seen[from] {
		return false
	}
	seen[from] = true
	return slices.ContainsFunc(emits[from], func(next string) bool { return reaches(emits, next, to, seen) })
}

// downstream is what is known of the topics that others emit to. It is guarded by
// Dispatcher.mu, but for what New sets.
type downstream struct {
	bounded store.Topics // nil: no topic is ever full
	all     []string     // the targets of all topics
	full    map[string]bool
	due     time.Duration // when to ask again
}

// newDownstream gives every topic its targets.
func (d *claimer) newDownstream() {
	d.down.bounded, _ = store.As[store.Topics](d.store)
	if d.down.bounded == nil || !store.Can(d.store, store.CanBound) {
		d.down.bounded = nil
		return
	}
	for name, names := range targets(d.cfg.Topics) {
		d.byName[name].targets = names
		d.down.all = append(d.down.all, names...)
	}
	slices.Sort(d.down.all)
	d.down.all = slices.Compact(d.down.all)
}

// askFull asks which topics are full. While that cannot be known, none counts as full:
// what is emitted is stored in any case.
func (d *claimer) askFull() {
	ctx, cancel := context.WithTimeout(d.claimIO, fullEvery)
	began := time.Now()
	all, err := d.down.bounded.Full(ctx, d.down.all...)
	cancel()
	d.asked("full", began, len(all), err)
	full := make(map[string]bool, len(all))
	for _, e := range all {
		full[e.Topic] = true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down.full, d.down.due = full, d.engine.now()+fullEvery
}

// fullTarget is a topic that is full to which t emits; empty if there is none. The
// caller holds mu.
func (t *topic) fullTarget() string {
	for _, name := range t.targets {
		if t.of.down.full[name] {
			return name
		}
	}
	return ""
}
