package logs

import (
	"sync"
	"sync/atomic"
)

// blockBytes is about how much one block has of each form.
const blockBytes = 64 << 10

// block is a run of records, in the order of their numbers, that sinks share.
type block struct {
	chunk
	users  atomic.Int32
	pooled bool
}

var blocks = sync.Pool{New: func() any {
	return &block{pooled: true, chunk: chunk{text: make([]byte, 0, blockBytes+blockBytes/4),
		json: make([]byte, 0, blockBytes+blockBytes/4)}}
}}

// newBlock makes one for so many bytes. Small ones are made to measure, so that many of them in the queue of a sink
// that hangs need no more room than their records.
func newBlock(text, json, recs int) *block {
	if max(text, json) < blockBytes/2 {
		b := &block{chunk: chunk{make([]byte, 0, text), make([]byte, 0, json), make([]rec, 0, recs)}}
		b.users.Store(1)
		return b
	}
	b := blocks.Get().(*block)
	b.users.Store(1)
	return b
}

func (b *block) retain() { b.users.Add(1) }

func (b *block) release() {
	if b.users.Add(-1) > 0 || !b.pooled || max(cap(b.text), cap(b.json)) > 2*blockBytes {
		return
	}
	b.text, b.json, b.recs = b.text[:0], b.json[:0], b.recs[:0]
	blocks.Put(b)
}

// line returns a record's line.
func (c *chunk) line(i int, json bool) []byte {
	from := rec{}
	if i > 0 {
		from = c.recs[i-1]
	}
	if json {
		return c.json[from.json:c.recs[i].json]
	}
	return c.text[from.text:c.recs[i].text]
}

// merge puts the records of chunks into blocks, by number.
func merge(chunks []*chunk, hand func(*block)) {
	text, json, recs := 0, 0, 0
	for _, c := range chunks {
		text, json, recs = text+len(c.text), json+len(c.json), recs+len(c.recs)
	}
	next := make([]int, len(chunks))
	var b *block
	for range recs {
		first := -1
		for i, c := range chunks {
			if next[i] < len(c.recs) && (first < 0 || c.recs[next[i]].seq < chunks[first].recs[next[first]].seq) {
				first = i
			}
		}
		c, at := chunks[first], next[first]
		next[first]++
		if b == nil {
			b = newBlock(text, json, recs)
		}
		r := c.recs[at]
		b.text, b.json = append(b.text, c.line(at, false)...), append(b.json, c.line(at, true)...)
		r.text, r.json = len(b.text), len(b.json)
		b.recs = append(b.recs, r)
		if max(r.text, r.json) >= blockBytes {
			text, json, recs = text-r.text, json-r.json, recs-len(b.recs)
			hand(b)
			b = nil
		}
	}
	if b != nil {
		hand(b)
	}
}
