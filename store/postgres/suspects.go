package postgres

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// aim says which messages a claim looks for.
type aim uint8

const (
	others   aim = iota // ordinary messages
	suspects            // those that may run beside others
	alone               // one that is to be carried out alone
)

// takes reports whether a claim may give out a lane whose first message has that many rescues.
// A ticket of a message behind it may have brought the lane.
func (c *claiming) takes(rescues int) bool {
	if c.aim == alone {
		return store.Solitary(rescues)
	}
	return store.Weight(rescues) <= *c.room
}

// claimSuspects claims the suspects of a topic that are better than its other messages,
// as many as there is room for. A ticket for a lane that is busy or empty is dropped, and
// the next one taken.
func (s *claimer) claimSuspects(ctx context.Context, c *claiming) (runs []run, err error) {
	for *c.room > 0 && s.upkeep.sweeper.maySuspect(c.topic.id, s.exact) {
		more := &claiming{topic: c.topic, want: c.want, terms: c.terms, fence: sqlstore.NewFence(), aim: suspects,
			room: c.room, before: c.before}
		more.want.Run, more.ask = 1, more.want.Limit
		args := append([][]byte{int4Value(c.topic.id)}, more.args(s)...)
		runs, err = s.claimApart(ctx, more, takeSuspects, append(args, int8Value(int64(*c.room)))...)
		if err != nil || given(runs) > 0 || more.stayed > 0 || more.taken == 0 {
			break
		}
	}
	return runs, err
}

// claimApart claims other messages than ordinary ones.
func (s *claimer) claimApart(ctx context.Context, c *claiming, take string, args ...[]byte) ([]run, error) {
	if err := s.call(ctx, s.back, read(take, c.header, args...), c.readLanes(s)); err != nil {
		if !isServer(err) { // its answer was lost
			s.upkeep.tracker.orphan(c.fence)
		}
		return nil, err
	}
	if c.aim == suspects {
		s.upkeep.sweeper.sawSuspect(c.topic.id, c.suspect)
	} else if len(c.heads) > 0 {
		c.topic = s.topics.numbered(c.heads[0].topic)
	}
	return s.finish(ctx, c)
}

// given is how many messages of runs are given out.
func given(runs []run) (n int) {
	for i := range runs {
		n += runs[i].give
	}
	return n
}

// claimAlone claims one message that is to be alone, if there is one that may be.
func (s *claimer) claimAlone(ctx context.Context, cs []*claiming) ([]run, error) {
	var ids []int32
	for _, c := range cs {
		if s.upkeep.sweeper.maySuspect(c.topic.id, s.exact) {
			ids = append(ids, c.topic.id)
		}
	}
	for len(ids) > 0 {
		first := cs[0]
		c := claiming{topic: first.topic, terms: first.terms, fence: sqlstore.NewFence(), aim: alone, room: first.room,
			ask: 1, want: store.Want{Limit: 1, Run: 1}}
		runs, err := s.claimApart(ctx, &c, takeAlone, append([][]byte{int4Array(ids)}, c.args(s)...)...)
		if err != nil || given(runs) > 0 || c.stayed > 0 || !c.there {
			return runs, err
		}
	}
	return nil, nil
}

// first claims the messages that go before ordinary ones, and reports whether that is all.
func (s *claimer) first(ctx context.Context, cs []*claiming) (all bool, ds []pawl.Delivery, err error) {
	if len(cs) > 0 && cs[0].terms.Alone {
		runs, err := s.claimAlone(ctx, cs)
		if ds := deliveries(nil, runs); err != nil || len(ds) > 0 {
			return true, ds, err
		}
	}
	for _, c := range cs {
		if err := s.early(ctx, c); err != nil {
			return true, nil, err
		}
	}
	return false, nil, nil
}

// early claims the suspects of a topic, and leaves the rest of the claim to its other messages.
func (s *claimer) early(ctx context.Context, c *claiming) error {
	runs, err := s.claimSuspects(ctx, c)
	if err != nil {
		return err
	}
	c.early = append(c.early, runs...)
	for i := range runs {
		for j := range runs[i].heads[:runs[i].give] {
			c.before++
			c.want.Limit--
			if c.want.MaxBytes > 0 {
				c.want.MaxBytes = max(c.want.MaxBytes-runs[i].heads[j].d.Size(), 1)
			}
		}
	}
	return nil
}

// Solitary implements [store.Suspected].
func (s *claimer) Solitary(ctx context.Context, lease time.Duration, topics ...string) (name string, err error) {
	err = s.guard(ctx, "solitary", func(ctx context.Context) error {
		if err := s.upkeep.sweepIfDue(ctx); err != nil {
			return err
		}
		var ids []int32
		for _, name := range topics {
			t, err := s.registry.known(ctx, name)
			if err != nil {
				return err
			}
			if t != nil {
				ids = append(ids, t.id)
			}
		}
		return s.call(ctx, s.back, read(waitsAlone, set(&name, row.text), int4Array(ids), int8Value(micros(lease)),
			s.skewValue()))
	})
	return name, err
}

// who identifies an owner in a topic.
type who struct {
	topic int32
	owner string
}

// died notes a death beside other work.
func (w *writing) died(topic int32, owner string, at int64) {
	if w.deaths == nil {
		w.deaths = map[who]int64{}
	}
	k := who{topic, owner}
	w.deaths[k] = max(w.deaths[k], at)
}

// deathsStep writes the deaths down.
func (w *writing) deathsStep() group {
	if len(w.deaths) == 0 {
		return nil
	}
	var topics []int32
	var owners []string
	var ats []int64
	for k, at := range w.deaths {
		topics, owners, ats = append(topics, k.topic), append(owners, k.owner), append(ats, at)
	}
	return group{do(addDeaths, int4Array(topics), textArray(owners), timeArray(ats))}
}
