package mirror

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Claim implements [store.Store]. When there is something of either store, a call has
// that of one of them, and the next call begins with the other one. In Returning it
// carries messages back first. An error of one store is returned only if the other one
// gives nothing.
func (s *Store) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	p, err := s.split(ctx, wants, lease)
	if err != nil {
		return nil, err
	}
	first, second := func() ([]pawl.Delivery, error) { return s.claimPrimary(ctx, p, lease) },
		func() ([]pawl.Delivery, error) { return s.claimMirrored(ctx, p, lease) }
	if s.turn.Add(1)%2 == 0 {
		first, second = second, first
	}
	ds, err := first()
	if len(ds) > 0 {
		return ds, err
	}
	ds, other := second()
	if len(ds) > 0 {
		return ds, other
	}
	return nil, errors.Join(p.bad, err, other)
}

// parts says which store is asked for what.
type parts struct {
	here, there []store.Want
	names       map[string]string // of topics, by those in the mirrored store
	bad         error             // the reason why nothing is carried back
}

// split says which store is asked for what.
func (s *Store) split(ctx context.Context, wants []store.Want, lease store.Lease) (p parts, err error) {
	if s.stages.plans == nil {
		return parts{here: wants}, nil
	}
	for i, w := range wants {
		r, err := s.stages.look(ctx, w.Topic)
		if err != nil {
			return parts{}, err
		}
		switch r.stage {
		case Moved:
			if p.there == nil {
				p.names = map[string]string{}
				p.here = append(p.here, wants[:i]...)
			}
			p.names[r.plan.InMirrored()] = w.Topic
			s.visit(r.plan.InMirrored())
			w.Topic = r.plan.InMirrored()
			p.there = append(p.there, w)
			continue
		case Off, Dual, Draining:
			s.leave(r.plan.InMirrored())
		case Returning, Closing:
			if w.Limit > 0 && lease.For > 0 {
				p.bad = errors.Join(p.bad, s.refused(w.Topic).ask(ctx, func() error {
					return s.carryBack(ctx, w.Topic, r, lease.Owner)
				}))
			}
		}
		if p.there != nil {
			p.here = append(p.here, w)
		}
	}
	if p.there == nil {
		p.here = wants
	}
	return p, nil
}

// absence avoids calls that are bound to fail, such as those to a store that cannot be
// reached: they may take long, while callers wait for the other store.
type absence struct {
	mu    sync.Mutex // never held across a wait
	until time.Time
	err   error
}

// A call that failed is not made again for this long, or for a multiple of the time that
// it took.
const (
	absentFor   = time.Second
	absentTimes = 4
	claimTime   = 3 * time.Second // for a claim while somebody waits for what else there is
)

// ask makes a call, or returns the error of the last one. A failure is remembered also when
// the caller had no more time: a store that does not answer ends every call like that. It
// is not when the caller did not want to know any more, or had no time from the start.
func (a *absence) ask(ctx context.Context, call func() error) error {
	a.mu.Lock()
	until, err := a.until, a.err
	a.mu.Unlock()
	began := time.Now()
	if began.Before(until) {
		return err
	}
	late := ctx.Err() != nil
	if err = call(); err == nil || late || errors.Is(ctx.Err(), context.Canceled) {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.err, a.until = err, now.Add(max(absentFor, absentTimes*now.Sub(began)))
	return err
}

// refused is the absence of carrying a topic back. It is the topic's own: what the primary
// refuses says nothing of the mirrored store, nor of other topics.
func (s *Store) refused(topic string) *absence {
	a, _ := s.uncarried.LoadOrStore(topic, &absence{})
	return a.(*absence)
}

// guarded is the mirrored store while callers also wait for the primary: after a failed
// claim, further ones are skipped for a while, and an unanswered one ends early, so that
// the caller has time left. The outcome of one that ended early is unknown: what it
// leased comes back when the lease ends.
type guarded struct {
	store.Store
	absent *absence
}

// Claim implements [store.Store].
func (w guarded) Claim(ctx context.Context, wants []store.Want, lease store.Lease) (ds []pawl.Delivery, err error) {
	err = w.absent.ask(ctx, func() error {
		short, cancel := context.WithTimeout(ctx, claimWithin(ctx))
		defer cancel()
		ds, err = w.Store.Claim(short, wants, lease)
		return err
	})
	return ds, err
}

// claimWithin is the time for a claim: a quarter of what the caller has left, at most.
func claimWithin(ctx context.Context) time.Duration {
	if until, ok := ctx.Deadline(); ok {
		return min(claimTime, time.Until(until)/4)
	}
	return claimTime
}

// carryBack carries what this process can claim in the mirrored store: with some stores
// nobody else can. In Closing it asks first, because copies follow any moment, and these
// are not to be carried.
func (s *Store) carryBack(ctx context.Context, topic string, r route, owner string) error {
	if r.stage == Closing {
		if r.plan.From != Returning {
			return nil
		}
		if err := s.stages.read(ctx, time.Now()); err != nil {
			return err
		}
		if r = s.stages.route(topic); r.stage != Closing && r.stage != Returning {
			return nil
		}
	}
	s.visit(r.plan.InMirrored())
	_, err := s.carryFrom(ctx, guarded{s.mirrored, &s.absent}, topic, carryAtOnce, owner)
	return err
}

func (s *Store) claimPrimary(ctx context.Context, p parts, lease store.Lease) ([]pawl.Delivery, error) {
	if len(p.here) == 0 && len(p.there) > 0 {
		return nil, nil
	}
	return s.primary.Claim(ctx, p.here, lease)
}

func (s *Store) claimMirrored(ctx context.Context, p parts, lease store.Lease) (ds []pawl.Delivery, err error) {
	if len(p.there) == 0 {
		return nil, nil
	}
	from := s.mirrored // where there is nothing else that waits
	if len(p.here) > 0 {
		from = guarded{s.mirrored, &s.absent}
	}
	ds, err = from.Claim(ctx, p.there, lease)
	now := time.Now()
	for i := range ds {
		s.foreign.add(ds[i].Token, now, ds[i].Deadline)
		ds[i].Topic = p.names[ds[i].Topic]
	}
	return ds, err
}

// leases are the tokens of a store that are not settled yet.
type leases struct {
	mu    sync.Mutex // never held across a wait
	until map[pawl.Token]time.Time
	prune int // at so many
}

const fewLeases = 1024

func (l *leases) add(tok pawl.Token, now time.Time, deadline time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.until == nil {
		l.until, l.prune = map[pawl.Token]time.Time{}, fewLeases
	}
	if len(l.until) >= l.prune {
		maps.DeleteFunc(l.until, func(_ pawl.Token, until time.Time) bool { return now.After(until) })
		l.prune = max(fewLeases, 2*len(l.until))
	}
	l.until[tok] = now.Add(2*deadline + time.Minute)
}

func (l *leases) has(tok pawl.Token) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.until[tok]
	return ok
}

