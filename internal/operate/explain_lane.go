package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/store"
)

const (
	// lookAhead bounds how many messages of a lane are looked at.
	lookAhead = 10_000
	// countAhead bounds how many are counted before a message.
	countAhead = 1000
)

// LanePlace is how many messages have to end before one of their key, as JSON.
type LanePlace struct {
	Before int  `json:"before"`
	More   bool `json:"more"` // there are that many at least
}

// ahead is what has to end before a message: the first holds the lane up.
type ahead struct {
	LanePlace
	first *store.Record
}

// number returns how many there are.
func (a *ahead) number() string {
	if a.More {
		return "at least " + thousands(a.Before)
	}
	return thousands(a.Before)
}

// thousands is a number up to a million, as people read it.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

// before finds what has to end before a message of a key: the first is one that is
// worked on, or whose repetition the lane waits for, else the oldest. Nil: nothing.
func (x *explaining) before(ctx context.Context, i store.Inspector, topic *store.TopicStats) (*ahead, error) {
	r := x.record
	if len(r.Key) == 0 || topic.Order != store.OrderKey {
		return nil, nil
	}
	a, looked := &ahead{}, 0
	mine := joined(r, topic)
	passed := false // what ties was appended in the order of the list, if it has one priority
	for o, err := range i.List(ctx, store.Filter{Topic: r.Topic, Key: r.Key, Limit: lookAhead}) {
		if err != nil {
			return nil, err
		}
		looked++
		at := joined(&o, topic)
		switch tied := at.Equal(mine) && o.Priority == r.Priority && !passed; {
		case o.ID == r.ID:
			passed = true
		case holdsUp(&o), o.State == store.Waiting && (at.Before(mine) || tied):
			a.add(&o, topic)
		}
		if a.Before >= countAhead && holdsUp(a.first) {
			break
		}
	}
	if a.first == nil {
		return nil, nil
	}
	if a.More = a.Before >= countAhead || looked >= lookAhead; a.Before > countAhead {
		a.Before = countAhead
	}
	return a, nil
}

// add counts r. What holds the lane up comes before what waits in it.
func (a *ahead) add(r *store.Record, topic *store.TopicStats) {
	a.Before++
	f := a.first
	if f == nil || holdsUp(r) && !holdsUp(f) || holdsUp(r) == holdsUp(f) && joined(r, topic).Before(joined(f, topic)) {
		a.first = r
	}
}

// holdsUp reports whether the lane of r stands still for it.
func holdsUp(r *store.Record) bool {
	return r.State == store.Leased || r.State == store.Delayed && !separate(r)
}

// behind says what has to end before it.
func (x *explaining) behind(a *ahead, visible time.Time) {
	x.BlockedBy, x.Lane = a.first.ID, &a.LanePlace
	first := a.first.ID + ", " + place(a.first)
	const rule = "messages of one key are processed one after the other, and "
	if a.Before == 1 && !a.More {
		x.say(SituationBehind, visible, rule+"before it is %s%s", first, replayed(x.record))
		x.then(time.Time{}, "it is claimable when that one is done")
		return
	}
	x.say(SituationBehind, visible, rule+"%s are before it; the first is %s%s", a.number(), first, replayed(x.record))
	x.then(time.Time{}, "it is claimable when all before it ("+a.number()+") are done")
}

// separate reports whether a delayed message is no part of its lane yet: it joins
// that when it is due.
func separate(r *store.Record) bool {
	return r.Delay > 0 && r.Attempts+r.Rescues == 0 && r.Cause().Code == store.CauseAppended
}

// joined is when a message joined its lane, as its rank tells: a replayed one
// joined it again. Where the topic's ageing was changed meanwhile, nearly.
func joined(r *store.Record, topic *store.TopicStats) time.Time {
	return time.UnixMicro(r.Rank - store.ToCap(r.Priority, topic.Ageing))
}

// place says where a message is.
func place(r *store.Record) string {
	switch {
	case r.State == store.Leased:
		return "which " + r.Lease.Owner + " works on"
	case r.State == store.Delayed && r.Attempts > 0:
		return "which failed and is retried at " + UTC(r.NotBefore)
	case r.State == store.Delayed:
		return "which is not due before " + UTC(r.NotBefore)
	default:
		return "which waits, too"
	}
}

