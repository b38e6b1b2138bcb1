package codec

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// A claim asks the underlying store, decodes what it gets and gives back what it cannot
// use. Only the head of a lane can be settled by itself: to settle a later message of a
// run would end the run of those before it. So a run is used whole, or its head is
// settled, or it goes back and is claimed again up to where it has to be cut.

// maxRounds bounds how often one claim asks the store below.
const maxRounds = 8

// ownSettleTimeout bounds the settlements that a claim makes for itself.
const ownSettleTimeout = 10 * time.Second

// Claim implements [store.Store]. MaxBytes bounds the sizes of decoded messages. A
// delivery that cannot be decoded is settled by the codec itself, as dead with
// [pawl.KindDecode], or released where its blob cannot be read now; it is
// reported, and not returned.
func (s *Store) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	if err := backend.AdmitClaim(wants, lease); err != nil {
		return nil, err
	}
	c := claim{Store: s, ctx: ctx, lease: lease}
	for range maxRounds {
		if len(c.out) > 0 { // nothing else may be beside what is to be alone
			lease.Alone = false
		}
		ds, err := s.inner.Claim(ctx, s.scaled(wants), lease)
		if err != nil && len(c.out) == 0 {
			return nil, err
		}
		if err != nil {
			break // the others are leased: an error would strand them
		}
		s.learn(ds)
		if wants = c.round(wants, ds); len(wants) == 0 || len(c.out) > 0 && store.Solitary(c.out[0].Rescues) {
			break
		}
		lease.Suspects = max(c.lease.Suspects-c.weight(), 0)
	}
	return c.out, nil
}

// claim is one call of Claim.
type claim struct {
	*Store
	ctx   context.Context
	lease store.Lease
	out   []pawl.Delivery
}

// weight is that of the suspects that the claim has.
func (c *claim) weight() (sum int) {
	for i := range c.out {
		sum += store.Weight(c.out[i].Rescues)
	}
	return sum
}

// portion is what a claim has of one topic.
type portion struct {
	count, bytes int
	full         bool // a message did not fit any more
	cut          int  // where the first run has to be cut; 0: nowhere
	settled      bool // a head was settled: there may be more behind
}

// round takes from ds what it can, settles the rest, and returns what to ask for
// once more: that of topics which gave nothing although there is something.
func (c *claim) round(wants []store.Want, ds []pawl.Delivery) (again []store.Want) {
	portions := map[string]*portion{}
	var items []store.Settlement
	for len(ds) > 0 {
		n := 1
		for n < len(ds) && ds[n].Token.Lane == ds[0].Token.Lane && ds[n].Token.Fence == ds[0].Token.Fence {
			n++
		}
		p := portions[ds[0].Topic]
		if p == nil {
			p = &portion{}
			portions[ds[0].Topic] = p
		}
		if st := c.take(p, ds[:n], bytesOf(wants, ds[0].Topic)); st != nil {
			items = append(items, *st)
		}
		ds = ds[n:]
	}
	c.settle(items)
	for _, w := range wants {
		p := portions[w.Topic]
		if p == nil || p.count > 0 || p.cut == 0 && !p.settled {
			continue
		}
		if p.cut > 0 {
			w.Limit, w.Run = min(w.Limit, p.cut), p.cut
		}
		again = append(again, w)
	}
	return again
}

// bytesOf is the bound of a topic; 0 is none.
func bytesOf(wants []store.Want, topic string) int {
	for _, w := range wants {
		if w.Topic == topic {
			return w.MaxBytes
		}
	}
	return 0
}

// take decodes a run and keeps it, or returns what to settle instead.
func (c *claim) take(p *portion, run []pawl.Delivery, maxBytes int) *store.Settlement {
	if p.full {
		return c.back(&run[0], "there was no room for it")
	}
	bytes := p.bytes
	for i := range run {
		d := &run[i]
		size := decodedSize(&d.Message)
		if maxBytes > 0 && p.count+i > 0 && bytes+size > maxBytes {
			p.full = true
			return c.cut(p, run, i, "there was no room for all of its run")
		}
		if err := c.decode.decode(c.ctx, &d.Message); err != nil {
			if i > 0 {
				return c.cut(p, run, i, "a message behind it cannot be decoded")
			}
			p.settled = true
			return c.refuse(d, err)
		}
		bytes += size
	}
	p.count, p.bytes = p.count+len(run), bytes
	c.out = append(c.out, run...)
	return nil
}

// cut gives a run back that is of use up to i only.
func (c *claim) cut(p *portion, run []pawl.Delivery, i int, why string) *store.Settlement {
	if p.cut == 0 {
		p.cut = i
	}
	return c.back(&run[0], why)
}

// back releases a run by its first message.
func (c *claim) back(d *pawl.Delivery, why string) *store.Settlement {
	return &store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Release,
		Failure: store.Failure{Error: "codec: " + why}}
}

// refuse settles the head of a lane that cannot be decoded.
func (c *claim) refuse(d *pawl.Delivery, why error) *store.Settlement {
	if c.ctx.Err() != nil {
		return c.back(d, "the claim was given up")
	}
	st := c.back(d, why.Error())
	st.Failure.Worker = c.lease.Owner
	action := "released for " + c.again.String()
	if isDamaged(why) {
		st.Verdict, action = store.Dead, "dead letter"
		st.Failure.Kind, st.Failure.Rule, st.Failure.Action = pawl.KindDecode, "codec", "dead"
		st.Failure.Inputs = d.Headers[Header]
	} else {
		st.After = c.again
	}
	c.problem(Problem{ID: d.ID, Topic: d.Topic, Action: action, Err: why})
	return st
}

// settle settles what the claim does not return. The claim may be given up
// meanwhile; what is not settled waits for the end of its lease.
func (c *claim) settle(items []store.Settlement) {
	if len(items) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), ownSettleTimeout)
	defer cancel()
	batch := store.NewBatch(items...)
	_, err := c.inner.Settle(ctx, batch)
	if err != nil {
		_, err = c.inner.Settle(ctx, batch) // its outcome may be unknown
	}
	if err != nil {
		c.problem(Problem{ID: items[0].ID, Action: "left until its lease ends, with those claimed beside it", Err: err})
	}
}

// decodedSize is the size of a message when it is decoded, without decoding it.
func decodedSize(m *pawl.Message) int {
	value, encoded := m.Headers[Header]
	if !encoded {
		return m.Size()
	}
	r, err := parseRecipe(value)
	if err != nil {
		return m.Size()
	}
	return m.Size() - len(m.Body) - len(Header) - len(value) + r.length
}

// scaled asks the store below, which counts what is stored, for as many bytes as
// will become those that are wanted, as far as one can know.
func (s *Store) scaled(wants []store.Want) []store.Want {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ratios) == 0 {
		return wants
	}
	wants = slices.Clone(wants)
	for i, w := range wants {
		if ratio := s.ratios[w.Topic]; ratio > 0 && w.MaxBytes > 0 {
			wants[i].MaxBytes = int(min(max(float64(w.MaxBytes)/ratio, 1), 1<<50))
		}
	}
	return wants
}

// learn notes how much larger the messages of a topic are than what is stored.
func (s *Store) learn(ds []pawl.Delivery) {
	stored, decoded := map[string]int{}, map[string]int{}
	for i := range ds {
		m := &ds[i].Message
		stored[m.Topic] += m.Size()
		decoded[m.Topic] += decodedSize(m)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for topic, size := range decoded {
		s.ratios[topic] = float64(size) / float64(max(stored[topic], 1))
	}
}
