package dispatch

import (
	"cmp"
	"fmt"
	"time"
)

// Resize changes how many handlers of a topic run at once, from now on. What runs
// beyond a smaller number finishes; its slots are not given out again.
func (d *Dispatcher) Resize(topic string, concurrency int) error {
	t := d.byName[topic]
	if t == nil {
		return fmt.Errorf("resize: topic %q is not carried out here", topic)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if concurrency < 1 || concurrency > MaxSlots || concurrency <= t.Reserved {
		return fmt.Errorf("resize topic %q: concurrency %d; it goes from %d to %d", topic, concurrency,
			t.Reserved+1, MaxSlots)
	}
	t.Concurrency = concurrency
	d.wakeWorker(t)
	signal(d.claimKick)
	return nil
}

// SetPollMax changes [Topic.PollMax] of a topic, from now on.
func (d *Dispatcher) SetPollMax(name string, most time.Duration) error {
	return d.adjust("set the pause", name, func(next *Topic) { next.PollMax = most }, func(t *topic, next *Topic) {
		t.PollMax = next.PollMax
		t.pace.due = min(t.pace.due, d.now()+d.pollMax(t))
	})
}

// pollMax is the longest pause between claims of a topic. The caller holds mu.
func (d *engine) pollMax(t *topic) time.Duration { return cmp.Or(t.PollMax, d.cfg.PollMax) }

// SetBatch changes how many deliveries a batch of a topic has at most, and how long one
// that is not full waits for more, from the next batch on. 0 is the default.
func (d *Dispatcher) SetBatch(name string, size int, wait time.Duration) error {
	return d.adjust("set the batch", name, func(next *Topic) { next.BatchSize, next.BatchWait = size, wait },
		func(t *topic, next *Topic) {
			t.BatchSize, t.BatchWait = next.BatchSize, next.BatchWait
			t.refill()
			d.wakeWorker(t)
		})
}

// adjust changes settings of a topic, unless they would be refused at the start, too. take
// takes them over, with mu held; handlers read the other fields without it.
func (d *Dispatcher) adjust(op, name string, change func(next *Topic), take func(t *topic, next *Topic)) error {
	t := d.byName[name]
	if t == nil {
		return fmt.Errorf("%s: topic %q is not carried out here", op, name)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	next := t.Topic
	change(&next)
	if err := next.complete(); err != nil {
		return fmt.Errorf("%s topic %q: %w", op, name, err)
	}
	take(t, &next)
	signal(d.claimKick)
	return nil
}
