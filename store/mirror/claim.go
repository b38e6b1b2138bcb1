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
// that of one of them, and the next call begins with the other one. An error of one store
// is returned only if the other one gives nothing. A copy is no delivery.
func (s *Store) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	here, there, err := s.split(ctx, wants)
	if err != nil || len(there) == 0 {
		if err == nil {
			return s.primary.Claim(ctx, wants, lease)
		}
		return nil, err
	}
	if len(here) == 0 {
		return s.claimMirrored(ctx, s.mirrored, there, lease) // nothing else waits
	}
	calls := []func() ([]pawl.Delivery, error){
		func() ([]pawl.Delivery, error) { return s.primary.Claim(ctx, here, lease) },
		func() ([]pawl.Delivery, error) {
			return s.claimMirrored(ctx, guarded{s.mirrored, &s.absent}, there, lease)
		},
	}
	if s.turn.Add(1)%2 == 0 {
		slices.Reverse(calls)
	}
	ds, err := calls[0]()
	if len(ds) > 0 {
		return ds, err
	}
	ds, other := calls[1]()
	if len(ds) > 0 {
		return ds, other
	}
	return nil, errors.Join(err, other)
}

// split says which store is asked for what.
func (s *Store) split(ctx context.Context, wants []store.Want) (here, there []store.Want, err error) {
	for _, w := range wants {
		r, err := s.stages.look(ctx, w.Topic)
		if err != nil {
			return nil, nil, err
		}
		if r.there() {
			s.visited.Store(w.Topic, true)
			there = append(there, w)
			continue
		}
		s.leave(w.Topic)
		here = append(here, w)
	}
	return here, there, nil
}

// claimMirrored claims from the mirrored store.
func (s *Store) claimMirrored(ctx context.Context, from store.Store, wants []store.Want,
	lease store.Lease) ([]pawl.Delivery, error) {
	ds, err := from.Claim(ctx, wants, lease)
	if slices.ContainsFunc(ds, func(d pawl.Delivery) bool { return IsCopy(&d.Message) }) {
		ds, err = s.dropCopies(ctx, ds)
	}
	now := time.Now()
	for i := range ds {
		s.foreign.add(ds[i].Token, now, ds[i].Deadline)
	}
	return ds, err
}

// dropCopies acks copies that came late: their originals are the primary's. Of a run it
// returns what is before the next copy; the rest comes again when its lease has ended.
func (s *Store) dropCopies(ctx context.Context, ds []pawl.Delivery) ([]pawl.Delivery, error) {
	type run struct{ fence, lane int64 }
	begun, over := map[run]bool{}, map[run]bool{}
	var kept []pawl.Delivery
	var acks []store.Settlement
	for i := range ds {
		d, r := &ds[i], run{ds[i].Token.Fence, ds[i].Token.Lane}
		switch {
		case over[r]:
		case !IsCopy(&d.Message):
			kept, begun[r] = append(kept, *d), true
		case begun[r]:
			over[r] = true
		default:
			acks = append(acks, store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack})
		}
	}
	if len(acks) == 0 {
		return kept, nil
	}
	_, err := s.mirrored.Settle(ctx, store.NewBatch(acks...)) // one that is refused comes again
	return kept, err
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

// guarded is the mirrored store while callers also wait for the primary: after a failed
// claim, further ones are skipped for a while, and an unanswered one ends early, so that
// the caller has time left. The outcome of one that ended early is unknown: what it
// leased comes back when the lease ends.
type guarded struct {
	store.Store
	absent *absence
}

// Claim implements [store.Store]. A failure is remembered also when the caller had no more
// time: a store that does not answer ends every call like that. It is not when the caller
// did not want to know any more, or had no time from the start.
func (w guarded) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	a := w.absent
	a.mu.Lock()
	until, err := a.until, a.err
	a.mu.Unlock()
	began := time.Now()
	if began.Before(until) {
		return nil, err
	}
	late, within := ctx.Err() != nil, claimTime
	if end, ok := ctx.Deadline(); ok {
		within = min(claimTime, time.Until(end)/4)
	}
	short, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	ds, err := w.Store.Claim(short, wants, lease)
	if err == nil || late || errors.Is(ctx.Err(), context.Canceled) {
		return ds, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.err, a.until = err, now.Add(max(absentFor, absentTimes*now.Sub(began)))
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

// leave gives up what this process has of a topic in the mirrored store, if it has claimed
// there. Otherwise a command that compares the stores, or moves the topic again, could not
// claim it.
func (s *Store) leave(topic string) {
	if _, ok := s.visited.LoadAndDelete(topic); !ok {
		return
	}
	l, ok := store.As[leaver](s.mirrored)
	if !ok {
		return
	}
	s.background(func() {
		if err := l.Leave(s.life, topic); err != nil && s.cfg.Report != nil {
			s.cfg.Report(err) // work finished there is repeated by the next claimer
		}
	})
}

// Solitary implements [store.Suspected]: it asks for each topic the store in which that is
// claimed. A store that cannot tell has none.
func (s *Store) Solitary(ctx context.Context, lease time.Duration, topics ...string) (string, error) {
	var here, there []string
	for _, t := range topics {
		if s.stages.route(t).there() {
			there = append(there, t)
		} else {
			here = append(here, t)
		}
	}
	if name, err := solitary(ctx, s.primary, lease, here); name != "" || err != nil {
		return name, err
	}
	return solitary(ctx, s.mirrored, lease, there)
}

func solitary(ctx context.Context, s store.Store, lease time.Duration, topics []string) (string, error) {
	tells, ok := store.As[store.Suspected](s)
	if !ok || len(topics) == 0 {
		return "", nil
	}
	return tells.Solitary(ctx, lease, topics...)
}
