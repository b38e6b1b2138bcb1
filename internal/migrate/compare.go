package migrate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/mirror"
)

const (
	shadowOwner = "pawl traffic"
	shadowLease = 10 * time.Second
	shadowBatch = 500
	shadowBytes = 16 << 20
	shadowAgain = 500 * time.Millisecond // after a copy whose original is not done
	maxExamples = 10
)

// Comparison is how the two stores of a topic differ, as JSON. What the old store has
// done already is only counted: of that it knows nothing any more, unless the topic
// retains it.
type Comparison struct {
	Topic string `json:"topic"`
	// Compared are messages that are not done in the old store and have a copy.
	Compared int64 `json:"compared"`
	Keys     int   `json:"keys"`
	// Missing are messages of the old store without a copy. Young ones that were
	// missing for less than a round are Late.
	Missing int64 `json:"missing"`
	Late    int64 `json:"late"`
	// Disordered are messages of a key whose copies are in another order.
	Disordered int64 `json:"out_of_order"`
	// Different are copies with another body, key, priority or other headers.
	Different int64 `json:"different"`
	// Done are copies that were acked in the new store because the old store has done
	// with their originals; Known of them were compared.
	Done  int64 `json:"done"`
	Known int64 `json:"done_and_compared"`
	// Before are messages from before the copying began, which have no copy.
	Before int64 `json:"before"`
	// Originals are messages of the new store that are no copies. They stay there.
	Originals int64           `json:"no_copies"`
	Rounds    int             `json:"rounds"`
	Diffs     []KeyDifference `json:"differences"`
	missing   map[string]bool
}

// KeyDifference is what is wrong with the messages of a key.
type KeyDifference struct {
	Key        *string  `json:"key"`
	KeyBase64  string   `json:"key_base64,omitempty"`
	Missing    int      `json:"missing"`
	Disordered int      `json:"out_of_order"`
	Different  int      `json:"different"`
	IDs        []string `json:"ids"` // the first ones
}

// Found returns how many differences there are.
func (c *Comparison) Found() int64 { return c.Missing + c.Disordered + c.Different }

// Compare compares a topic in both stores, round by round, until nothing differs that
// may still be on its way, or the time is over. Meanwhile it consumes the copies of what
// the old store has done, in the new store alone and without doing anything; with dry
// it does not. Any number of processes may compare at once.
func (t *Traffic) Compare(ctx context.Context, topic string, wait time.Duration, dry bool) (*Comparison, error) {
	p, err := t.planned(ctx, topic)
	if err != nil {
		return nil, err
	}
	if p.Stage != mirror.Dual {
		return nil, conflict("it is "+string(p.Stage)+": there are no copies to compare",
			"`pawl traffic status` shows how far it is", topic)
	}
	return t.compare(ctx, p, wait, dry)
}

func (t *Traffic) compare(ctx context.Context, p *mirror.Plan, wait time.Duration, dry bool) (*Comparison, error) {
	var done Comparison
	var last *Comparison
	for until := time.Now().Add(wait); ; {
		c, err := t.round(ctx, p, last, &done, dry)
		if err != nil {
			return last, err
		}
		quiet := c.Late == 0 && last != nil
		if last = c; quiet && c.Missing == 0 || time.Now().After(until) && c.Rounds > 1 {
			return c, nil
		}
		if store.Sleep(ctx, time.Second) != nil {
			return c, context.Cause(ctx)
		}
	}
}

// round consumes what is done, and compares the rest. What was missing in the round
// before, too, is missing; the rest is late.
func (t *Traffic) round(ctx context.Context, p *mirror.Plan, last, done *Comparison, dry bool) (*Comparison, error) {
	if !dry {
		if err := t.shadow(ctx, p, done, false); err != nil {
			return nil, err
		}
	}
	c, err := t.survey(ctx, p)
	if err != nil {
		return nil, err
	}
	c.Rounds = 1
	before := map[string]bool{}
	if last != nil {
		c.Rounds, before = last.Rounds+1, last.missing
	}
	for id := range c.missing {
		if !before[id] {
			c.Missing--
			c.Late++
		}
	}
	c.Done, c.Known, c.Different = done.Done, done.Known, c.Different+done.Different
	return c, nil
}

