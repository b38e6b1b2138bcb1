package logs

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
)

// blockBytes is about how much one block has of each form.
const blockBytes = 64 << 10

// block is a run of records, in the order of their numbers. Sinks share those that they are handed.
type block struct {
	text, json []byte // the lines, one after the other
	recs       []rec
	users      atomic.Int32
	pooled     bool
}

// rec is a record of a block: its lines end at text and json.
type rec struct {
	seq        uint64
	text, json int
	level      slog.Level
	not        *queue
}

var blocks = sync.Pool{New: func() any {
	return &block{pooled: true, text: make([]byte, 0, blockBytes+blockBytes/4),
		json: make([]byte, 0, blockBytes+blockBytes/4)}
}}

// room returns the block that takes the next record of a shard.
func (s *shard) room() *block {
	if n := len(s.blocks); n > 0 && !s.blocks[n-1].full() {
		return s.blocks[n-1]
	}
	b := blocks.Get().(*block)
	b.users.Store(1)
	s.blocks = append(s.blocks, b)
	return b
}

// newBlock makes one for so many bytes. Small ones are made to measure, so that many of them in the queue of a sink
// that hangs need no more room than their records.
func newBlock(text, json, recs int) *block {
	b := &block{}
	if max(text, json) < blockBytes/2 {
		b.text, b.json, b.recs = make([]byte, 0, text), make([]byte, 0, json), make([]rec, 0, recs)
	} else {
		b = blocks.Get().(*block)
	}
	b.users.Store(1)
	return b
}

func (b *block) full() bool { return max(len(b.text), len(b.json)) >= blockBytes }

func (b *block) retain() { b.users.Add(1) }

func (b *block) release() {
	if b.users.Add(-1) > 0 || !b.pooled || max(cap(b.text), cap(b.json)) > 2*blockBytes {
		return
	}
	b.text, b.json, b.recs = b.text[:0], b.json[:0], b.recs[:0]
	blocks.Put(b)
}

// line returns a record's line.
func (b *block) line(i int, json bool) []byte {
	from := rec{}
	if i > 0 {
		from = b.recs[i-1]
	}
	if json {
		return b.json[from.json:b.recs[i].json]
	}
	return b.text[from.text:b.recs[i].text]
}

// merge puts the records of shards into blocks, by number, and releases those of the shards.
func merge(shards [][]*block, hand func(*block)) {
	text, json, recs := 0, 0, 0
	shards = slices.Clone(shards)
	for _, s := range shards {
		for _, b := range s {
			text, json, recs = text+len(b.text), json+len(b.json), recs+len(b.recs)
		}
	}
	next := make([]int, len(shards)) // in the first block of each
	var b *block
	for range recs {
		first := -1
		for i, s := range shards {
			if len(s) > 0 && (first < 0 || s[0].recs[next[i]].seq < shards[first][0].recs[next[first]].seq) {
				first = i
			}
		}
		from, at := shards[first][0], next[first]
		if b == nil {
			b = newBlock(text, json, recs)
		}
		r := from.recs[at]
		b.text, b.json = append(b.text, from.line(at, false)...), append(b.json, from.line(at, true)...)
		r.text, r.json = len(b.text), len(b.json)
		b.recs = append(b.recs, r)
		if next[first]++; next[first] == len(from.recs) {
			shards[first], next[first] = shards[first][1:], 0
			from.release()
		}
		if b.full() {
			text, json, recs = text-r.text, json-r.json, recs-len(b.recs)
			hand(b)
			b = nil
		}
	}
	if b != nil {
		hand(b)
	}
}