// usualLease is the default of a worker's lease. What another one has is not known here.
const usualLease = 30 * time.Second

// suspected says how a message is carried out that may have killed its workers.
func (x *explaining) suspected(ctx context.Context, topic *store.TopicStats, visible time.Time) {
	r := x.record
	died := Counted(r.Rescues, "worker") + " died, or lost the lease, while processing it"
	if !store.Solitary(r.Rescues) {
		x.say(SituationSuspect, visible,
			"%s; so a worker processes only a few like it at a time, alongside other work, and after %d more deaths it is processed alone",
			died, store.SolitaryAfter-r.Rescues)
		return
	}
	x.say(SituationSuspect, visible,
		"%s; so it is processed alone, and becomes a dead letter after %d more",
		died, max(store.LonelyRescues-r.Lonely, 1))
	x.then(time.Time{}, "the next worker that is idle, or makes itself idle, claims it")
	if until, wait := topic.Deaths.PutOff(Now(ctx, x.store), usualLease, r.LastRescue()); wait {
		x.Why += fmt.Sprintf(
			"; but the last %d workers died while holding other messages of the topic, so the message may not be the cause",
			len(topic.Deaths))
		x.then(until, "if no more workers die until then, the next idle worker claims it")
	}
}

// service is the reports of the workers about a topic.
type service struct {
	now    time.Time
	served *bool // nil: the store cannot tell
	// results says that a program reads the topic from beginning to end, and claims nothing there.
	results bool
	// limit keeps the topic back in every worker, and owner is one of them; of a
	// plain rate perSecond is that of all of them. They hold heldBack for it.
	limit, owner string
	perSecond    float64
	heldBack     int
}

// none reports whether no worker is known.
func (s *service) none() bool { return s.served != nil && !*s.served }

// servedBy finds the workers of a topic. A worker that has not reported lately is gone,
// and one that drains claims nothing more. A worker that is not registered is known by
// what it holds.
func servedBy(ctx context.Context, s store.Store, i store.Inspector, topic *store.TopicStats) (*service, error) {
	entries, ok := store.As[store.Shared](s)
	if !ok {
		return &service{}, nil
	}
	workers, now, err := registered(ctx, entries)
	if err != nil {
		return nil, err
	}
	by := &service{now: now, served: new(false)}
	serving := map[string]*roster.Topic{}
	for owner, w := range workers {
		if !*w.Alive || w.Draining {
			continue
		}
		for j := range w.Topics {
			if w.Topics[j].Topic == topic.Name {
				serving[owner] = &w.Topics[j]
				by.results = by.results || w.Topics[j].ReadWhole
			}
		}
	}
	if len(serving) > 0 {
		*by.served = true
		by.limits(serving)
		return by, nil
	}
	if topic.Leased == 0 {
		return by, nil
	}
	for r, err := range i.List(ctx, store.Filter{Topic: topic.Name, State: store.Leased, Limit: countAhead}) {
		if err != nil {
			return nil, err
		}
		if r.Lease != nil && workers[r.Lease.Owner] == nil {
			*by.served = true
			break
		}
	}
	return by, nil
}

// limits finds the limit that keeps a topic back in every worker that carries it out.
func (s *service) limits(serving map[string]*roster.Topic) {
	plain := true
	for owner, t := range serving {
		if t.LimitedBy == "" {
			s.limit = ""
			return
		}
		if owner > s.owner {
			s.limit, s.owner = t.LimitedBy, owner
		}
	}
	for _, t := range serving {
		s.heldBack += t.HeldBack
		l := t.Limit(s.limit)
		switch {
		case l == nil || l.ByKey || l.PerSecond <= 0 || l.Concurrency > 0 || l.Window > 0:
			plain = false
		case l.Shared:
			s.perSecond = l.PerSecond
		default:
			s.perSecond += l.PerSecond
		}
	}
	if !plain {
		s.perSecond = 0
	}
}
