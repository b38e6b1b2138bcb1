package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/store"
)

// Bounds of a plan: what it names one by one.
const (
	planKeys    = 100
	planTracked = 100_000
)

// Plan says what a replay or discard of dead letters is about. It is JSON.
type Plan struct {
	Count     int64        `json:"count"`
	Topics    []TopicCount `json:"topics"`
	Keys      int          `json:"keys"`    // different ones; counted up to 100,000
	PerKey    []KeyCount   `json:"per_key"` // those with the most, at most 100
	Oldest    *OldestDead  `json:"oldest"`
	Warnings  []string     `json:"warnings"`
	latest    time.Time    // the last death, by the store's clock
	perKey    map[laneKey]int64
	perTopic  map[string]int64
	untracked bool
}

// TopicCount is how many dead letters a topic has.
type TopicCount struct {
	Topic string `json:"topic"`
	Count int64  `json:"count"`
}

// KeyCount is how many dead letters a key has.
type KeyCount struct {
	Topic string `json:"topic"`
	Key   string `json:"key"` // quoted where it is no text
	Count int64  `json:"count"`
}

// OldestDead is the dead letter that died first.
type OldestDead struct {
	ID     string    `json:"id"`
	Topic  string    `json:"topic"`
	DeadAt time.Time `json:"dead_at"`
	Reason string    `json:"reason"`
}

type laneKey struct{ topic, key string }

// Selection is dead letters by filter or, if there are any, by id.
type Selection struct {
	Filter store.DeadFilter
	IDs    []string
}

// MakePlan looks at what a selection is about. Ids that are no dead letters are
// left for the operation to refuse.
func MakePlan(ctx context.Context, s store.Store, d store.DeadLetters, sel Selection, to string) (*Plan, error) {
	p := &Plan{PerKey: []KeyCount{}, Topics: []TopicCount{}, Warnings: []string{}, perKey: map[laneKey]int64{}, perTopic: map[string]int64{}}
	add := func(r *store.Record, err error) error {
		if err == nil {
			p.add(r)
		}
		return err
	}
	var err error
	if len(sel.IDs) > 0 {
		err = eachID(ctx, s, sel.IDs, add)
	} else {
		for r, failed := range d.Dead(ctx, sel.Filter) {
			if err = add(&r, failed); err != nil {
				break
			}
		}
	}
	if err != nil {
		return nil, err
	}
	p.finish()
	return p, p.warn(ctx, s, to)
}

func eachID(ctx context.Context, s store.Store, ids []string, add func(*store.Record, error) error) error {
	i, ok := store.As[store.Inspector](s)
	if !ok {
		return &store.Error{Op: "look at messages", Code: store.ErrUnsupported}
	}
	for _, id := range ids {
		r, err := i.Get(ctx, id)
		if errors.Is(err, store.ErrNotFound) || err == nil && r.State != store.IsDead {
			continue
		}
		if err := add(&r, err); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) add(r *store.Record) {
	if p.Count++; p.Oldest == nil || r.DeadAt.Before(p.Oldest.DeadAt) {
		p.Oldest = &OldestDead{r.ID, r.Topic, r.DeadAt.UTC(), r.Reason}
	}
	if r.DeadAt.After(p.latest) {
		p.latest = r.DeadAt
	}
	p.perTopic[r.Topic]++
	if r.Key == nil {
		return
	}
	k := laneKey{r.Topic, string(r.Key)}
	if _, known := p.perKey[k]; known || len(p.perKey) < planTracked {
		p.perKey[k]++
	} else {
		p.untracked = true
	}
}

// finish makes the lists.
func (p *Plan) finish() {
	for topic, n := range p.perTopic {
		p.Topics = append(p.Topics, TopicCount{topic, n})
	}
	slices.SortFunc(p.Topics, func(a, b TopicCount) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Topic, b.Topic)) })
	p.Keys = len(p.perKey)
	for k, n := range p.perKey {
		text := k.key
		if !utf8.ValidString(text) {
			text = fmt.Sprintf("%q", text)
		}
		p.PerKey = append(p.PerKey, KeyCount{k.topic, text, n})
	}
	slices.SortFunc(p.PerKey, func(a, b KeyCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Key, b.Key))
	})
	p.PerKey = p.PerKey[:min(len(p.PerKey), planKeys)]
}

