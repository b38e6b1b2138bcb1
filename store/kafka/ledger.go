package kafka

import (
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// ledger is the state as of an offset of its log. It reads records in their order, and does
// not deal with brokers.
//
// The beginning of the log is cut off from time to time. Before that, somebody writes a
// snapshot: all entries as they are at an offset, its base, one record for each, and a last
// record that names the base. The log is only ever cut at the base of a snapshot that is
// complete. So whoever finds that records are missing keeps those behind them back until a
// snapshot comes whose base is not among what is missing, starts from its entries, and
// then decides about what was kept back from the base on.
type ledger struct {
	entries  map[string]store.Entry
	outcomes map[string]wish // of wishes that a caller here waits for, by nonce
	next     int64           // the offset that comes next
	gap      *gap            // nil: entries are as the log says up to next

	size  int     // bytes of the entries, as records
	grown int     // bytes of the log since the last snapshot
	bases []int64 // of the last complete snapshots, growing
}

// gap is what follows records that are missing.
type gap struct {
	known int64 // entries are as the log says up to here
	from  int64 // everything from here on was read
	held  []*kgo.Record
	parts map[string][]store.Entry // of snapshots that are not complete yet, by nonce
}

// wish is the outcome of a wish, which is a requested change.
type wish struct {
	entry store.Entry
	have  int64 // the version that was there
	done  bool
	ok    bool
}

// Values of headerOp.
const (
	opPut      = "put"
	opDelete   = "delete"
	opEntry    = "entry"    // of a snapshot
	opSnapshot = "snapshot" // the end of one
)

// Headers of the records of the state.
const (
	headerOp     = "op"
	headerWant   = "want" // of a wish: the version that the entry is to have
	headerWriter = "writer"
	headerNonce  = "nonce"   // of a wish, or common to the records of a snapshot
	headerVers   = "version" // of an entry in a snapshot
	headerAt     = "at"      // when it was put, in ms: brokers may stamp records themselves
	headerBase   = "base"    // of a snapshot
	headerCount  = "count"   // of its entries
)

// basesKept is how many snapshots are remembered.
const basesKept = 8

func newLedger() ledger {
	return ledger{entries: map[string]store.Entry{}, outcomes: map[string]wish{}}
}

// reset forgets everything except the waiters.
func (l *ledger) reset() {
	*l = ledger{entries: map[string]store.Entry{}, outcomes: l.outcomes}
}

// read takes in a record and returns the keys whose entries have changed.
func (l *ledger) read(r *kgo.Record) (changed []string) {
	if r.Offset > l.next {
		l.miss(r.Offset)
	}
	l.next = max(l.next, r.Offset+1)
	l.grown += weight(r)
	switch op := text(r, headerOp); {
	case op == opEntry:
		if l.gap != nil {
			l.gap.collect(r)
		}
		return nil
	case op == opSnapshot:
		return l.complete(r)
	case l.gap != nil:
		l.gap.held = append(l.gap.held, r)
		return nil
	default:
		return l.decide(r)
	}
}

// miss notes that the records before an offset are missing.
func (l *ledger) miss(from int64) {
	if l.gap == nil {
		l.gap = &gap{known: l.next}
	}
	l.gap.from, l.gap.parts = from, map[string][]store.Entry{}
}

func (g *gap) collect(r *kgo.Record) {
	version, err := number(r, headerVers)
	at, bad := number(r, headerAt)
	if err != nil || bad != nil {
		return // then the count is wrong, and the snapshot is not used
	}
	nonce := text(r, headerNonce)
	g.parts[nonce] = append(g.parts[nonce], store.Entry{Key: string(r.Key), Value: filled(r.Value), Version: version,
		Writer: text(r, headerWriter), At: time.UnixMilli(at)})
}

func (l *ledger) complete(r *kgo.Record) (changed []string) {
	base, err := number(r, headerBase)
	count, bad := number(r, headerCount)
	if err != nil || bad != nil || base < 0 || base > r.Offset {
		return nil
	}
	if n := len(l.bases); n == 0 || base > l.bases[n-1] {
		l.bases, l.grown = append(l.bases[max(0, n+1-basesKept):], base), 0
	}
	if l.gap == nil || base < l.gap.from {
		return nil
	}
	parts := l.gap.parts[text(r, headerNonce)]
	if len(parts) != int(count) {
		return nil
	}
	return l.replace(parts, base)
}

// replace closes the gap: the entries are those at the base, and what was kept back from
// there on is decided about.
func (l *ledger) replace(at []store.Entry, base int64) (changed []string) {
	before, held := l.entries, l.gap.held
	l.entries, l.size, l.gap = make(map[string]store.Entry, len(at)), 0, nil
	for _, e := range at {
		l.put(e)
		if before[e.Key].Version != e.Version {
			changed = append(changed, e.Key)
		}
	}
	for key := range before {
		if _, ok := l.entries[key]; !ok {
			changed = append(changed, key)
		}
	}
	return append(changed, l.decideAll(held, base)...)
}

// giveUp closes the gap where no snapshot can come any more. Start is where the log
// begins.
func (l *ledger) giveUp(start int64) (changed []string) {
	if start > l.gap.known { // the log was cut by other means: what it says is all there is
		return l.replace(nil, start)
	}
	held := l.gap.held // offsets were left out, and no records
	l.gap = nil
	return l.decideAll(held, 0)
}

func (l *ledger) decideAll(held []*kgo.Record, from int64) (changed []string) {
	for _, r := range held {
		if r.Offset >= from {
			changed = append(changed, l.decide(r)...)
		}
	}
	return changed
}

func (l *ledger) decide(r *kgo.Record) (changed []string) {
	key, op := string(r.Key), text(r, headerOp)
	want, err := number(r, headerWant)
	if err != nil || backend.AdmitState(key) != nil || op != opPut && op != opDelete {
		return nil // not one of ours
	}
	have, nonce := l.entries[key], text(r, headerNonce)
	w := wish{have: have.Version, done: true, ok: want == store.AnyVersion || want == have.Version}
	if op == opDelete && have.Version == 0 {
		w.ok = false
	}
	switch {
	case !w.ok:
	case op == opPut:
		w.entry = store.Entry{Key: key, Value: filled(r.Value), Version: r.Offset + 1, Writer: text(r, headerWriter),
			At: r.Timestamp}
		l.put(w.entry)
	default:
		l.size -= room(have)
		delete(l.entries, key)
	}
	if _, waited := l.outcomes[nonce]; waited {
		l.outcomes[nonce] = w
	}
	if w.ok {
		changed = append(changed, key)
	}
	return changed
}

func (l *ledger) put(e store.Entry) {
	if old, ok := l.entries[e.Key]; ok {
		l.size -= room(old)
	}
	l.entries[e.Key] = e
	l.size += room(e)
}

func room(e store.Entry) int { return recordCost + len(e.Key) + len(e.Value) + len(e.Writer) }

// filled makes a nil value an empty one.
func filled(value []byte) []byte {
	if value == nil {
		return []byte{}
	}
	return value
}

func text(r *kgo.Record, name string) string {
	s, _ := header(r, name)
	return s
}

func number(r *kgo.Record, name string) (int64, error) {
	return strconv.ParseInt(text(r, name), 10, 64)
}
