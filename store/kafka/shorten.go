package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// The log of the state grows with every sign of life of a worker. When it has grown by
// stateRoom and twice the size of its entries, a process writes a snapshot and cuts the log at
// the base of the snapshot before it. So readers have a whole period to keep up. No exclusion
// is needed: a second concurrent snapshot is redundant, but harmless.

const (
	stateRoom  = 8 << 20          // bytes, about three hours of ten workers
	stateDelay = 10 * time.Second // at most: processes wait for different times
	// stateSegment is how much of the topic is in a file. Brokers delete whole files.
	stateSegment = 32 << 20
	// mostSnapshots are in the log unless it cannot be cut: two, and those that were
	// written at the same time.
	mostSnapshots = 4
)

type snapshot struct {
	topic   kadm.TopicID
	base    int64
	before  int64 // base of the snapshot before it; 0: there is none
	entries []store.Entry
}

// long reports whether it is time for a snapshot.
func (st *state) long() bool { return st.gap == nil && st.grown > st.room+2*st.size }

// shortenSoon shortens the log in a while, unless somebody else does. The caller holds the
// tail's mu.
func (st *state) shortenSoon() {
	if st.shortening || !st.long() {
		return
	}
	st.shortening = st.s.background(func() {
		if store.Sleep(st.s.ctx, rand.N(st.delay)) != nil {
			return
		}
		if err := st.shorten(st.s.ctx); err != nil && st.s.ctx.Err() == nil {
			st.s.health.note(st.s.cfg.StateTopic, "it cannot be shortened, and grows: %v", err)
		}
		st.tail.mu.Lock()
		st.shortening = false
		st.tail.mu.Unlock()
	})
}

// shorten writes a snapshot and cuts the log, if it is still long at its end.
func (st *state) shorten(ctx context.Context) error {
	if err := st.follow(ctx); err != nil {
		return err
	}
	snap, ok := st.capture()
	if !ok {
		return nil
	}
	if err := st.write(ctx, snap); err != nil || snap.before == 0 || st.tail.reading() != snap.topic {
		return err
	}
	return st.cut(ctx, snap.before)
}

// capture returns the state as it is. It counts as an attempt: after a failed one, the next
// comes only when the log has grown as much once more, because the part that was written makes
// the log longer.
func (st *state) capture() (snapshot, bool) {
	st.tail.mu.Lock()
	defer st.tail.mu.Unlock()
	if !st.long() {
		return snapshot{}, false
	}
	st.grown = 0
	snap := snapshot{topic: st.tail.id, base: st.next}
	if n := len(st.bases); n > 0 {
		snap.before = st.bases[n-1]
	}
	for _, e := range st.entries {
		snap.entries = append(snap.entries, e) // values are never changed in place
	}
	return snap, true
}

// write writes a snapshot, and its end record only when all in-sync replicas have the
// rest.
func (st *state) write(ctx context.Context, snap snapshot) error {
	nonce := pawl.NewID()
	var records []*kgo.Record
	bytes := 0
	for _, e := range snap.entries {
		r := st.record(opEntry, e.Key, e.Value, nonce, e.Writer, map[string]int64{headerVers: e.Version,
			headerAt: e.At.UnixMilli()})
		if n := weight(r); bytes+n > int(st.s.cfg.Produce.BatchBytes) {
			if err := errors.Join(st.s.produce(ctx, records)...); err != nil {
				return unavailable("write a snapshot of the state", err)
			}
			records, bytes = nil, 0
		}
		records, bytes = append(records, r), bytes+weight(r)
	}
	err := errors.Join(st.s.produce(ctx, records)...)
	if err == nil {
		end := st.record(opSnapshot, "", nil, nonce, "", map[string]int64{headerBase: snap.base,
			headerCount: int64(len(snap.entries))})
		err = errors.Join(st.s.produce(ctx, []*kgo.Record{end})...)
	}
	if err != nil {
		return unavailable("write a snapshot of the state", err)
	}
	return nil
}

func (st *state) record(op, key string, value []byte, nonce, writer string, numbers map[string]int64) *kgo.Record {
	r := &kgo.Record{Topic: st.tail.topic, Key: []byte(key), Value: value, Timestamp: st.s.cfg.Now(),
		Headers: []kgo.RecordHeader{{Key: headerOp, Value: []byte(op)}, {Key: headerNonce, Value: []byte(nonce)}}}
	if writer != "" {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headerWriter, Value: []byte(writer)})
	}
	for name, n := range numbers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: name, Value: strconv.AppendInt(nil, n, 10)})
	}
	return r
}

func (st *state) cut(ctx context.Context, to int64) error {
	var os kadm.Offsets
	os.Add(kadm.Offset{Topic: st.tail.topic, Partition: 0, At: to})
	resp, err := st.s.admin.DeleteRecords(ctx, os)
	if err == nil {
		err = resp.Error()
	}
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange):
		return nil // another process has cut off more
	case errors.Is(err, kerr.TopicAuthorizationFailed):
		return errors.New(st.s.mayCut())
	case err != nil:
		return fmt.Errorf("delete records: %w", err)
	}
	return nil
}

// mayCut returns the command that gives the user the right to shorten the log.
func (s *core) mayCut() string {
	return s.grant("topic "+s.state.tail.topic, "--operation Delete --topic "+s.state.tail.topic)
}

// snapshots is how many are in a log that begins at start.
func (st *state) snapshots(start int64) int {
	st.tail.mu.Lock()
	defer st.tail.mu.Unlock()
	i, _ := slices.BinarySearch(st.bases, start)
	return len(st.bases) - i
}
