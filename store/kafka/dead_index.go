package kafka

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/fingerprint"
	"github.com/pawl-dev/pawl/store"
)

// deadIndex is the dead letters. Those of a topic are in a topic of their own, a log
// like any other: a letter is a record, a letter that was changed is a later record
// about the same message, and a letter that was replayed or purged is taken back by
// another. The current letters are kept in memory, without bodies, from the first use
// on; the log is read once, and followed from then on.
type deadIndex struct {
	s  *Store
	mu sync.Mutex
	by map[string]*topicIndex // by topic
}

// topicIndex is the dead letters of a topic.
type topicIndex struct {
	s     *Store
	topic string
	tail  *tail

	// Guarded by the tail's mu.
	letters map[string]*deadEntry
	keys    map[string]int  // letters by key
	starts  map[int32]int64 // of the log, as far as letters before it are forgotten
	order   int64
}

type place64 struct {
	partition int32
	offset    int64
}

// deadEntry is a letter without its body.
type deadEntry struct {
	store.Record        // brief
	home         string // topic of whose dead letters it is one
	at           place64
	size         int
	order        int64
	cameAt       time.Time // when it was written
	imported     bool
}

// headerGone marks a record that removes a letter: the letter's partition and offset,
// as JSON.
const headerGone = "pawl-gone"

type departure struct {
	ID     string `json:"id"`
	Offset int64  `json:"offset"` // in the same partition
	Why    string `json:"why"`
}

func (x *deadIndex) init(s *Store) { x.s, x.by = s, map[string]*topicIndex{} }

func (x *deadIndex) of(topic string) *topicIndex {
	x.mu.Lock()
	defer x.mu.Unlock()
	g := x.by[topic]
	if g == nil {
		g = &topicIndex{s: x.s, topic: topic, letters: map[string]*deadEntry{}, keys: map[string]int{},
			starts: map[int32]int64{}}
		g.tail = newTail(x.s, x.s.wire(x.s.cfg.deadName(topic)), g.apply, g.clear)
		x.by[topic] = g
	}
	return g
}

// topics returns the names of topics that have a topic of dead letters.
func (x *deadIndex) topics(ctx context.Context, only string) ([]string, error) {
	if only != "" {
		return []string{only}, nil
	}
	details, err := x.s.admin.ListTopics(ctx)
	if err != nil {
		return nil, x.s.explain("list dead letters", err)
	}
	var names []string
	for wire, t := range details {
		name, ok := x.s.cfg.deadHome(x.s.plain(wire))
		if ok && t.Err == nil && strings.HasPrefix(wire, x.s.cfg.Prefix) {
			names = append(names, name)
		}
	}
	for _, wire := range x.s.topics.names() { // one just created may not be listed yet
		name, ok := x.s.cfg.deadHome(x.s.plain(wire))
		if ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (x *deadIndex) count(ctx context.Context, topic string) (int64, error) {
	g := x.of(topic)
	if err := g.tail.follow(ctx); err != nil {
		return 0, err
	}
	g.tail.mu.Lock()
	defer g.tail.mu.Unlock()
	return int64(len(g.letters)), nil
}

// catchUp reads what was just written: lanes that wait for it continue, and after it
// returns without an error every reader sees it. It fails with errAborted if they are not
// there.
func (x *deadIndex) catchUp(ctx context.Context, records []*kgo.Record) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), transactionTimeout)
	defer cancel()
	ends := map[string]map[int32]int64{}
	for _, r := range records {
		name, ok := x.s.cfg.deadHome(x.s.plain(r.Topic))
		if !ok {
			continue
		}
		if ends[name] == nil {
			ends[name] = map[int32]int64{}
		}
		ends[name][r.Partition] = max(ends[name][r.Partition], r.Offset+1)
	}
	for name, parts := range ends {
		t := x.of(name).tail
		if err := t.follow(ctx); err != nil {
			return err
		}
		for p, end := range parts {
			if err := t.reach(ctx, t.reading(), p, end); err != nil {
				return err
			}
		}
	}
	for _, r := range records {
		if name, ok := x.s.cfg.deadHome(x.s.plain(r.Topic)); ok && !x.of(name).shows(r) {
			return errAborted
		}
	}
	return nil
}

// shows reports whether a record that was written and read past is in the copy: its letter, or
// a later one of the message; or that the letter that it takes back is gone.
func (t *topicIndex) shows(r *kgo.Record) bool {
	t.tail.mu.Lock()
	defer t.tail.mu.Unlock()
	if rec, _, ok := t.s.readLetter(r); ok {
		now := t.letters[rec.ID]
		return now != nil && (now.at.partition != r.Partition || now.at.offset >= r.Offset)
	}
	return t.departed(r) == nil
}

// departed returns the letter that a record takes back, if it is still there. The caller holds
// the tail's mu.
func (t *topicIndex) departed(r *kgo.Record) *deadEntry {
	text, _ := header(r, headerGone)
	var d departure
	_ = json.Unmarshal([]byte(text), &d) // damaged, or none: no letter has no id
	if old := t.letters[d.ID]; old != nil && old.at == (place64{r.Partition, d.Offset}) {
		return old
	}
	return nil
}