// copied is a message as it is compared.
type copied struct {
	id       string
	visible  int64
	priority int
	hash     [sha256.Size]byte
}

// unordered tells that nothing says which of two came first: they became visible at the
// same moment, and are listed by priority.
func unordered(a, b *copied) bool { return a.visible == b.visible && a.priority != b.priority }

// lanes are the messages of a topic that are not done, by key, in their order.
type lanes map[string][]copied

// survey compares what is not done. The new store is read first: what is there has been
// in the old one before, and has gone if it is not there.
func (t *Traffic) survey(ctx context.Context, p *mirror.Plan) (*Comparison, error) {
	there, originals, err := t.read(ctx, t.To, t.to, p.Topic,
		func(r *store.Record) bool { return mirror.IsCopy(&r.Message) })
	if err != nil {
		return nil, err
	}
	c := &Comparison{Topic: p.Topic, Diffs: []KeyDifference{}, missing: map[string]bool{}}
	// Whoever appends learns of the copying within this time.
	began := p.Since.Add(mirror.Fresh)
	here, left, err := t.read(ctx, t.From, t.from, p.Topic, func(r *store.Record) bool {
		// A replayed one had a copy when it died.
		return !r.EnqueuedAt.Before(began) && r.Replays == 0
	})
	if err != nil {
		return nil, err
	}
	c.Before, c.Originals = left, originals
	for _, key := range slices.Sorted(maps.Keys(here)) {
		c.lane(key, here[key], there[key])
	}
	return c, nil
}

