package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka/gate"
)

// keySkip is the prefix of keys of the state by which the owner of a partition is asked
// to skip a message: skip/TOPIC/PARTITION/OFFSET.
const keySkip = "skip/"

type skipWish struct {
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// Skipped is the result of a Skip.
type Skipped struct {
	Seen
	// Pending: the process that has the partition was asked, and has not done it
	// yet. It does when the handler of the message returns, or of one before it of the
	// same key.
	Pending bool
}

// SkipOffset moves a message that is not finished to the dead letters, from where it can
// be replayed; the messages behind it go on. An offset of -1 is the first that the
// group has not finished. If a process has the partition it is asked to do so, and
// SkipOffset waits for it up to wait; otherwise it is done here.
func (s *Store) SkipOffset(ctx context.Context, topic string, partition int32, offset int64, by, reason string,
	wait time.Duration) (Skipped, error) {
	op := "skip " + partitionName(topic, partition)
	l, seen, err := s.peek(ctx, op, topic, partition, offset, 1)
	switch {
	case err != nil:
		return Skipped{}, err
	case len(seen) == 0:
		return Skipped{}, &store.Error{Op: op, Code: store.ErrNotFound, Err: errors.New("nothing there is unfinished")}
	case offset >= 0 && l.Committed > offset:
		return Skipped{}, &store.Error{Op: op, Code: store.ErrConflict,
			Err: fmt.Errorf("the group is done with offset %d: it goes on from %d", offset, l.Committed)}
	}
	sk := Skipped{Seen: seen[0]}
	err = s.skipHere(ctx, op, topic, partition, sk.Offset, by, reason)
	if !errors.Is(err, errOwned) {
		return sk, err
	}
	sk.Pending, err = s.askToSkip(ctx, topic, partition, sk.Offset, by, reason, wait)
	return sk, err
}

// errOwned: the partition belongs to a member of the group.
var errOwned = errors.New("a member of the group has the partition")

// skipHere steps over a message of a group that has no members.
func (s *Store) skipHere(ctx context.Context, op, topic string, partition int32, offset int64, by,
	reason string) error {
	g, err := s.describeGroup(ctx)
	if err != nil {
		return s.explain(op, err)
	}
	if len(g.Members) > 0 {
		return errOwned
	}
	wire := s.wire(topic)
	t, there, err := s.topics.find(ctx, wire)
	if err != nil {
		return err
	}
	if !there {
		return &store.Error{Op: op, Code: store.ErrNotFound, Err: errors.New("there is no such topic")}
	}
	committed, err := s.committed(ctx)
	if err != nil {
		return s.explain(op, err)
	}
	from, text, err := s.committedAt(op, committed, wire, partition)
	if err != nil {
		return err
	}
	from = max(from, 0)
	cp, _ := gate.Decode(from, t.source(), text) // not a checkpoint of ours: nothing above it is finished
	if cp.Has(offset) {
		return &store.Error{Op: op, Code: store.ErrConflict, Err: fmt.Errorf("offset %d is finished", offset)}
	}
	next, err := stepOver(cp, from, offset, t.source())
	if err != nil {
		return &store.Error{Op: op, Code: store.ErrConflict, Err: err}
	}
	if err := s.skipPlace(ctx, op, topic, place64{partition, offset}, by, reason); err != nil {
		return err
	}
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: wire, Partition: partition, At: next.Base, LeaderEpoch: -1, Metadata: next.Text()})
	err = s.coordinated(ctx, func() error {
		resp, err := s.admin.CommitOffsets(ctx, s.cfg.Group, offsets)
		return errors.Join(err, resp.Error())
	})
	if err != nil {
		return &store.Error{Op: op, Code: store.ErrConflict, Err: err,
			Hint: "a worker may have joined meanwhile: the message is among the dead letters, and is carried out as well; skip it again"}
	}
	return nil
}

// stepOver is a checkpoint with one more position finished.
func stepOver(cp gate.Checkpoint, from, offset int64, source uint32) (gate.Checkpoint, error) {
	if offset-from >= gate.Window {
		return cp, fmt.Errorf("offset %d is too far ahead of %d, the first that is not finished", offset, from)
	}
	g := gate.Resume(from, cp)
	for pos := from; pos <= offset; pos++ {
		g.Register(pos)
	}
	g.Finish(offset)
	return g.Checkpoint(gate.Extra{Source: source}), nil
}

