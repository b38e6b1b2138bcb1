package dispatch

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// Snapshot is the state of a dispatcher, for dashboards.
type Snapshot struct {
	Owner    string
	Draining bool
	// Held are messages claimed and not yet settled, Unsettled those of them
	// that are carried out; Bytes is their size.
	Held, Unsettled, Bytes, MaxBytes int
	Topics                           []TopicSnapshot
	// Outage is for how long the store has been failing; 0 while it works.
	Outage time.Duration
}

// TopicSnapshot is the state of a dispatcher in one topic.
type TopicSnapshot struct {
	Name string
	// Running handlers, of at most Concurrency; Reserved of these slots are for
	// the highest priority. With a Room, Concurrency is how many lanes it welcomes now.
	Running, Concurrency, Reserved int
	// Waiting are messages that are claimed and not started.
	Waiting int
	// Zombies are handlers that outlived their deadline or lease.
	Zombies int
	// Late are running handlers that have used up half of the time until their deadline.
	Late int
	// Mean is the moving mean of the time that a handler takes for a message.
	Mean time.Duration
	// Rate is how many deliveries ended a second, over the last ten.
	Rate float64
	// Totals since Run began. Lost are deliveries whose lease was lost.
	Acked, Retried, Dead, Released, Lost int64
	// Limits are the topic's limiters; HeldBack are messages that wait here for one.
	// LimitedBy names the limiter that lately held something back.
	Limits    []LimitSnapshot
	HeldBack  int
	LimitedBy string
	// FullTarget is a full topic to which this one emits: while it is full, nothing is
	// claimed here.
	FullTarget string
}

// Snapshot returns the state of the dispatcher.
func (d *watcher) Snapshot() Snapshot {
	outage, _ := d.claimer.outage.lasting()
	d.mu.Lock()
	defer d.mu.Unlock()
	s := Snapshot{
		Owner: d.cfg.Owner, Draining: d.phase == draining, Held: d.held, Unsettled: d.unsettled,
		Bytes: d.bytes, MaxBytes: d.cfg.MaxBytes, Outage: outage,
	}
	var now time.Duration
	if d.phase != idle {
		now = d.engine.now()
	}
	late := d.late(now)
	for _, t := range d.topics {
		of := TopicSnapshot{
			Name: t.Name, Running: t.running, Concurrency: t.Concurrency, Reserved: t.Reserved,
			Waiting: t.waiting, Zombies: t.zombies, Mean: t.mean, Rate: t.counts.rate(now),
			Acked: t.counts.acked, Retried: t.counts.retried, Dead: t.counts.dead,
			Released: t.counts.released, Lost: t.counts.lost, HeldBack: len(t.held), LimitedBy: t.limited(now),
			FullTarget: t.fullTarget(), Late: late[t],
		}
		if t.Room != nil {
			lanes, _, _ := t.Room.Lanes()
			of.Concurrency = min(t.Concurrency, max(lanes, t.running))
		}
		for _, l := range t.Limits {
			of.Limits = append(of.Limits, l.Snapshot())
		}
		s.Topics = append(s.Topics, of)
	}
	return s
}

// late counts the handlers that are near their deadline. The caller holds mu.
func (d *watcher) late(now time.Duration) map[*topic]int {
	late := map[*topic]int{}
	for _, c := range d.claims {
		for i := range c.runs {
			r := &c.runs[i] // a batch is one handler
			if k := r.call; k != nil && !k.abandoned && k.parts[0].run == r && now-k.started > (k.hard-k.started)/2 {
				late[r.topic]++
			}
		}
	}
	return late
}

// unreadyAfter is how long the store may fail before the process is not ready.
const unreadyAfter = 5 * time.Second

// Ready returns nil while the dispatcher does its work, and otherwise why it
// does not: it does not run, too many handlers outlived their deadline, or the
// store has been failing for a while, or is lost.
func (d *watcher) Ready() error {
	outage, err := d.claimer.outage.lasting()
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.phase == idle:
		return errors.New("not running yet")
	case d.phase != working:
		return errors.New("draining or stopped")
	case d.zombies > d.cfg.MaxZombies:
		return fmt.Errorf("too many handlers outlived their deadline: %d; at most %d may", d.zombies, d.cfg.MaxZombies)
	case errors.Is(err, store.ErrLost):
		return err
	case outage > unreadyAfter:
		return fmt.Errorf("the store has been failing for %v: %w", outage.Round(time.Second), err)
	default:
		return nil
	}
}
