package kafka

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
)

// copier makes deliveries: what a handler does to its own changes nothing here.
type copier struct{ slab }

// fill makes the delivery of a message.
func (c *copier) fill(d *pawl.Delivery, f *flight) {
	a, r := f.lane.of, f.rec
	d.Topic, d.Log, d.EnqueuedAt = a.topic.Name, logRecord{r}, r.Timestamp
	d.Key, d.Body = c.clone(r.Key), c.clone(r.Value)
	readHeaders(&d.Message, r.Headers)
	if d.ID == "" {
		d.ID = placeID(d.Topic, a.partition, r.Offset)
	}
}

// slab cuts many small pieces out of few large ones. They are small enough that who
// keeps one body does not keep those of a whole claim.
type slab struct {
	free []byte
	left int // bytes that are still to come
}

const slabSize = 32 << 10

func (s *slab) clone(b []byte) []byte {
	if len(b) == 0 {
		if b == nil {
			return nil
		}
		return []byte{} // not b[:0]: that would keep alive what it is cut out of
	}
	own := s.room(len(b))
	copy(own, b)
	return own
}

// room cuts off a piece of n bytes.
func (s *slab) room(n int) []byte {
	if n > cap(s.free)-len(s.free) {
		s.free = make([]byte, 0, max(n, min(s.left, slabSize)))
	}
	s.left -= n
	end := len(s.free) + n
	s.free = s.free[:end]
	return s.free[end-n : end : end]
}

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
