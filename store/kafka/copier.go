package kafka

import (
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

// own copies the keys and values of records. The client reads them when it sends, and when
// it sends again, which may be long after the call has given up and the caller has reused
// its buffer.
func own(records []*kgo.Record) {
	var copies slab
	for _, r := range records {
		copies.left += len(r.Key) + len(r.Value)
	}
	for _, r := range records {
		r.Key, r.Value = copies.clone(r.Key), copies.clone(r.Value)
	}
}
