package kafka

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// letters are the dead letters, in topics of their own.
type letters struct {
	*core
	side      *side
	inspector *inspector
}

// Of a listing: how many letters are read at a time, and how many bytes.
const (
	pageCount = 1000
	pageBytes = 32 << 20
)

// Dead implements [store.DeadLetters].
func (s *letters) Dead(ctx context.Context, f store.DeadFilter) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		fail := func(err error) { yield(store.Record{}, err) }
		if err := s.usable(ctx, "list dead letters"); err != nil {
			fail(err)
			return
		}
		found, err := s.choose(ctx, &f)
		if err != nil {
			fail(err)
			return
		}
		for n := 0; len(found) > 0; {
			most := pageCount
			if f.Limit > 0 && !f.Searches() {
				most = min(most, f.Limit-n)
			}
			page := firstPage(found, most)
			found = found[len(page):]
			records, err := s.open(ctx, page, f.Brief && !f.Searches())
			if err != nil {
				fail(err)
				return
			}
			for i := range records {
				r := &records[i]
				if r.ID == "" || !f.MatchesText(r) {
					continue
				}
				f.Shorten(r)
				if n++; !yield(*r, nil) || n == f.Limit {
					return
				}
			}
		}
	}
}

// choose returns the letters that f may select, without bodies, in order.
func (s *letters) choose(ctx context.Context, f *store.DeadFilter) ([]deadEntry, error) {
	topics, err := s.dead.topics(ctx, f.Topic)
	if err != nil {
		return nil, err
	}
	var found []deadEntry
	for _, name := range topics {
		g := s.dead.of(name)
		if err := g.tail.follow(ctx); err != nil {
			return nil, err
		}
		found = append(found, g.selected(f)...)
	}
	inOrder(found)
	return found, nil
}

// firstPage is what is read at a time: so many letters at most, and at least one.
func firstPage(all []deadEntry, most int) []deadEntry {
	n, size := 0, 0
	for n < len(all) && n < most && (n == 0 || size+all[n].size <= pageBytes) {
		size += all[n].size
		n++
	}
	return all[:n]
}

// open returns letters with everything that is in them. One that is gone since,
// with the retention of its topic, comes as the zero record.
func (s *letters) open(ctx context.Context, letters []deadEntry, brief bool) ([]store.Record, error) {
	records := make([]store.Record, len(letters))
	if brief {
		for i := range letters {
			records[i] = letters[i].Record
		}
		return records, nil
	}
	opened, err := s.readLetters(ctx, letters)
	for i := range opened {
		records[i] = opened[i].rec
	}
	return records, err
}

// openLetter is a letter with all that is in it.
type openLetter struct {
	raw *kgo.Record // nil: it is not there any more
	rec store.Record
	letter
}

func (s *letters) readLetters(ctx context.Context, letters []deadEntry) ([]openLetter, error) {
	opened := make([]openLetter, len(letters))
	raw := make([]*kgo.Record, len(letters))
	byTopic := map[string]map[place64]int{}
	for i := range letters {
		t := letters[i].home
		if byTopic[t] == nil {
			byTopic[t] = map[place64]int{}
		}
		byTopic[t][letters[i].at] = i
	}
	for topic, places := range byTopic {
		if err := s.readPlaces(ctx, s.wire(s.cfg.deadName(topic)), places, raw); err != nil {
			return nil, err
		}
	}
	for i, r := range raw {
		if r == nil {
			continue
		}
		if rec, l, ok := s.readLetter(r); ok && rec.ID == letters[i].ID { // or the topic was made again since
			opened[i] = openLetter{r, rec, l}
		}
	}
	return opened, nil
}

// readPlaces reads the records of a topic at certain places. It leaves out what is
// outside of the log, which nobody can wait for: retention has taken it, or the topic
// was made again.
func (s *letters) readPlaces(ctx context.Context, wire string, places map[place64]int, into []*kgo.Record) error {
	starts, ends, err := s.bounds(ctx, "read "+wire, wire)
	if err != nil {
		return err
	}
	spans := map[int32]span{}
	for at := range places {
		start, ok := starts[at.partition]
		if !ok || at.offset < start || at.offset >= ends[at.partition] {
			continue
		}
		part, ok := spans[at.partition]
		if !ok {
			part.from = at.offset
		}
		spans[at.partition] = span{min(part.from, at.offset), max(part.to, at.offset+1)}
	}
	return s.inspector.read(ctx, wire, spans, func(r *kgo.Record) bool {
		if i, ok := places[place64{r.Partition, r.Offset}]; ok {
			into[i] = r
		}
		return true
	})
}