func (t *topicIndex) apply(r *kgo.Record) {
	if r.Offset < t.starts[r.Partition] {
		return // it was fetched before retention took it
	}
	rec, l, ok := t.s.readLetter(r)
	if !ok { // a record that removes a letter is not a letter; but the message of a letter may have such a header
		if old := t.departed(r); old != nil {
			t.remove(old)
		}
		return
	}
	size := rec.Size()
	(&store.DeadFilter{Brief: true}).Shorten(&rec)
	next := &deadEntry{Record: rec, home: t.topic, at: place64{r.Partition, r.Offset}, size: size, cameAt: r.Timestamp,
		imported: l.Source == sourceImported}
	t.order++
	next.order = t.order
	if old := t.letters[rec.ID]; old != nil {
		if l.Amended {
			next.order, next.cameAt = old.order, old.cameAt
		}
		t.remove(old)
	}
	t.letters[rec.ID] = next
	if rec.Key != nil {
		t.keys[string(rec.Key)]++
		t.s.engine.countDead(t.topic, string(rec.Key), t.keys[string(rec.Key)])
	}
}

// clear forgets all letters: their topic is gone.
func (t *topicIndex) clear() {
	for key := range t.keys {
		t.s.engine.countDead(t.topic, key, 0)
	}
	clear(t.letters)
	clear(t.keys)
	clear(t.starts)
}

func (t *topicIndex) remove(old *deadEntry) {
	delete(t.letters, old.ID)
	if old.Key == nil {
		return
	}
	key := string(old.Key)
	if t.keys[key]--; t.keys[key] <= 0 {
		delete(t.keys, key)
	}
	t.s.engine.countDead(t.topic, key, t.keys[key])
}

// sourceImported is the source of letters of messages that died elsewhere. The word is in
// stored records.
const sourceImported = "buried"

// readLetter converts a record of the log of dead letters to a dead letter of the
// contract; false if it is not one.
func (s *letters) readLetter(r *kgo.Record) (store.Record, letter, bool) {
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
	if l.Offset >= 0 && l.Source != sourceImported {
		rec.Origin = &store.Origin{
			Topic: l.Topic, Partition: l.Partition, Offset: l.Offset, Timestamp: l.Timestamp, Client: l.Client,
			Group: l.Group,
		}
	}
	if rec.Fingerprint == "" {
		rec.Fingerprint = fingerprint.Of(rec.Kind, rec.Reason)
	}
	return rec, l, true
}

func (t *topicIndex) selected(f *store.DeadFilter) []deadEntry {
	brief := *f
	brief.Text, brief.Attrs = "", nil // what has them may be in the body, or the history
	t.tail.mu.Lock()
	defer t.tail.mu.Unlock()
	var found []deadEntry
	for _, gr := range t.letters {
		if brief.Matches(&gr.Record) {
			found = append(found, *gr)
		}
	}
	return found
}

// inOrder sorts letters: the oldest death first, then those that were imported as
// they came.
func inOrder(all []deadEntry) {
	slices.SortFunc(all, func(a, b deadEntry) int {
		when := func(g *deadEntry) time.Time {
			if g.imported {
				return g.cameAt
			}
			return g.DeadAt
		}
		return cmp.Or(when(&a).Compare(when(&b)), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.order, b.order))
	})
}

// expireEvery is between looks at what retention has taken of the logs of dead
// letters. Brokers look every five minutes themselves.
const expireEvery = time.Minute

// expireLoop forgets letters as the brokers do.
func (x *deadIndex) expireLoop() {
	for store.Sleep(x.s.ctx, expireEvery) == nil {
		ctx, cancel := context.WithTimeout(x.s.ctx, expireEvery)
		if err := x.expire(ctx); err != nil {
			x.s.cfg.Logger.Debug("it is not known which dead letters retention has taken", "error", err)
		}
		cancel()
	}
}

// expire forgets letters that stand before the start of their log. A reader of a log
// learns where it starts only when a new record comes, so the brokers are asked, for
// all topics at once.
func (x *deadIndex) expire(ctx context.Context) error {
	var names []string
	read := map[*topicIndex]kadm.TopicID{}
	x.mu.Lock()
	all := slices.Collect(maps.Values(x.by))
	x.mu.Unlock()
	for _, g := range all { // a topic that is just being opened delays only this loop
		if g.tail.started() {
			names, read[g] = append(names, g.tail.topic), g.tail.reading()
		}
	}
	if len(names) == 0 {
		return nil
	}
	starts, err := x.s.admin.ListStartOffsets(ctx, names...)
	for g, id := range read {
		g.expire(id, starts[g.tail.topic])
	}
	return x.s.explain("forget dead letters", err)
}

// expire forgets letters before the starts of the topic with that id.
func (t *topicIndex) expire(id kadm.TopicID, starts map[int32]kadm.ListedOffset) {
	t.tail.mu.Lock()
	defer t.tail.mu.Unlock()
	if t.tail.id != id {
		return // it was made again meanwhile: its letters are others
	}
	moved := false
	for p, o := range starts {
		if o.Err == nil && o.Offset > t.starts[p] {
			t.starts[p], moved = o.Offset, true
		}
	}
	if !moved {
		return
	}
	for _, gr := range t.letters {
		if gr.at.offset < t.starts[gr.at.partition] {
			t.remove(gr)
		}
	}
}
