package logs

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/figures"
)

// queue is what waits for a sink, within bounds.
type queue struct {
	name   string
	level  slog.Leveler
	json   bool
	limit  int
	bytes  int // at most
	batch  int
	flush  time.Duration
	output Output
	report func(*queue, error)     // what happened to the output
	tell   func(lost *loss) []byte // the line about what was dropped
	wake   chan struct{}           // something changed
	empty  chan struct{}           // closed when the queue is, and nothing waits any more

	mu      sync.Mutex
	items   []item
	waiting int // records in items, and those being written
	ready   int // records in items
	held    int // bytes of all that waits
	writing int // batches
	lost    loss
	err     error // of the last write
	closing bool
	ended   bool // run has returned
	gone    bool // what comes to an end now is not counted any more: it was dropped
	counts  figures.LogSink
}

// item is the part of a block that a sink has room for.
type item struct {
	of      *block
	from    slog.Level // of the sink when it took the records
	to      int        // index in the block
	records int
	before  loss // what was dropped before it
}

// loss is about records that were dropped.
type loss struct {
	byRank      [len(levels)]uint64
	first, last uint64
}

func (l *loss) n() (sum uint64) {
	for _, n := range l.byRank {
		sum += n
	}
	return sum
}

func (l *loss) add(seq uint64, rank int, n uint64) {
	l.byRank[rank] += n
	if seq > 0 && (l.first == 0 || seq < l.first) {
		l.first = seq
	}
	l.last = max(l.last, seq)
}

func (l *loss) merge(other *loss) {
	if other.n() == 0 {
		return
	}
	for i, n := range other.byRank {
		l.byRank[i] += n
	}
	if other.first > 0 {
		l.first = min(cmp.Or(l.first, other.first), other.first)
	}
	l.last = max(l.last, other.last)
}

func newQueue(s Sink) *queue {
	q := &queue{name: s.Name, level: s.Level, json: s.JSON, limit: cmp.Or(s.Buffer, DefaultBuffer),
		batch: max(s.Batch, 1), flush: cmp.Or(s.Flush, DefaultFlush), output: s.Output,
		wake: make(chan struct{}, 1), empty: make(chan struct{})}
	q.bytes = q.limit * bytesPerRecord
	q.batch = min(q.batch, q.limit)
	q.counts = figures.LogSink{Name: s.Name, Emits: map[string]uint64{}, Dropped: map[string]uint64{}}
	q.tell = q.gapLine
	return q
}

// The reasons why records are dropped.
const (
	full   = "full"   // the queue had no room
	failed = "failed" // the output did not take them
	closed = "closed" // the output did not take them before the end
)

// gets reports whether a record is for this sink.
func (q *queue) gets(r *rec, from slog.Level) bool { return r.level >= from && r.not != q }

// offer takes from a block what is for this sink, as far as there is room.
func (q *queue) offer(b *block) {
	from := q.level.Level()
	q.mu.Lock()
	defer q.mu.Unlock()
	room, reason := q.limit-q.waiting, full
	if q.held > 0 && q.held+len(b.text)+len(b.json) > q.bytes {
		room = 0
	}
	if q.ended || q.gone {
		room, reason = 0, closed
	}
	it := item{of: b, from: from}
	var lost loss
	var offered [len(levels)]uint64
	for i := range b.recs {
		r := &b.recs[i]
		if !q.gets(r, from) {
			continue
		}
		offered[rank(r.level)]++
		if it.records < room {
			it.records++
			it.to = i + 1
		} else {
			lost.add(r.seq, rank(r.level), 1)
		}
	}
	q.count(&offered)
	if it.records > 0 {
		it.before, q.lost = q.lost, loss{}
		q.waiting += it.records
		q.ready += it.records
		q.held += len(b.text) + len(b.json)
		q.counts.MaxLag = max(q.counts.MaxLag, q.waiting)
		b.retain()
		q.items = append(q.items, it)
		q.signal()
	}
	q.drop(&lost, reason)
}

