package logs

import (
	"io"
)

// console writes to the streams of a process.
type console struct {
	out, errs io.Writer
	buf       []byte
}

// NewConsole returns an output that writes warnings and worse to errs, and the rest to out; nil for out is errs, too.
func NewConsole(errs, out io.Writer) Output {
	if out == nil {
		out = errs
	}
	return &console{out: out, errs: errs}
}

// Write implements Output.
func (c *console) Write(b *Batch) {
	left := b.Lines()
	for i := 0; i < len(b.Segments); {
		to, lines := c.to(b.Segments[i]), 0
		c.buf = c.buf[:0]
		for ; i < len(b.Segments) && c.to(b.Segments[i]) == to; i++ {
			c.buf = append(c.buf, b.Segments[i].Data...)
			lines += b.Segments[i].Lines
		}
		if _, err := to.Write(c.buf); err != nil {
			b.Done(left, err)
			return
		}
		left -= lines
	}
	b.Done(0, nil)
}

func (c *console) to(s Segment) io.Writer {
	if s.Loud {
		return c.errs
	}
	return c.out
}

// Close implements Output.
func (c *console) Close() {}

// null takes everything.
type null struct{}

// NewNull returns an output that writes nothing.
func NewNull() Output { return null{} }

// Write implements Output.
func (null) Write(b *Batch) { b.Done(0, nil) }

// Close implements Output.
func (null) Close() {}
