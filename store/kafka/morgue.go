package kafka

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/fingerprint"
	"github.com/pawl-dev/pawl/store"
)

// morgue is the dead letters. Those of a topic are in a topic of their own, a log
// like any other: a letter is a record, a letter that was changed is a later record
// about the same message, and a letter that was replayed or purged is taken back by
// another. What of that counts is kept in memory, without bodies, from when
// somebody first asks; the log is read once, and followed from then on.
type morgue struct {
	s  *Store
	mu sync.Mutex
	by map[string]*graveyard // by topic
}

// graveyard is the dead letters of a topic.
type graveyard struct {
	s     *Store
	topic string
	tail  *tail

	// Guarded by the tail's mu.
	letters map[string]*grave
	places  map[place64]*grave
	keys    map[string]int  // letters by key
	starts  map[int32]int64 // of the log, as far as letters before it are forgotten
	order   int64
}

type place64 struct {
	partition int32
	offset    int64
}

// grave is a letter without its body.
type grave struct {
	store.Record        // brief
	home         string // topic of whose dead letters it is one
	at           place64
	size         int
	order        int64
	cameAt       time.Time // when it was written
	buried       bool
}

// headerGone marks a record that takes a letter back: partition and offset of it,
// as JSON.
const headerGone = "pawl-gone"

type departure struct {
	ID     string `json:"id"`
	Offset int64  `json:"offset"` // in the same partition
	Why    string `json:"why"`
}

func (m *morgue) init(s *Store) { m.s, m.by = s, map[string]*graveyard{} }

// of returns the letters of a topic.
func (m *morgue) of(topic string) *graveyard {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.by[topic]
	if g == nil {
		g = &graveyard{s: m.s, topic: topic, letters: map[string]*grave{}, places: map[place64]*grave{}, keys: map[string]int{}, starts: map[int32]int64{}}
		g.tail = newTail(m.s, m.s.wire(topic)+m.s.cfg.DeadSuffix, g.apply, g.clear)
		m.by[topic] = g
	}
	return g
}

// topics returns the names of topics that have a topic of dead letters.
func (m *morgue) topics(ctx context.Context, only string) ([]string, error) {
	if only != "" {
		return []string{only}, nil
	}
	details, err := m.s.admin.ListTopics(ctx)
	if err != nil {
		return nil, m.s.explain("list dead letters", err)
	}
	var names []string
	for wire, t := range details {
		name, ok := strings.CutSuffix(m.s.plain(wire), m.s.cfg.DeadSuffix)
		if ok && t.Err == nil && strings.HasPrefix(wire, m.s.cfg.Prefix) {
			names = append(names, name)
		}
	}
	for _, wire := range m.s.topics.names() { // one just made may not be told of yet
		name, ok := strings.CutSuffix(m.s.plain(wire), m.s.cfg.DeadSuffix)
		if ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// count is how many letters a topic has.
func (m *morgue) count(ctx context.Context, topic string) (int64, error) {
	g := m.of(topic)
	if err := g.tail.follow(ctx); err != nil {
		return 0, err
	}
	g.tail.mu.Lock()
	defer g.tail.mu.Unlock()
	return int64(len(g.letters)), nil
}

// catchUp reads what was just written: lanes that wait for it go on, and when it
// returns without error everybody who reads is shown it.
func (m *morgue) catchUp(ctx context.Context, records []*kgo.Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), transactionTimeout)
	defer cancel()
	ends := map[string]map[int32]int64{}
	for _, r := range records {
		name, ok := strings.CutSuffix(m.s.plain(r.Topic), m.s.cfg.DeadSuffix)
		if !ok {
			continue
		}
		if ends[name] == nil {
			ends[name] = map[int32]int64{}
		}
		ends[name][r.Partition] = max(ends[name][r.Partition], r.Offset+1)
	}
	for name, parts := range ends {
		t := m.of(name).tail
		if err := t.follow(ctx); err != nil {
			return err
		}
		for p, end := range parts {
			if err := t.reach(ctx, t.reading(), p, end); err != nil {
				return err
			}
		}
	}
	return nil
}

