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
	if concurrency < 1 || concurrency > maxSlots || concurrency <= t.Reserved {
		return fmt.Errorf("resize topic %q: concurrency %d; it goes from %d to %d", topic, concurrency, t.Reserved+1, maxSlots)
	}
	t.Concurrency = concurrency
	d.wakeWorker(t)
	signal(d.claimKick)
	return nil
}

// Repoll changes [Topic.PollMax] of a topic, from now on.
func (d *Dispatcher) Repoll(topic string, most time.Duration) error {
	t := d.byName[topic]
	if t == nil {
		return fmt.Errorf("repoll: topic %q is not carried out here", topic)
	}
	if most < 0 {
		return fmt.Errorf("repoll topic %q: poll max %v is negative", topic, most)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t.PollMax = most
	t.pace.due = min(t.pace.due, d.now()+d.pollMax(t))
	signal(d.claimKick)
	return nil
}

// pollMax is the longest pause between claims of a topic. The caller holds mu.
func (d *Dispatcher) pollMax(t *topic) time.Duration { return cmp.Or(t.PollMax, d.cfg.PollMax) }

// Rebatch changes how many deliveries a batch of a topic has at most, and how long one
// that is not full waits for more, from the next batch on. 0 is the default.
func (d *Dispatcher) Rebatch(topic string, size int, wait time.Duration) error {
	t := d.byName[topic]
	if t == nil {
		return fmt.Errorf("rebatch: topic %q is not carried out here", topic)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	next := t.Topic
	next.BatchSize, next.BatchWait = size, wait
	if err := next.complete(); err != nil {
		return fmt.Errorf("rebatch topic %q: %w", topic, err)
	}
	t.BatchSize, t.BatchWait = next.BatchSize, next.BatchWait
	t.refill()
	d.wakeWorker(t)
	signal(d.claimKick)
	return nil
}