// warn looks at what a replay would meet.
func (p *Plan) warn(ctx context.Context, s store.Store, to string) error {
	warn := func(what string, args ...any) { p.Warnings = append(p.Warnings, fmt.Sprintf(what, args...)) }
	if p.untracked {
		warn("there are more than %d keys; not all are counted", planTracked)
	}
	if len(p.PerKey) > 0 && p.PerKey[0].Count > 1 {
		warn("several dead letters have the same key: they are replayed in the order in which they died")
	}
	topics, ok := store.As[store.Topics](s)
	if !ok || p.Count == 0 {
		return nil
	}
	names := []string{to}
	if to == "" {
		names = names[:0]
		for _, t := range p.Topics {
			names = append(names, t.Topic)
		}
	}
	stats, err := topics.Stats(ctx, names...)
	if err != nil {
		return err
	}
	for i := range stats {
		t := &stats[i]
		if t.Paused != nil {
			warn("topic %s is paused by %s: nothing of it is carried out until it is resumed", t.Name, t.Paused.By)
		}
		if live := t.Waiting + t.Delayed + t.Leased; live > 0 && t.Order == store.OrderKey && p.Keys > 0 {
			warn("topic %s has %d messages: what is replayed joins the tail of its key, behind them", t.Name, live)
		}
	}
	if to != "" && len(stats) == 0 {
		warn("there is no topic %s yet; it is made with the usual settings", to)
	}
	return nil
}

// Operation carries out a plan: a replay or a discard.
type Operation struct {
	// Each does it to some ids, in one transaction, and returns what it refused.
	Each func(ctx context.Context, ids []string) (refused map[string]error, err error)
	// PerSecond bounds how many are done in a second; 0 does not.
	PerSecond float64
	// Progress, if not nil, is told how many were looked at.
	Progress func(n int64)
}

// chunk is how many dead letters are done in one transaction.
const chunk = 500

// Run does it to all that is selected, in the order in which they died. What
// dies meanwhile is not touched, so that a replay ends even if all fails again.
// It returns what is done, in any case, and what was refused, up to a thousand
// by id.
func (o *Operation) Run(ctx context.Context, d store.DeadLetters, sel Selection, p *Plan) (done, refusals int64, refused map[string]error, err error) {
	refused = map[string]error{}
	size := chunk
	if o.PerSecond > 0 {
		size = max(1, min(chunk, int(o.PerSecond/4)))
	}
	began := time.Now()
	each := func(ids []string) error {
		if err := o.wait(ctx, began, done+refusals); err != nil {
			return err
		}
		no, err := o.Each(ctx, ids)
		if err != nil {
			return err
		}
		done += int64(len(ids) - len(no))
		refusals += int64(len(no))
		for id, why := range no {
			if len(refused) < 1000 {
				refused[id] = why
			}
		}
		if o.Progress != nil {
			o.Progress(done + refusals)
		}
		return nil
	}
	if len(sel.IDs) > 0 {
		for ids := range slices.Chunk(sel.IDs, size) {
			if err := each(ids); err != nil {
				return done, refusals, refused, err
			}
		}
		return done, refusals, refused, nil
	}
	return done, refusals, refused, o.pages(ctx, d, sel.Filter, p, size, each)
}

// pages reads ids, never more than a chunk ahead of what is done.
func (o *Operation) pages(ctx context.Context, d store.DeadLetters, f store.DeadFilter, p *Plan, size int, each func([]string) error) error {
	if p.Count == 0 {
		return nil
	}
	if end := p.latest.Add(time.Microsecond); f.Until.IsZero() || end.Before(f.Until) {
		f.Until = end
	}
	var ids []string
	left := p.Count
	for r, err := range d.Dead(ctx, f) {
		if err != nil {
			return err
		}
		if ids = append(ids, r.ID); len(ids) == size || int64(len(ids)) == left {
			if err := each(ids); err != nil {
				return err
			}
			left -= int64(len(ids))
			ids = nil
		}
		if left == 0 {
			return nil
		}
	}
	if len(ids) > 0 {
		return each(ids)
	}
	return nil
}

// wait keeps to the rate, from the beginning on.
func (o *Operation) wait(ctx context.Context, began time.Time, n int64) error {
	if err := context.Cause(ctx); err != nil || o.PerSecond <= 0 {
		return err
	}
	due := began.Add(time.Duration(float64(n) / o.PerSecond * float64(time.Second)))
	timer := time.NewTimer(time.Until(due))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
