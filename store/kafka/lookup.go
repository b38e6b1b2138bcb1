package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
)

// inspector finds messages by reading, and says how the store is.
type inspector struct {
	*core
	side     *side
	registry *registry
	letters  *letters
}

// A log has no index by id. A message is looked up by reading: an id made by this
// module contains its time, and so roughly where its record is; an id made from the
// place of a record contains that place; any other is looked for among unfinished
// messages. What other processes do with a message cannot be seen here, except what
// they have committed.
const (
	beforeID = 5 * time.Second  // a producer's clock may be off by that much
	afterID  = 10 * time.Minute // a message may be appended that long after its id was made
)

var (
	_ store.Store       = (*Store)(nil)
	_ store.Inspector   = (*Store)(nil)
	_ store.Topics      = (*Store)(nil)
	_ store.DeadLetters = (*Store)(nil)
	_ store.Shared      = (*Store)(nil)
	_ store.Waker       = (*Store)(nil)
	_ store.Describer   = (*Store)(nil)
)

// span is a part of a partition: what is before to, from an offset on.
type span struct{ from, to int64 }

// stretch is where to look in a partition.
type stretch struct {
	Lag
	span
}

// read is [Store.read] of a stretch.
func (st *stretch) read(ctx context.Context, s *inspector, visit func(*kgo.Record) bool) error {
	return s.read(ctx, s.wire(st.Topic), map[int32]span{st.Partition: st.span}, visit)
}

// Get implements [store.Inspector].
func (s *inspector) Get(ctx context.Context, id string) (store.Record, error) {
	found, _, err := s.letters.find(ctx, "get", []string{id})
	if err != nil {
		return store.Record{}, err
	}
	if len(found) > 0 {
		records, err := s.letters.open(ctx, found, false)
		if err == nil && records[0].ID != "" {
			return records[0], nil
		}
		return found[0].Record, err
	}
	stretches, until, err := s.whereabouts(ctx, id)
	if err != nil {
		return store.Record{}, err
	}
	for _, st := range stretches {
		var hit *store.Record
		err := st.read(ctx, s, func(r *kgo.Record) bool {
			if !until.IsZero() && r.Timestamp.After(until) {
				return false
			}
			if m := s.message(r); m.ID == id {
				rec := s.recordAt(&st.Lag, r)
				hit = &rec
			}
			return hit == nil
		})
		if err != nil {
			return store.Record{}, err
		}
		if hit != nil {
			return *hit, nil
		}
	}
	return store.Record{}, &store.Error{Op: "get " + id, Code: store.ErrNotFound}
}

// whereabouts is where a message of that id may be, and until when it was produced,
// if that is known.
func (s *inspector) whereabouts(ctx context.Context, id string) ([]stretch, time.Time, error) {
	if topic, partition, offset, ok := parsePlace(id); ok {
		all, err := s.unfinishedOf(ctx, topic)
		for _, st := range all {
			if st.Partition == partition {
				st.from, st.to = offset, min(offset+1, st.to)
				return []stretch{st}, time.Time{}, err
			}
		}
		return nil, time.Time{}, err
	}
	names, err := s.registry.listed(ctx, nil)
	if err != nil {
		return nil, time.Time{}, err
	}
	made, timed := timeOfID(id)
	var all []stretch
	for _, name := range names {
		some, err := s.unfinishedOf(ctx, name)
		if err != nil {
			return nil, time.Time{}, err
		}
		if timed {
			starts, err := s.admin.ListOffsetsAfterMilli(ctx, made.Add(-beforeID).UnixMilli(), s.wire(name))
			if err != nil {
				return nil, time.Time{}, s.explain("look up", err)
			}
			for i := range some {
				if o, ok := starts.Lookup(s.wire(name), some[i].Partition); ok && o.Err == nil && o.Offset >= 0 {
					some[i].from = o.Offset
				}
			}
		}
		all = append(all, some...)
	}
	if !timed {
		return all, time.Time{}, nil
	}
	return all, made.Add(afterID), nil
}

// parsePlace reads an id that a message got for its place.
func parsePlace(id string) (topic string, partition int32, offset int64, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 {
		return "", 0, 0, false
	}
	p, err1 := strconv.ParseInt(parts[1], 10, 32)
	offset, err2 := strconv.ParseInt(parts[2], 10, 64)
	return parts[0], int32(p), offset, err1 == nil && err2 == nil && p >= 0 && offset >= 0
}

// timeOfID is when an id was made: the first 48 bits of a UUID of version 7 are
// milliseconds (RFC 9562, section 5.7).
func timeOfID(id string) (time.Time, bool) {
	b, err := hex.DecodeString(strings.ReplaceAll(id, "-", ""))
	if err != nil || len(id) != 36 || len(b) != 16 || b[6]>>4 != 7 {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(b) >> 16)), true
}

// unfinishedOf are the parts of a topic from the first message that the group has
// not finished to the end.
func (s *inspector) unfinishedOf(ctx context.Context, name string) ([]stretch, error) {
	lags, err := s.registry.lags(ctx, name)
	all := make([]stretch, len(lags))
	for i, l := range lags {
		all[i] = stretch{l, span{l.next(), l.End}}
	}
	return all, err
}

