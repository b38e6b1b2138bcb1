package dispatch

import "fmt"

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