// find returns letters by id, and which ids are none.
func (s *letters) find(ctx context.Context, op string, ids []string) (found []deadEntry, refused map[string]error,
	err error) {
	if err := s.usable(ctx, op); err != nil {
		return nil, nil, err
	}
	topics, err := s.dead.topics(ctx, "")
	if err != nil {
		return nil, nil, err
	}
	refused = map[string]error{}
	for _, name := range topics {
		if err := s.dead.of(name).tail.follow(ctx); err != nil {
			return nil, nil, err
		}
	}
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		if g, ok := s.dead.find(topics, id); ok {
			found = append(found, g)
		} else {
			refused[id] = &store.Error{Op: op + " " + id, Code: store.ErrNotFound}
		}
	}
	return found, refused, nil
}

func (x *deadIndex) find(topics []string, id string) (deadEntry, bool) {
	for _, name := range topics {
		g := x.of(name)
		g.tail.mu.Lock()
		gr := g.letters[id]
		g.tail.mu.Unlock()
		if gr != nil {
			return *gr, true
		}
	}
	return deadEntry{}, false
}

// Replay implements [store.DeadLetters]. The messages and what takes their letters
// back are one transaction of the brokers.
func (s *letters) Replay(ctx context.Context, topic string, ids ...string) (map[string]error, error) {
	if topic != "" {
		if err := pawl.ValidTopic(topic); err != nil {
			return nil, err
		}
		if err := s.free("replay to "+topic, topic); err != nil {
			return nil, err
		}
	}
	var refused map[string]error
	err := s.registrar.change(ctx, "replay", func() (records []*kgo.Record, err error) {
		var found []deadEntry
		if found, refused, err = s.find(ctx, "replay", ids); err != nil {
			return nil, err
		}
		return s.replays(ctx, found, topic, refused)
	})
	return refused, err
}

// replays are the records that bring letters back into a topic.
func (s *letters) replays(ctx context.Context, found []deadEntry, topic string,
	refused map[string]error) (records []*kgo.Record, err error) {
	opened, err := s.readLetters(ctx, found)
	if err != nil {
		return nil, err
	}
	replay, topics := pawl.NewID(), map[string]bool{}
	for i := range found {
		if opened[i].raw == nil {
			refused[found[i].ID] = &store.Error{Op: "replay " + found[i].ID, Code: store.ErrNotFound,
				Err: errors.New("its body is gone, with the retention of the topic of dead letters")}
			continue
		}
		r := s.replayed(&opened[i], topic, replay)
		if err := s.free("replay "+found[i].ID, s.plain(r.Topic)); err != nil { // as its letter says
			refused[found[i].ID] = err
			continue
		}
		topics[r.Topic] = true
		records = append(records, r, s.gone(&found[i], "replayed"))
	}
	return records, s.topics.ensure(ctx, topics)
}

// replayed is the record of a letter's message, to be carried out again: in the partition
// where it was, among the others of its key, whatever partitioner its producer uses.
func (s *letters) replayed(o *openLetter, topic, replay string) *kgo.Record {
	raw, rec := o.raw, &o.rec
	if topic == "" {
		topic = rec.Topic
	}
	r := &kgo.Record{Topic: s.wire(topic), Key: raw.Key, Value: raw.Value, Timestamp: s.cfg.Now()}
	if o := rec.Origin; o != nil && o.Topic == topic {
		r.Context = context.WithValue(context.Background(), homeKey{}, o.Partition)
	}
	hasID := false
	for _, h := range raw.Headers {
		if h.Key == headerDead {
			break
		}
		switch h.Key {
		case headerReplays, headerReplay, headerHistory, headerReplayed:
			continue
		case headerID:
			hasID = true
		}
		r.Headers = append(r.Headers, h)
	}
	if !hasID {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headerID, Value: []byte(rec.ID)})
	}
	history, _ := json.Marshal(rec.History) // plain values
	r.Headers = append(r.Headers,
		kgo.RecordHeader{Key: headerReplays, Value: strconv.AppendInt(nil, int64(rec.Replays+1), 10)},
		kgo.RecordHeader{Key: headerReplay, Value: []byte(replay)},
		kgo.RecordHeader{Key: headerHistory, Value: history},
		kgo.RecordHeader{Key: headerReplayed, Value: []byte("true")},
	)
	return r
}

// gone is the record that takes a letter back.
func (s *letters) gone(g *deadEntry, why string) *kgo.Record {
	text, _ := json.Marshal(departure{ID: g.ID, Offset: g.at.offset, Why: why}) // plain values
	return &kgo.Record{
		Topic: s.wire(s.cfg.deadName(g.home)), Partition: g.at.partition, Key: g.Key, Timestamp: s.cfg.Now(),
		Headers: []kgo.RecordHeader{{Key: headerGone, Value: text}},
	}
}

// Purge implements [store.DeadLetters].
func (s *letters) Purge(ctx context.Context, ids ...string) (map[string]error, error) {
	var refused map[string]error
	err := s.registrar.change(ctx, "purge", func() (records []*kgo.Record, err error) {
		var found []deadEntry
		found, refused, err = s.find(ctx, "purge", ids)
		for i := range found {
			records = append(records, s.gone(&found[i], "purged"))
		}
		return records, err
	})
	return refused, err
}