// apply takes in a record of the log.
func (g *graveyard) apply(r *kgo.Record) {
	if r.Offset < g.starts[r.Partition] {
		return // it was fetched before retention took it
	}
	rec, l, ok := g.s.readLetter(r)
	if !ok { // what takes a letter back is none: a letter may be of a message with such a header
		if text, gone := header(r, headerGone); gone {
			var d departure
			if json.Unmarshal([]byte(text), &d) == nil {
				g.remove(g.places[place64{r.Partition, d.Offset}])
			}
		}
		return
	}
	size := rec.Size()
	(&store.DeadFilter{Brief: true}).Shorten(&rec)
	next := &grave{Record: rec, home: g.topic, at: place64{r.Partition, r.Offset}, size: size, cameAt: r.Timestamp, buried: l.Source == sourceBuried}
	g.order++
	next.order = g.order
	if old := g.letters[rec.ID]; old != nil {
		if l.Amended {
			next.order, next.cameAt = old.order, old.cameAt
		}
		g.remove(old)
	}
	g.letters[rec.ID], g.places[next.at] = next, next
	if rec.Key != nil {
		g.keys[string(rec.Key)]++
		g.s.engine.mourn(g.topic, string(rec.Key), g.keys[string(rec.Key)])
	}
}

// clear forgets all letters: their topic is gone.
func (g *graveyard) clear() {
	for key := range g.keys {
		g.s.engine.mourn(g.topic, key, 0)
	}
	clear(g.letters)
	clear(g.places)
	clear(g.keys)
	clear(g.starts)
}

func (g *graveyard) remove(old *grave) {
	if old == nil {
		return
	}
	delete(g.places, old.at)
	if g.letters[old.ID] == old {
		delete(g.letters, old.ID)
	}
	if old.Key == nil {
		return
	}
	key := string(old.Key)
	if g.keys[key]--; g.keys[key] <= 0 {
		delete(g.keys, key)
	}
	g.s.engine.mourn(g.topic, key, g.keys[key])
}

// sourceBuried is the source of letters that did not die here.
const sourceBuried = "buried"

// readLetter makes a record of the log of dead letters what the contract calls one;
// false if it is none.
func (s *Store) readLetter(r *kgo.Record) (store.Record, letter, bool) {
	var l letter
	text, ok := header(r, headerDead)
	if !ok || json.Unmarshal([]byte(text), &l) != nil || l.ID == "" {
		return store.Record{}, l, false
	}
	own := r.Headers
	for i := range own {
		if own[i].Key == headerDead {
			own = own[:i]
			break
		}
	}
	rec := store.Record{
		Message: pawl.Message{Topic: l.Topic, Key: r.Key, Body: r.Value}, State: store.IsDead,
		Attempts: l.Attempts, Rescues: l.Rescues, Lonely: l.Lonely, EnqueuedAt: l.Timestamp, History: l.History,
		Reason: l.Reason, DeadAt: l.DeadAt, Kind: pawl.Kind(l.Kind), Fingerprint: l.Fingerprint, Rank: l.Rank,
	}
	rec.Replays = readHeaders(&rec.Message, own)
	rec.ID = l.ID
	if l.Unique != nil {
		rec.Unique = *l.Unique
	}
	if rec.Fingerprint == "" {
		rec.Fingerprint = fingerprint.Of(rec.Kind, rec.Reason)
	}
	return rec, l, true
}

// selected returns the letters that f may select, in the order of the listing, and
// what of f has to be looked for in the letters themselves.
func (g *graveyard) selected(f *store.DeadFilter) []grave {
	brief := *f
	brief.Text = "" // what has it may be in the body
	g.tail.mu.Lock()
	defer g.tail.mu.Unlock()
	var found []grave
	for _, gr := range g.letters {
		if brief.Matches(&gr.Record) {
			found = append(found, *gr)
		}
	}
	return found
}

// inOrder sorts letters: the oldest death first, then those that were buried as
// they came.
func inOrder(all []grave) {
	slices.SortFunc(all, func(a, b grave) int {
		when := func(g *grave) time.Time {
			if g.buried {
				return g.cameAt
			}
			return g.DeadAt
		}
		return cmp.Or(when(&a).Compare(when(&b)), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.order, b.order))
	})
}
