package kafka

import (
	"strconv"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
)

// copier makes deliveries: what a handler does to its own changes nothing here.
type copier struct {
	slab
	nameSlab
}

// fill makes the delivery of what is given, of which so many more are to come.
func (c *copier) fill(d *pawl.Delivery, g *given, more int) {
	a, r := g.flight.lane.of, g.flight.rec
	d.Topic, d.Log, d.EnqueuedAt = a.topic.Name, logRecord{r}, r.Timestamp
	d.Key, d.Body = c.clone(r.Key), c.clone(r.Value)
	if id := idIn(r.Headers); id != nil {
		d.ID = c.name(id, more)
	} else {
		d.ID = c.place(d.Topic, a.partition, r.Offset, more)
	}
	readHeaders(&d.Message, r.Headers)
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

// nameSlab does the same for ids.
type nameSlab struct {
	strings.Builder
	at        []byte // where the last message was that came without an id
	topic     string // of it
	partition int32
	prefix    int // length of what all places in that partition begin with
}

// place is the id of a message that came without one.
func (s *nameSlab) place(topic string, partition int32, offset int64, more int) string {
	if s.prefix == 0 || partition != s.partition || topic != s.topic {
		s.at = appendPartition(s.at[:0], topic, partition)
		s.topic, s.partition, s.prefix = topic, partition, len(s.at)
	}
	s.at = strconv.AppendInt(s.at[:s.prefix], offset, 10)
	return s.name(s.at, more)
}

// name cuts off an id, of which so many more are to come.
func (s *nameSlab) name(id []byte, more int) string {
	if s.Cap()-s.Len() < len(id) {
		s.Builder = strings.Builder{}
		s.Grow(max(len(id), min(more*len(id), slabSize/8)))
	}
	n := s.Len()
	s.Write(id)
	return s.String()[n:]
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