// read reads the messages of a topic that are not done, and counts those that keep does
// not want.
func (t *Traffic) read(ctx context.Context, s store.Store, topics store.Topics, name string,
	keep func(*store.Record) bool) (lanes, int64, error) {
	settings, err := topics.Topic(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return lanes{}, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	look, _ := store.As[store.Inspector](s) // New has seen that it is there
	all, left := lanes{}, int64(0)
	for r, err := range look.List(ctx, store.Filter{Topic: name}) {
		if err != nil {
			return nil, 0, err
		}
		if !keep(&r) {
			left++
			continue
		}
		key := string(r.Key)
		if settings.Order == store.OrderNone || r.Key == nil {
			key = "" // no order to compare
		}
		all[key] = append(all[key], copied{r.ID, visible(&settings, &r), r.Priority, digest(&r.Message)})
	}
	for _, of := range all {
		slices.SortStableFunc(of, func(a, b copied) int { return cmp.Compare(a.visible, b.visible) })
	}
	return all, left, nil
}

// visible is when a message joined its lane: its rank without its priority.
func visible(t *store.Topic, r *store.Record) int64 {
	if r.Rank == 0 {
		return 0 // a log is listed in its order
	}
	return r.Rank - store.ToCap(r.Priority, t.Ageing)
}

// digest is a hash of what a copy must have in common with its original.
func digest(m *pawl.Message) [sha256.Size]byte {
	h := sha256.New()
	part := func(b []byte) {
		n := len(b)
		_, _ = h.Write([]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}) // a hash never fails
		_, _ = h.Write(b)
	}
	part(m.Key)
	part(m.Body)
	part([]byte{byte(m.Priority)})
	for _, name := range slices.Sorted(maps.Keys(m.Headers)) {
		if name == mirror.CopyHeader {
			continue
		}
		part([]byte(name))
		part([]byte(m.Headers[name]))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// lane compares the messages of a key.
func (c *Comparison) lane(key string, here, there []copied) {
	place := make(map[string]int, len(there))
	for i := range there {
		if _, twice := place[there[i].id]; !twice {
			place[there[i].id] = i
		}
	}
	d := KeyDifference{IDs: []string{}}
	note := func(id string) {
		if len(d.IDs) < maxExamples {
			d.IDs = append(d.IDs, id)
		}
	}
	furthest, top := -1, -1 // there, and here
	for i := range here {
		at, ok := place[here[i].id]
		switch {
		case !ok:
			d.Missing++
			c.missing[here[i].id] = true
			note(here[i].id)
			continue
		case there[at].hash != here[i].hash:
			d.Different++
			note(here[i].id)
		case key != "" && at < furthest && !unordered(&here[i], &here[top]) && !unordered(&there[at], &there[furthest]):
			d.Disordered++
			note(here[i].id)
		}
		if at > furthest {
			furthest, top = at, i
		}
		c.Compared++
	}
	c.Keys++
	c.Missing += int64(d.Missing)
	c.Different += int64(d.Different)
	c.Disordered += int64(d.Disordered)
	if d.Missing+d.Different+d.Disordered == 0 {
		return
	}
	switch {
	case key == "":
	case utf8.ValidString(key):
		d.Key = &key
	default:
		d.KeyBase64 = base64.StdEncoding.EncodeToString([]byte(key))
	}
	c.Diffs = append(c.Diffs, d)
}

// shadow consumes copies in the new store: those whose originals are done, or all of
// them. Their handler does nothing. It ends when nothing of the kind is to be had.
func (t *Traffic) shadow(ctx context.Context, p *mirror.Plan, c *Comparison, all bool) error {
	for {
		ds, err := t.To.Claim(ctx, []store.Want{{Topic: p.Topic, Limit: shadowBatch, MaxBytes: shadowBytes}},
			store.Lease{For: shadowLease, Owner: shadowOwner, Suspects: backend.AllSuspects})
		if err != nil || len(ds) == 0 {
			return err
		}
		items, acked, err := t.decide(ctx, ds, c, all)
		if err != nil {
			return err
		}
		if _, err := t.To.Settle(ctx, store.NewBatch(items...)); err != nil {
			return err
		}
		c.Done += acked
		if acked == 0 {
			return nil
		}
	}
}

// decide acks the copies whose originals are done, or all of them, lane by lane: the first
// of a run that is not acked gives back the rest. What is no copy is never acked.
func (t *Traffic) decide(ctx context.Context, ds []pawl.Delivery, c *Comparison,
	all bool) (items []store.Settlement, acked int64, err error) {
	type run struct{ fence, lane int64 }
	over := map[run]bool{}
	for i := range ds {
		d := &ds[i]
		r := run{d.Token.Fence, d.Token.Lane}
		if over[r] {
			continue
		}
		s := store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack}
		done := all
		if !all && mirror.IsCopy(&d.Message) {
			if done, err = t.done(ctx, d, c); err != nil {
				return nil, 0, err
			}
		}
		if !done || !mirror.IsCopy(&d.Message) {
			s.Verdict, s.After = store.Release, shadowAgain
			s.Failure = store.Failure{Error: "looked at: the old store is not done with its original, or it is no copy"}
			over[r] = true
		} else {
			acked++
		}
		items = append(items, s)
	}
	return items, acked, nil
}

// done reports whether the old store is done with the original of a copy, and compares the
// two if it still knows.
func (t *Traffic) done(ctx context.Context, d *pawl.Delivery, c *Comparison) (bool, error) {
	original, err := t.look.Get(ctx, d.ID)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	if err != nil || original.State != store.Acked && original.State != store.IsDead {
		return false, err
	}
	c.Known++
	if digest(&original.Message) != digest(&d.Message) {
		c.Different++
	}
	return true, nil
}

// clear removes what copies it can from the new store: those that can be claimed, and, where
// messages can be cancelled, those that are not due. What it leaves, no worker is given.
func (t *Traffic) clear(ctx context.Context, p *mirror.Plan) error {
	var c Comparison
	if err := t.shadow(ctx, p, &c, true); err != nil {
		return err
	}
	look, ok := store.As[store.Inspector](t.To, store.CanLookup)
	if !ok {
		return nil
	}
	var ids []string
	for r, err := range look.List(ctx, store.Filter{Topic: p.Topic, State: store.Delayed, Limit: store.MaxBatch}) {
		if err != nil {
			return err
		}
		if mirror.IsCopy(&r.Message) {
			ids = append(ids, r.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	_, err := look.Cancel(ctx, ids...) // what is refused is due now
	return err
}

// originals counts the messages of the new store that are no copies.
func (t *Traffic) originals(ctx context.Context, p *mirror.Plan) (int64, error) {
	_, n, err := t.read(ctx, t.To, t.to, p.Topic, func(r *store.Record) bool { return mirror.IsCopy(&r.Message) })
	return n, err
}
