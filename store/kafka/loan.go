package kafka

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// loan is memory for the bytes of a call's records. The client reads them when it
// sends, and when it sends again, which may be long after the call has given up and the
// caller has reused its buffer. As a rule it has done with all of them when the call
// returns: then the memory serves the next call, or copying would cost most of all in
// collecting garbage.
type loan struct{ lent []*[slabSize]byte }

var slabs = sync.Pool{New: func() any { return new([slabSize]byte) }}

// own copies the bytes of records. A call that does not fill a slab gets just what it
// needs, because there may be many such calls at a time.
func (l *loan) own(records []*kgo.Record) {
	var bytes slab
	for _, r := range records {
		bytes.left += len(r.Key) + len(r.Value)
	}
	for _, r := range records {
		r.Key, r.Value = l.clone(&bytes, r.Key), l.clone(&bytes, r.Value)
	}
}

func (l *loan) clone(bytes *slab, b []byte) []byte {
	if len(b) > cap(bytes.free)-len(bytes.free) && len(b) <= slabSize && bytes.left >= slabSize {
		next := slabs.Get().(*[slabSize]byte)
		l.lent, bytes.free = append(l.lent, next), next[:0]
	}
	return bytes.clone(b)
}

// giveBack ends the loan. The brokers have all records: the client reads none of them
// any more. That is so in franz-go 1.22.2, also where an earlier request with them is
// still being written: who writes a batch holds its lock (recBatch.mu), and finds no
// records in one that was answered.
func (l *loan) giveBack() {
	for _, s := range l.lent {
		slabs.Put(s)
	}
	l.lent = nil
}
