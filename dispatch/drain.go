package dispatch

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl"
)

const (
	claimGrace  = 2 * time.Second  // for a claim that is on its way when the drain begins
	drainGrace  = 5 * time.Second  // for handlers whose context has ended
	settleGrace = 10 * time.Second // for what is left to be settled
)

// endRun makes Run drain, and return err in the end.
func (d *engine) endRun(err error) {
	d.mu.Lock()
	if d.fatal == nil {
		d.fatal = err
	}
	d.mu.Unlock()
	d.ended.Do(func() { close(d.end) })
}

// tellDrain wakes the drain, if there is one, because something has ended. The caller
// holds mu.
func (d *engine) tellDrain() {
	if d.phase == draining {
		signal(d.drainKick)
	}
}

// drain ends everything in good order, within bounds.
func (d *Dispatcher) drain() error {
	d.mu.Lock()
	if d.phase != working {
		d.mu.Unlock()
		return ErrKilled
	}
	d.phase = draining
	now := d.now()
	for _, t := range d.topics {
		d.emptyQueue(t, now, "draining")
	}
	atWork := d.atWork()
	d.mu.Unlock()
	signal(d.claimKick)
	signal(d.settleKick)
	if atWork > 0 {
		d.cfg.Logger.Info("draining", slog.Int("running", atWork), slog.Duration("timeout", d.cfg.DrainTimeout))
	}
	late := time.AfterFunc(min(claimGrace, d.cfg.DrainTimeout), d.stopClaims)
	defer late.Stop()
	idle := func() bool { return d.atWork() == 0 && d.claiming == 0 }
	if !d.await(idle, d.cfg.DrainTimeout) {
		grace := d.endCalls()
		d.await(idle, grace)
	}
	d.await(func() bool { return d.held == 0 && d.settling == 0 }, settleGrace)
	return d.drained()
}

// atWork is how many handlers run in slots. The caller holds mu.
func (d *Dispatcher) atWork() int {
	n := 0
	for _, t := range d.topics {
		n += t.running
	}
	return n
}

// await waits until ok returns true; false if it took too long. ok is called with mu
// held.
func (d *Dispatcher) await(ok func() bool, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		d.mu.Lock()
		done := ok()
		d.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-d.drainKick:
		case <-timer.C:
			return false
		case <-d.stop:
			return false
		}
	}
}

// endCalls ends the contexts of all handlers with pawl.ErrDrain. What does not
// return is abandoned soon after. It returns for how long to wait for that.
func (d *Dispatcher) endCalls() time.Duration {
	grace := min(drainGrace, d.cfg.DrainTimeout)
	d.mu.Lock()
	force := d.now() + grace
	calls := d.calls()
	for _, c := range calls {
		if !c.ending {
			c.ending, c.force = true, force
			for _, p := range c.parts {
				p.run.claim.check = min(p.run.claim.check, force)
			}
		}
	}
	d.watchAt = min(d.watchAt, force)
	d.mu.Unlock()
	signal(d.watchKick)
	for _, c := range calls {
		c.end(pawl.ErrDrain)
	}
	return grace + time.Second
}

// drained says how the drain went.
func (d *Dispatcher) drained() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.phase == stopped:
		return ErrKilled
	case d.fatal != nil && !errors.Is(d.fatal, ErrAsked):
		return d.fatal
	case d.zombies > 0:
		return fmt.Errorf("drain: %d %w", d.zombies, ErrStuck)
	case d.held > 0:
		return fmt.Errorf(
			"drain: %d deliveries could not be settled; they are delivered again when their lease has ended", d.held)
	default:
		return d.fatal
	}
}

// emptyQueue gives back what waits in a topic.
func (d *Dispatcher) emptyQueue(t *topic, now time.Duration, reason string) {
	t.release(d, now, reason)
	for {
		r := t.front()
		if r == nil {
			return
		}
		d.giveUp(r, now, reason)
	}
}