// read calls visit with the records of parts of the partitions of a topic, those of each
// in order, until it returns false.
func (s *inspector) read(ctx context.Context, wire string, spans map[int32]span, visit func(*kgo.Record) bool) error {
	op, left := "read "+wire, map[int32]kgo.Offset{}
	for p, part := range spans {
		if part.from < part.to {
			left[p] = kgo.NewOffset().At(part.from)
		}
	}
	if len(left) == 0 {
		return nil
	}
	client, err := kgo.NewClient(append(s.readerOptions(wire, left), kgo.FetchMaxWait(100*time.Millisecond))...)
	if err != nil {
		return &store.Error{Op: op, Code: store.ErrInvalid, Err: err}
	}
	defer client.Close()
	for more := true; more && len(left) > 0; {
		poll, cancel := context.WithTimeout(ctx, reachTimeout)
		fetches := client.PollFetches(poll)
		cancel()
		if err := ctx.Err(); err != nil {
			return &store.Error{Op: op, Err: err}
		}
		if err := fetches.Err(); err != nil {
			return s.explain(op, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end := spans[r.Partition].to
			if more && r.Offset < end && !r.Attrs.IsControl() {
				more = visit(r)
			}
			if _, ok := left[r.Partition]; ok && r.Offset+1 >= end {
				delete(left, r.Partition)
				client.PauseFetchPartitions(map[string][]int32{wire: {r.Partition}})
			}
		})
	}
	return nil
}

// recordAt is what is known of a message at its place.
func (s *inspector) recordAt(l *Lag, r *kgo.Record) store.Record {
	rec := store.Record{Message: s.message(r), State: store.Waiting, EnqueuedAt: r.Timestamp,
		Reason: store.CauseAppended}
	settings, _ := s.registry.settingsOf(l.Topic)
	rec.Rank = settings.Rank(r.Timestamp, rec.Priority)
	var f flight
	f.remember(r)
	if t := f.trouble; t != nil {
		rec.Replays, rec.History, rec.Reason = t.replays, t.history, store.CauseReplayed
	}
	if r.Offset < l.Committed || l.cp.Has(r.Offset) {
		rec.State = store.Acked
		return rec
	}
	s.engine.describe(&rec, l.Partition, r.Offset)
	return rec
}

// describe adds what this process knows of a message that it has in hand.
func (e *engine) describe(rec *store.Record, partition int32, offset int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.at(rec.Topic, partition)
	if a == nil {
		return
	}
	f := a.find(offset)
	if f == nil {
		return
	}
	l := f.lane
	if f.state == leased {
		rec.State = store.Leased
		rec.Lease = &store.LeaseRecord{
			Owner: l.lease.owner, Token: tokenOf(f), StartedAt: time.Unix(0, l.lease.started),
			Until: time.Unix(0, l.until), Deadline: time.Unix(0, l.lease.hard),
		}
	}
	if f.state == waiting && l.state == closed && l.head == f {
		rec.State, rec.NotBefore = store.Delayed, time.Unix(0, l.until)
	}
	if tr := f.trouble; tr != nil {
		rec.Attempts, rec.Rescues, rec.Lonely = tr.attempts, tr.rescues, tr.lonely
		rec.Throttles, rec.ThrottledSince = tr.throttles, tr.throttledSince
		rec.History = slices.Clone(tr.history)
		if tr.reason != "" {
			rec.Reason = tr.reason
		}
	}
}

// List implements [store.Inspector]. With a limit, what is oldest in every partition
// comes, by time; without one, partition by partition.
func (s *inspector) List(ctx context.Context, f store.Filter) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		err := s.usable(ctx, "list messages")
		if f.State == store.Acked {
			err = &store.Error{Op: "list acked messages", Code: store.ErrUnsupported,
				Err: errors.New("a log does not say which of its records were acked")}
		}
		var names []string
		if err == nil {
			if names, err = s.registry.listed(ctx, nil); f.Topic != "" {
				names = slices.DeleteFunc(names, func(n string) bool { return n != f.Topic })
			}
		}
		if err != nil {
			yield(store.Record{}, err)
			return
		}
		n := 0
		for _, name := range names {
			for rec, err := range s.listTopic(ctx, name, &f) {
				if n++; !yield(rec, err) || err != nil || n == f.Limit {
					return
				}
			}
		}
	}
}

func (s *inspector) listTopic(ctx context.Context, name string, f *store.Filter) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		stretches, err := s.unfinishedOf(ctx, name)
		var oldest []store.Record
		for _, st := range stretches {
			n, more := 0, true
			err = st.read(ctx, s, func(r *kgo.Record) bool {
				rec := s.recordAt(&st.Lag, r)
				switch {
				case !s.wanted(f, &rec):
				case f.Limit > 0:
					oldest = append(oldest, rec)
					n++
					return n < f.Limit
				default:
					more = yield(rec, nil)
				}
				return more
			})
			if err != nil || !more {
				break
			}
		}
		if err != nil {
			yield(store.Record{}, err)
			return
		}
		slices.SortStableFunc(oldest, func(a, b store.Record) int { return a.EnqueuedAt.Compare(b.EnqueuedAt) })
		for i := range oldest {
			if !yield(oldest[i], nil) {
				return
			}
		}
	}
}

func (s *inspector) wanted(f *store.Filter, r *store.Record) bool {
	return r.State != store.Acked && (f.State == "" || f.State == r.State) &&
		(f.Key == nil || bytes.Equal(f.Key, r.Key)) &&
		(f.OlderThan == 0 || s.cfg.Now().Sub(r.EnqueuedAt) >= f.OlderThan)
}
