package logs

import (
	"bytes"
	"iter"
)

// Output is where a sink writes. Its methods are called by one goroutine; Close may be called while Write hangs.
type Output interface {
	// Write writes the lines of a batch, and calls its Done once, before it returns or later. The batch must not be
	// used after that.
	Write(b *Batch)
	// Close is called at the end. It does not wait.
	Close()
}

// Batch is what a sink writes at once.
type Batch struct {
	Segments []Segment
	queue    *queue
	items    []item
	lost     loss // that the first line tells about, if there is one
	about    loss // the records
}

// Segment has lines one after the other, each with a line feed at its end.
type Segment struct {
	Data  []byte
	Lines int
	Loud  bool // of warnings and worse
}

// add appends a line; those that follow one another in memory become one segment.
func (b *Batch) add(line []byte, loud bool) {
	if n := len(b.Segments) - 1; n >= 0 {
		last := &b.Segments[n]
		end := len(last.Data)
		if last.Loud == loud && cap(last.Data) > end && &last.Data[:end+1][end] == &line[0] {
			last.Data = last.Data[:end+len(line)]
			last.Lines++
			return
		}
	}
	b.Segments = append(b.Segments, Segment{line, 1, loud})
}

// Lines returns how many lines the batch has.
func (b *Batch) Lines() int {
	n := 0
	for _, s := range b.Segments {
		n += s.Lines
	}
	return n
}

// All are the lines, with their line feeds.
func (b *Batch) All() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for _, s := range b.Segments {
			for data := s.Data; len(data) > 0; {
				end := bytes.IndexByte(data, '\n') + 1
				if !yield(data[:end]) {
					return
				}
				data = data[end:]
			}
		}
	}
}

// Done says how many lines were not written, and why. Lines are written in their order, so that those at the end are
// missing.
func (b *Batch) Done(unwritten int, err error) { b.queue.done(b, unwritten, err) }
