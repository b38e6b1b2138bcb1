package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Bounds of a plan: what it names one by one.
const (
	planKeys    = 100
	planTracked = 100_000
)

// Plan describes what a replay or discard of dead letters would affect. It is JSON.
type Plan struct {
	Count    int64        `json:"count"`
	Topics   []TopicCount `json:"topics"`
	Keys     int          `json:"keys"`    // different ones; counted up to 100,000
	PerKey   []KeyCount   `json:"per_key"` // those with the most, at most 100
	Oldest   *OldestDead  `json:"oldest"`
	Warnings []string     `json:"warnings"`
	// Edits are what --edit would make of the first few.
	Edits     []EditPreview `json:"edits,omitempty"`
	latest    time.Time     // the last death, by the store's clock
	missing   []string      // ids that are no dead letters
	perKey    map[laneKey]int64
	perTopic  map[string]int64
	untracked bool
}

// TopicCount is how many of what is selected a topic has.
type TopicCount struct {
	Topic string `json:"topic"`
	Count int64  `json:"count"`
}

// KeyCount is how many dead letters a key has.
type KeyCount struct {
	Topic string `json:"topic"`
	Key   string `json:"key"` // quoted where it is not a text
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
func MakePlan(ctx context.Context, s store.Store, d store.DeadLetters, sel Selection, kind, to string) (*Plan, error) {
	p := &Plan{PerKey: []KeyCount{}, Topics: []TopicCount{}, Warnings: []string{}, perKey: map[laneKey]int64{},
		perTopic: map[string]int64{}}
	add := func(r *store.Record, err error) error {
		if err == nil {
			p.add(r)
		}
		return err
	}
	var err error
	if len(sel.IDs) > 0 {
		p.missing, err = eachID(ctx, s, sel.IDs, add)
	} else {
		sel.Filter.Brief = true
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
	if kind != KindReplay {
		return p, nil // nothing comes back: there is nothing to mind
	}
	return p, p.warn(ctx, s, to)
}

// Missing are the ids of a selection that are no dead letters.
func (p *Plan) Missing() []string { return p.missing }

func eachID(ctx context.Context, s store.Store, ids []string, add func(*store.Record, error) error) (missing []string,
	err error) {
	i, ok := store.As[store.Inspector](s)
	if !ok {
		return nil, &store.Error{Op: "look at messages", Code: store.ErrUnsupported}
	}
	for _, id := range ids {
		r, err := i.Get(ctx, id)
		if errors.Is(err, store.ErrNotFound) || err == nil && r.State != store.IsDead {
			missing = append(missing, id)
			continue
		}
		if err := add(&r, err); err != nil {
			return nil, err
		}
	}
	return missing, nil
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
	slices.SortFunc(p.Topics, func(a, b TopicCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Topic, b.Topic))
	})
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
	if to != "" {
		if err := store.Fit(s, &pawl.Message{Topic: to}); err != nil {
			return err // every replay would be refused
		}
	}
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
			warn("topic %s is paused by %s: none of its messages is processed until it is resumed", t.Name, t.Paused.By)
		}
		if live := t.Waiting + t.Delayed + t.Leased; live > 0 && t.Order == store.OrderKey && p.Keys > 0 {
			warn("topic %s has %d messages: what is replayed joins the tail of its key, behind them", t.Name, live)
		}
	}
	if to != "" && len(stats) == 0 {
		warn("topic %s does not exist yet; it is created with the default settings", to)
	}
	return nil
}

// EditPreview is what an edit would make of a dead letter, as JSON.
type EditPreview struct {
	ID     string `json:"id"`
	Before string `json:"before"`
	After  string `json:"after"`
	Error  string `json:"error,omitempty"` // why it would be refused, and stay dead
}

const (
	previewed   = 5
	previewText = 64 << 10
)

// Preview runs an edit on the first few dead letters of a selection, and changes none.
func Preview(ctx context.Context, s store.Store, d store.DeadLetters, sel Selection,
	edit string) ([]EditPreview, error) {
	apply, err := ParsePatch(edit)
	if err != nil {
		return nil, err
	}
	all := []EditPreview{}
	try := func(r *store.Record, err error) error {
		if err != nil || len(all) == previewed {
			return err
		}
		p := EditPreview{ID: r.ID, Before: previewOf(r.Body)}
		if after, err := apply(ctx, r.Body); err != nil {
			p.Error = err.Error()
		} else {
			p.After = previewOf(after)
		}
		all = append(all, p)
		return nil
	}
	if len(sel.IDs) > 0 {
		_, err = eachID(ctx, s, sel.IDs[:min(len(sel.IDs), previewed)], try)
		return all, err
	}
	sel.Filter.Brief, sel.Filter.Limit = false, previewed
	for r, err := range d.Dead(ctx, sel.Filter) {
		if err := try(&r, err); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func previewOf(body []byte) string {
	if !utf8.Valid(body) {
		return "(no text)"
	}
	return string(body[:min(len(body), previewText)])
}