// offerLost counts what no sink could be offered.
func (q *queue) offerLost(l *loss) {
	lost, from := *l, q.level.Level()
	for i := range lost.byRank {
		if i < rank(from) {
			lost.byRank[i] = 0
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count(&lost.byRank)
	q.drop(&lost, full)
}

func (q *queue) count(offered *[len(levels)]uint64) {
	for i, n := range offered {
		if n > 0 {
			q.counts.Emits[levels[i]] += n
		}
	}
}

// drop counts what was dropped, and remembers to tell about it.
func (q *queue) drop(l *loss, reason string) {
	if n := l.n(); n > 0 {
		q.counts.Dropped[reason] += n
		q.lost.merge(l)
		q.signal()
	}
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// run writes what waits until the queue is closed and empty.
func (q *queue) run() {
	for b := q.next(); b != nil; b = q.next() {
		q.output.Write(b)
	}
}

// again is how long a sink that failed is left alone before it is told of a gap with no record behind it.
const again = time.Second

// next waits for a batch; nil is the end.
func (q *queue) next() *Batch {
	var due <-chan time.Time
	late := false
	for {
		q.mu.Lock()
		switch {
		case q.gone || q.closing && q.ready == 0 && (q.lost.n() == 0 || q.ended):
			q.ended = true
			q.settle()
			q.mu.Unlock()
			return nil
		case q.closing && q.ready == 0: // the last word is about what was dropped
			q.ended = true
			fallthrough
		case q.ready >= q.batch, late && (q.ready > 0 || q.lost.n() > 0), q.closing:
			b := q.take()
			q.mu.Unlock()
			return b
		}
		if due == nil {
			switch {
			case q.ready > 0:
				due = time.After(q.flush)
			case q.lost.n() > 0:
				due = time.After(again)
			}
		}
		q.mu.Unlock()
		select {
		case <-q.wake:
		case <-due:
			late = true
		}
	}
}

// How many bytes are written at once, about: to a stream or file, and to a server, which answers each time.
const (
	maxBatch       = 64 << 10
	maxServerBatch = 1 << 20
)

// take makes a batch of what waits first.
func (q *queue) take() *Batch {
	b := &Batch{queue: q}
	size, n, most := 0, 0, maxBatch
	if q.batch > 1 {
		most = maxServerBatch
	}
	for n < len(q.items) && size < most {
		it := &q.items[n]
		n++
		b.lost.merge(&it.before)
		for i := range it.to {
			r := &it.of.recs[i]
			if !q.gets(r, it.from) {
				continue
			}
			line := it.of.line(i, q.json)
			size += len(line)
			b.add(line, r.level >= slog.LevelWarn)
			b.about.add(r.seq, rank(r.level), 1)
		}
		b.items = append(b.items, *it)
		q.ready -= it.records
	}
	q.items = slices.Delete(q.items, 0, n)
	if n == 0 {
		b.lost, q.lost = q.lost, loss{}
	}
	if b.lost.n() > 0 {
		b.Segments = slices.Insert(b.Segments, 0, Segment{Data: q.tell(&b.lost), Lines: 1, Loud: true})
	}
	q.writing++
	return b
}

// gapLine is the record about what was dropped. It has no number: it was not offered.
func (q *queue) gapLine(lost *loss) []byte {
	n := lost.n()
	r := slog.NewRecord(time.Now(), slog.LevelWarn, fmt.Sprintf("dropped %d, seq %d to %d", n, lost.first, lost.last), 0)
	e := &encoder{asText: form{on: !q.json}, asJSON: form{on: q.json}}
	e.begin(&r)
	for _, a := range []slog.Attr{slog.String(observe.EventType, "log.dropped"), slog.String("sink", q.name),
		slog.Uint64("dropped", n), slog.Uint64("seq_from", lost.first), slog.Uint64("seq_to", lost.last)} {
		e.attr("", a)
	}
	if q.json {
		return append(e.json, '}', '\n')
	}
	return append(e.text, '\n')
}

// done counts what became of a batch: so many of its lines at its end were not written.
func (q *queue) done(b *Batch, unwritten int, err error) {
	told := unwritten < b.Lines()
	q.mu.Lock()
	for i := range b.items {
		q.held -= len(b.items[i].of.text) + len(b.items[i].of.json)
		b.items[i].of.release()
	}
	q.writing--
	changed := (q.err != nil) != (err != nil)
	q.err = err
	if !q.gone {
		records := int(b.about.n())
		unwritten = min(unwritten, records)
		q.waiting -= records
		q.wrote(records - unwritten)
		b.about.shrink(uint64(unwritten))
		q.drop(&b.about, failed)
		if !told {
			q.lost.merge(&b.lost)
		}
		q.settle()
	}
	q.mu.Unlock()
	if changed && q.report != nil {
		q.report(q, err)
	}
}

func (q *queue) wrote(records int) {
	if records > 0 {
		q.counts.Written += uint64(records)
		q.counts.Batches[sort.SearchFloat64s(figures.LogBatchBounds[:], float64(records))]++
	}
}

// settle notes that the queue has come to its end.
func (q *queue) settle() {
	if q.ended && q.writing == 0 {
		select {
		case <-q.empty:
		default:
			close(q.empty)
		}
	}
}

// shrink leaves n, of the highest levels: it is not known which ones they were.
func (l *loss) shrink(n uint64) {
	for i := len(l.byRank) - 1; i >= 0; i-- {
		l.byRank[i] = min(l.byRank[i], n)
		n -= l.byRank[i]
	}
}

// figures returns the counts.
func (q *queue) figures() figures.LogSink {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.counts
	f.Emits, f.Dropped, f.Lag = maps.Clone(f.Emits), maps.Clone(f.Dropped), q.waiting
	return f
}

// idle is how long the end waits for an output that takes nothing.
const idle = time.Second

// close writes what waits, for as long as the output takes some of it every second.
func (q *queue) close() {
	q.mu.Lock()
	q.closing = true
	q.signal()
	before := q.waiting
	q.mu.Unlock()
	for taken := true; taken; {
		t := time.NewTimer(idle)
		select {
		case <-q.empty:
			taken = false
		case <-t.C:
			q.mu.Lock()
			taken = q.waiting < before
			before = q.waiting
			q.mu.Unlock()
		}
		t.Stop()
	}
	q.mu.Lock()
	if q.gone = true; q.waiting > 0 {
		q.counts.Dropped[closed] += uint64(q.waiting)
		q.waiting, q.ready, q.items = 0, 0, nil
	}
	q.signal()
	q.mu.Unlock()
	q.output.Close()
}