// Edit implements [store.DeadLetters].
func (s *letters) Edit(ctx context.Context, edits ...store.Edit) (map[string]error, error) {
	refused, err := backend.AdmitEdit(edits)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, a := range edits {
		if refused[a.ID] == nil {
			ids = append(ids, a.ID)
		}
	}
	err = s.registrar.change(ctx, "edit", func() ([]*kgo.Record, error) {
		found, none, err := s.find(ctx, "edit", ids)
		if err != nil {
			return nil, err
		}
		maps.Copy(refused, none)
		return s.edited(ctx, found, edits, refused)
	})
	return refused, err
}

// edited are the records of letters that are changed.
func (s *letters) edited(ctx context.Context, found []deadEntry, edits []store.Edit,
	refused map[string]error) (records []*kgo.Record, err error) {
	opened, err := s.readLetters(ctx, found)
	if err != nil {
		return nil, err
	}
	for i := range found {
		rec, l := &opened[i].rec, &opened[i].letter
		if opened[i].raw == nil {
			refused[found[i].ID] = &store.Error{Op: "edit " + found[i].ID, Code: store.ErrNotFound}
			continue
		}
		for j := range edits {
			if a := &edits[j]; a.ID == rec.ID && refused[a.ID] == nil {
				if err := a.Apply(&rec.Message); err != nil {
					refused[a.ID] = err
				}
			}
		}
		if refused[rec.ID] == nil {
			l.Amended = true
			records = append(records, s.rewritten(&found[i], rec, l))
		}
	}
	return records, nil
}

// rewritten is the record of a letter that was changed. Headers that only the log
// knows, as those of other producers that are not text, do not outlast it.
func (s *letters) rewritten(g *deadEntry, rec *store.Record, l *letter) *kgo.Record {
	r := s.recordOf(&rec.Message, rec.ID, time.Time{})
	if rec.Replays > 0 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headerReplays,
			Value: strconv.AppendInt(nil, int64(rec.Replays), 10)})
	}
	out := s.letterRecord(s.wire(s.cfg.deadName(g.home)), r, l)
	out.Partition = g.at.partition
	return out
}

// Import implements [store.DeadLetters]. Ids are compared with those of dead letters
// only.
func (s *letters) Import(ctx context.Context, letters ...store.Record) (map[string]error, error) {
	fit, refused, err := backend.AdmitImport(letters)
	if err != nil {
		return nil, err
	}
	if err := s.usable(ctx, "import"); err != nil {
		return nil, err
	}
	fit = slices.DeleteFunc(fit, func(r store.Record) bool {
		err := s.free("import "+r.ID, r.Topic)
		if err != nil {
			refused[r.ID] = err
		}
		return err != nil
	})
	topics, ids := map[string]bool{}, make([]string, len(fit))
	for i := range fit {
		topics[s.wire(fit[i].Topic)], ids[i] = true, fit[i].ID
	}
	if err := s.topics.ensure(ctx, topics); err != nil {
		return nil, err
	}
	err = s.registrar.change(ctx, "import", func() (records []*kgo.Record, err error) {
		there, _, err := s.find(ctx, "import", ids)
		if err != nil {
			return nil, err
		}
		for i := range there {
			refused[there[i].ID] = backend.ImportConflict(there[i].ID)
		}
		for i := range fit {
			if refused[fit[i].ID] == nil {
				r, err := s.importedRecord(ctx, &fit[i])
				if err != nil {
					return nil, err
				}
				records = append(records, r)
			}
		}
		return records, nil
	})
	return refused, err
}

// importedRecord is the record of a letter that is brought from elsewhere.
func (s *letters) importedRecord(ctx context.Context, r *store.Record) (*kgo.Record, error) {
	name, err := s.topics.ensureDead(ctx, s.wire(r.Topic))
	if err != nil {
		return nil, err
	}
	l := letter{
		Envelope: envelope, ID: r.ID, Topic: r.Topic, Partition: s.partitionOf(name, r.Key), Offset: -1,
		Timestamp: r.EnqueuedAt,
		Kind:      string(r.Kind), Reason: r.Reason, Attempts: r.Attempts, Rescues: r.Rescues, Lonely: r.Lonely,
		FirstAt: r.DeadAt, DeadAt: r.DeadAt, Source: sourceImported, Client: s.cfg.ClientID, History: r.History,
		Fingerprint: r.Fingerprint, Rank: r.Rank,
	}
	if r.Unique.Key != "" {
		l.Unique = &r.Unique
	}
	return s.rewritten(&deadEntry{home: r.Topic, at: place64{partition: l.Partition}}, r, &l), nil
}

// partitionOf is the partition of a key in a topic.
func (s *letters) partitionOf(wire string, key []byte) int32 {
	t, _ := s.topics.known(wire)
	if t.partitions == 0 || key == nil {
		return 0
	}
	return int32(kgo.StickyKeyPartitioner(nil).ForTopic(wire).Partition(&kgo.Record{Key: key}, t.partitions))
}
