package dispatch

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// A message whose lease ended unsettled several times may have killed its workers. While
// it may run beside others ([store.Weight]), all suspects together weigh no more than
// [store.MaxSuspects] here: a claim asks for the rest of that. In the end it is carried out
// alone, with nothing beside it, so that no other message can cause the next death.
//
//   - With nothing in hand and nothing else to do, every claim promises to carry out nothing
//     else ([store.Lease.Alone]).
//   - With work all the time, we ask the store now and then whether a message waits to be
//     tried alone. Then nothing is claimed until everything in hand is done, and the next
//     claim makes the promise. After a lease we give up: slow handlers are not stalled for
//     a suspect.
//   - Afterwards other messages are claimed for at least as long as that took, and for
//     longer each time that it was in vain.
type aloneRun struct {
	topic *topic        // we make way for a message of it; nil: for none
	run   *run          // the run that is carried out alone
	since time.Duration // since when we make way, or it is carried out
	rest  time.Duration // when we may make way again
	look  time.Duration // when to ask the store again
	vain  int           // how often in a row it was given up
	quiet bool          // the last claim brought nothing, with nothing in hand
}

// lookEvery is how often the store is asked whether a message waits to be tried alone.
const lookEvery = 2 * time.Second

// empty reports whether nothing is in hand, or about to be. The caller holds mu.
func (d *claimer) empty() bool { return d.held == 0 && d.claiming == 0 && d.zombies == 0 }

// makeWay plans the claims around a message to be tried alone: ok is false when it asks for
// nothing. The caller holds mu.
func (d *claimer) makeWay(now time.Duration) (p plan, ok bool) {
	s := &d.alone
	late := s.topic != nil && now >= s.since+s.topic.Lease
	switch {
	case s.run != nil || d.promised:
		return plan{wait: time.Hour}, true
	case s.topic == nil:
		return plan{}, false
	case d.empty() || late && d.held == 0 && d.claiming == 0: // a handler that never returns is not waited for
		t := s.topic
		p := plan{wants: []store.Want{{Topic: t.Name, Limit: 1, MaxBytes: d.cfg.MaxBytes, Run: 1}}}
		p.lease = store.Lease{For: t.Lease, Owner: d.cfg.Owner, Suspects: store.MaxSuspects, Alone: true}
		d.asking(&p, 1)
		return p, true
	case late:
		d.backToWork(now)
		s.vain++
		s.rest += (now - s.since) * time.Duration(1<<min(s.vain, 4)-2)
		return plan{}, false
	default:
		return plan{wait: s.since + s.topic.Lease - now}, true
	}
}

// shouldLook reports whether to ask the store now for messages that wait to be tried alone.
// The caller holds mu.
func (d *claimer) shouldLook(now time.Duration) bool {
	s := &d.alone
	if d.solitary == nil || s.run != nil || s.topic != nil || d.empty() || now < max(s.look, s.rest) {
		return false
	}
	s.look = now + lookEvery
	return true
}

// look asks the store whether a message waits to be tried alone, and begins to make way
// for it. Where the store fails, claims tell.
func (d *claimer) look() {
	for lease, topics := range d.byLease() {
		ctx, cancel := context.WithTimeout(d.claimIO, lookEvery)
		began := time.Now()
		name, err := d.solitary.Solitary(ctx, lease, topics...)
		cancel()
		d.asked("solitary", began, 0, err)
		if err != nil || name == "" {
			continue
		}
		d.mu.Lock()
		if s := &d.alone; s.run == nil && s.topic == nil && d.byName[name] != nil {
			s.topic, s.since = d.byName[name], d.engine.now()
		}
		d.mu.Unlock()
		return
	}
}

// byLease are the names of topics by the length of their leases.
func (d *claimer) byLease() map[time.Duration][]string {
	by := map[time.Duration][]string{}
	for _, t := range d.topics {
		by[t.Lease] = append(by[t.Lease], t.Name)
	}
	return by
}

// carries adds the weight of a run that was claimed. The caller holds mu.
func (d *claimer) carries(r *run, alone bool, now time.Duration) {
	d.weight += r.weight
	if s := &d.alone; alone && store.Solitary(r.ds[0].Rescues) {
		if s.topic == nil {
			s.since = now
		}
		s.run, s.vain = r, 0
	}
}

// came records what a claim brought. The caller holds mu.
func (d *claimer) came(runs int, alone bool, now time.Duration) {
	s := &d.alone
	s.quiet = runs == 0 && d.held == 0
	if alone && s.topic != nil && s.run == nil {
		d.backToWork(now) // another process was quicker
	}
}

// laidDown subtracts the weight of a run that has ended. The caller holds mu.
func (d *claimer) laidDown(r *run) {
	d.weight -= r.weight
	switch s := &d.alone; {
	case s.run == r:
		s.run = nil
		d.backToWork(d.engine.now())
		signal(d.claimKick)
	case s.topic != nil && d.empty():
		signal(d.claimKick)
	case r.weight > 0: // others may have waited for that
		r.topic.pace.wake(d.engine.now())
		signal(d.claimKick)
	}
}

// backToWork ends the time of a message that is tried alone, or the wait for it. The caller holds mu.
func (d *claimer) backToWork(now time.Duration) {
	s := &d.alone
	s.topic, s.quiet = nil, false
	s.rest = now + max(now-s.since, 0)
}