func (l *leases) none() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.until) == 0
}

func (l *leases) remove(tok pawl.Token) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.until, tok)
}

// Extend implements [store.Store].
func (s *Store) Extend(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
	if s.foreign.none() {
		return s.primary.Extend(ctx, by, tokens...)
	}
	var here, there []pawl.Token
	for _, t := range tokens {
		if s.foreign.has(t) {
			there = append(there, t)
		} else {
			here = append(here, t)
		}
	}
	if len(there) == 0 {
		return s.primary.Extend(ctx, by, tokens...)
	}
	var lost []pawl.Token
	var err error
	if len(here) > 0 { // first: the other store may be away
		lost, err = s.primary.Extend(ctx, by, here...)
	}
	more, other := s.mirrored.Extend(ctx, by, there...)
	return append(slices.Clone(lost), more...), errors.Join(err, other)
}

// leaver is a store in which a process that claims has a share of the topic to itself, and
// keeps it until it leaves.
type leaver interface {
	Leave(ctx context.Context, topics ...string) error
}

// visit notes that this process claims from a topic in the mirrored store.
func (s *Store) visit(name string) { s.visited.Store(name, true) }

// leave gives up what this process has of a topic in the mirrored store, if it has claimed
// there. Otherwise a command that compares the stores, or moves the topic again, could not
// claim it.
func (s *Store) leave(name string) {
	if _, ok := s.visited.LoadAndDelete(name); !ok {
		return
	}
	l, ok := store.As[leaver](s.mirrored)
	if !ok {
		return
	}
	s.background(func() {
		if err := l.Leave(s.life, name); err != nil && s.cfg.Report != nil {
			s.cfg.Report(err) // work finished there is repeated by the next claimer
		}
	})
}

// Solitary implements [store.Solitude]: it asks for each topic the store in which that is
// claimed. A store that cannot tell has none.
func (s *Store) Solitary(ctx context.Context, lease time.Duration, topics ...string) (string, error) {
	var here, there []string
	names := map[string]string{} // of topics, by those in the mirrored store
	for _, t := range topics {
		if s.stages.plans != nil {
			if r := s.stages.route(t); r.stage == Moved {
				names[r.plan.InMirrored()] = t
				there = append(there, r.plan.InMirrored())
				continue
			}
		}
		here = append(here, t)
	}
	if name, err := solitary(ctx, s.primary, lease, here); name != "" || err != nil {
		return name, err
	}
	name, err := solitary(ctx, s.mirrored, lease, there)
	return names[name], err
}

func solitary(ctx context.Context, s store.Store, lease time.Duration, topics []string) (string, error) {
	tells, ok := store.As[store.Solitude](s)
	if !ok || len(topics) == 0 {
		return "", nil
	}
	return tells.Solitary(ctx, lease, topics...)
}
