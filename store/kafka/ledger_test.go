package kafka

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
)

// stateLog is a log of the state as brokers keep it.
type stateLog struct {
	records []*kgo.Record
	start   int64
}

func (l *stateLog) add(op, key, nonce string, value []byte, numbers map[string]int64) *kgo.Record {
	var st state
	st.s, st.tail = assemble(&core{cfg: Config{Now: func() time.Time { return time.UnixMilli(int64(len(l.records))) }}}),
		&tail{topic: "pawl.state"}
	r := st.record(op, key, value, nonce, "writer", numbers)
	r.Offset = int64(len(l.records))
	l.records = append(l.records, r)
	return r
}

func (l *stateLog) wish(op, key string, want int64) *kgo.Record {
	return l.add(op, key, "wish", []byte(strconv.Itoa(len(l.records))), map[string]int64{headerWant: want})
}

// part writes the i-th record of a snapshot, and reports whether it was the last one.
func (l *stateLog) part(snap *snapshot, nonce string, i int) (last bool) {
	if i == len(snap.entries) {
		l.add(opSnapshot, "", nonce, nil, map[string]int64{headerBase: snap.base, headerCount: int64(i)})
		return true
	}
	e := snap.entries[i]
	l.add(opEntry, e.Key, nonce, e.Value, map[string]int64{headerVers: e.Version, headerAt: e.At.UnixMilli()})
	return false
}

// reader reads a log.
type reader struct {
	ledger
	seen map[string]int64 // what it was told of, by key: the version, 0 for none
}

func newReader() *reader { return &reader{newLedger(), map[string]int64{}} }

// to reads up to an offset, past what was cut off.
func (r *reader) to(l *stateLog, end int64) *reader {
	for _, rec := range l.records[max(r.next, l.start):max(end, r.next, l.start)] {
		for _, key := range r.read(rec) {
			r.seen[key] = r.entries[key].Version
		}
	}
	return r
}

func (r *reader) versions() map[string]int64 {
	all := map[string]int64{}
	for key, e := range r.entries {
		all[key] = e.Version
	}
	return all
}

// TestReadersOfACutLogAgree: whoever reads the state from where it begins now, or was away
// while it was cut, has the entries of who has read all of it, and was told of each.
func TestReadersOfACutLogAgree(t *testing.T) {
	t.Parallel()
	cuts, late, gaps := 0, 0, 0
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 12))
		var log stateLog
		all := newReader()
		readers := []*reader{newReader()}
		type writer struct {
			snapshot
			nonce string
			next  int
		}
		var writers []*writer
		for step := range 300 {
			switch n := random.IntN(20); {
			case n < 10:
				op, want := opPut, all.entries[fmt.Sprint(step%7)].Version-int64(random.IntN(2))
				if random.IntN(2) == 0 {
					want = store.AnyVersion
				}
				if random.IntN(4) == 0 {
					op = opDelete
				}
				log.wish(op, fmt.Sprint(step%7), want)
			case n == 10 && len(writers) < 3: // somebody captures the state
				snap := snapshot{base: all.next, entries: slices.Collect(maps.Values(all.entries))}
				if n := len(all.bases); n > 0 {
					snap.before = all.bases[n-1]
				}
				writers = append(writers, &writer{snap, fmt.Sprint(seed, step), 0})
			case n == 11 && len(writers) > 0: // and dies
				writers = slices.Delete(writers, 0, 1)
			case n < 18 && len(writers) > 0:
				i := random.IntN(len(writers))
				w := writers[i]
				if log.part(&w.snapshot, w.nonce, w.next) {
					if log.start < w.before {
						log.start, cuts = w.before, cuts+1
					}
					writers = slices.Delete(writers, i, i+1)
				}
				w.next++
			case n == 18:
				readers = append(readers, newReader().to(&log, int64(len(log.records))))
			default:
				if r := readers[random.IntN(len(readers))]; r.next < log.start && r.next > 0 {
					late++
				}
			}
			all.to(&log, int64(len(log.records)))
			if random.IntN(3) == 0 {
				readers[random.IntN(len(readers))].to(&log, int64(len(log.records)))
			}
		}
		for i, r := range append(readers, newReader()) {
			if r.next < log.start {
				gaps++
			}
			if r.to(&log, int64(len(log.records))); r.gap != nil {
				t.Fatalf("seed %d: reader %d found no snapshot", seed, i)
			}
			if !reflect.DeepEqual(r.entries, all.entries) || r.size != all.size {
				t.Fatalf("seed %d: reader %d has %v, want %v", seed, i, r.versions(), all.versions())
			}
			if !slices.IsSorted(r.bases) {
				t.Fatalf("seed %d: reader %d has snapshots at %v", seed, i, r.bases)
			}
			for key, version := range r.seen {
				if r.entries[key].Version != version {
					t.Fatalf("seed %d: reader %d was told of version %d of %s", seed, i, version, key)
				}
			}
		}
	}
	if cuts < 100 || late < 100 || gaps < 100 {
		t.Errorf("%d cuts, %d readers were late, %d began behind one: this shows nothing", cuts, late, gaps)
	}
}

// TestLogCutByOtherMeans: what is left of a log is all there is; and a log that leaves
// offsets out has lost nothing.
func TestLogCutByOtherMeans(t *testing.T) {
	t.Parallel()
	var log stateLog
	for i := range 10 {
		log.wish(opPut, fmt.Sprint(i), store.AnyVersion)
	}
	log.start = 6
	r := newReader().to(&log, 10)
	if r.gap == nil || len(r.entries) != 0 {
		t.Fatalf("%v without a gap", r.versions())
	}
	if r.giveUp(6); len(r.entries) != 4 || r.gap != nil {
		t.Errorf("%v are left", r.versions())
	}
	r = newReader()
	for _, i := range []int{0, 1, 4, 5} {
		r.read(log.records[i])
	}
	if changed := r.giveUp(2); len(r.entries) != 4 || len(changed) != 2 {
		t.Errorf("%v with offsets left out; told of %v", r.versions(), changed)
	}
}

// TestPartsOfASnapshotAreNoSnapshot: neither one that has no end, nor one of which the
// first part was cut off, nor one from before the log was.
func TestPartsOfASnapshotAreNoSnapshot(t *testing.T) {
	t.Parallel()
	var log stateLog
	log.wish(opPut, "a", store.AnyVersion)
	log.wish(opPut, "b", store.AnyVersion)
	r := newReader().to(&log, 2)
	snap := snapshot{base: 2, entries: slices.Collect(maps.Values(r.entries))}
	for i := range 3 {
		log.part(&snap, "n", i)
	}
	for start, want := range map[int64]int{0: 2, 2: 2, 3: 0, 4: 0} {
		log.start = start
		if r := newReader().to(&log, 5); len(r.entries) != want || (r.gap != nil) != (want == 0) {
			t.Errorf("from offset %d: %v", start, r.versions())
		}
	}
	log.start, log.records = 2, log.records[:4]
	if r := newReader().to(&log, 4); len(r.entries) != 0 || r.gap == nil {
		t.Errorf("without an end: %v", r.versions())
	}
}