func (s *Store) skipPlace(ctx context.Context, op, topic string, at place64, by, reason string) error {
	raw := make([]*kgo.Record, 1)
	if err := s.readPlaces(ctx, s.wire(topic), map[place64]int{at: 0}, raw); err != nil {
		return err
	}
	if raw[0] == nil {
		return &store.Error{Op: op, Code: store.ErrNotFound,
			Err: fmt.Errorf("offset %d is not there any more", at.offset)}
	}
	name, err := s.topics.ensureDead(ctx, s.wire(topic))
	if err != nil {
		return err
	}
	f := &flight{rec: raw[0]}
	f.remember(raw[0])
	d := &death{flight: f, kind: pawl.KindSkipped, reason: skipReason(by, reason), at: s.cfg.Now()}
	return s.explain(op, s.produce(ctx, []*kgo.Record{s.deadRecord(name, d)})[0])
}

func skipReason(by, reason string) string {
	if reason == "" {
		return "skipped by " + by
	}
	return "skipped by " + by + ": " + reason
}

// askToSkip asks the process that has the partition, and waits for it.
func (s *Store) askToSkip(ctx context.Context, topic string, partition int32, offset int64, by, reason string,
	wait time.Duration) (pending bool, err error) {
	key := keySkip + placeID(topic, partition, offset)
	if err := s.putJSON(ctx, key, skipWish{By: by, Reason: reason}, store.AnyVersion, by); err != nil {
		return false, err
	}
	for end := time.Now().Add(wait); ; {
		if _, err := s.GetState(ctx, key); errors.Is(err, store.ErrNotFound) {
			return false, nil
		} else if err != nil {
			return true, err
		}
		if l, err := s.lag(ctx, "skip", topic, partition); err == nil && l.Committed > offset {
			// It was finished meanwhile. The process that did it may have removed the wish first.
			if err := s.DeleteState(ctx, key, store.AnyVersion); !errors.Is(err, store.ErrNotFound) {
				return false, err
			}
			return false, nil
		}
		if time.Now().After(end) {
			return true, nil
		}
		if store.Sleep(ctx, 200*time.Millisecond) != nil {
			return true, &store.Error{Op: "skip", Err: ctx.Err()}
		}
	}
}

// heedSkip carries out a requested skip, if the partition is assigned to this process.
func (s *Store) heedSkip(key string) {
	var w skipWish
	topic, partition, offset, good := parsePlace(strings.TrimPrefix(key, keySkip))
	if _, ok := s.state.readJSON(key, &w); !ok || !good {
		return
	}
	if s.engine.requestSkip(topic, partition, offset, skipReason(w.By, w.Reason)) {
		_ = s.DeleteState(s.ctx, key, store.AnyVersion) // it is finished
	}
}

// requestSkip sends a message to the dead letters, now or when its handler has
// returned; it reports whether it is finished already.
func (e *engine) requestSkip(name string, partition int32, offset int64, reason string) (done bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := e.at(name, partition)
	if a == nil || a.state != live {
		return false
	}
	if offset < a.gate.Advance() {
		return true
	}
	a.condemned[offset] = reason
	f := a.find(offset)
	if f == nil {
		return offset < a.gate.Tail() // finished behind one that is not
	}
	if f.state == waiting && e.withdraw(f.lane) {
		e.skipRequested(f)
	}
	return false
}

// withdraw takes a lane out of its queue, so that it can stand still. False if that is not
// possible now: while one of its messages is carried out, here or in an earlier assignment, or
// becomes a dead letter. The lane is opened after that, and what is condemned in it dies then.
func (e *engine) withdraw(l *lane) bool {
	switch l.state {
	case ready:
		l.of.topic.ready.remove(l)
	case closed:
		e.timed.Remove(l.pos)
	case aside:
		l.of.setAside = slices.DeleteFunc(l.of.setAside, func(other *lane) bool { return other == l })
	default:
		return false
	}
	return true
}

// skipRequested sends a message that is to be skipped to the dead letters. Its lane must be
// neither leased nor in a queue.
func (e *engine) skipRequested(f *flight) {
	if reason, ok := f.lane.of.condemned[f.offset]; ok && f.state == waiting {
		e.die(f, pawl.KindSkipped, reason)
	}
}

// hasSkip reports whether a message of the lane is to be stepped over.
func (l *lane) hasSkip() bool {
	if len(l.of.condemned) == 0 {
		return false
	}
	for f := l.head; f != nil; f = f.next {
		if _, ok := l.of.condemned[f.rec.Offset]; ok && f.state == waiting {
			return true
		}
	}
	return false
}

// skipped tells the asking process that a message was skipped.
func (s *side) skipped(d *death) {
	if d.kind != pawl.KindSkipped {
		return
	}
	r := d.flight.rec
	key := keySkip + placeID(s.plain(r.Topic), r.Partition, r.Offset)
	s.background(func() { _ = s.DeleteState(s.ctx, key, store.AnyVersion) })
}
