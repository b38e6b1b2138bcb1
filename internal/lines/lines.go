// Package lines cuts a stream into lines of JSON, each with at most one message.
package lines

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/pawl-dev/pawl"
)

// How long a line may be. A line holds at most one body, which base64 makes a
// third longer and escapes up to six times; the rest of a message fits into the
// slack.
const (
	lineSlack = 1 << 20
	plainLine = pawl.MaxBody/3*4 + lineSlack
	anyLine   = pawl.MaxBody*6 + lineSlack
)

// ErrTooLong is about a line that no message can have.
var ErrTooLong = errors.New("it is longer than the longest possible message")

// Reader cuts a stream into lines without ever holding much more than a
// message can need.
type Reader struct {
	r    *bufio.Reader
	N    int64 // of the line that Next returned, from 1
	long []byte
}

// NewReader returns a reader of lines.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: bufio.NewReaderSize(r, 256<<10)}
}

// Next returns the next line without its end. It is valid until the next call.
// The errors are io.EOF, ErrTooLong, after which the following line can be read,
// and those of the stream.
func (l *Reader) Next() ([]byte, error) {
	l.N++
	line, err := l.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.join(line)
	}
	switch {
	case errors.Is(err, io.EOF) && len(line) > 0:
	case err != nil:
		return nil, err
	}
	if l.N == 1 {
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return bytes.TrimSuffix(line, []byte("\n")), nil
}

// join reads the rest of a line that is longer than the buffer.
func (l *Reader) join(piece []byte) ([]byte, error) {
	l.long = append(l.long[:0], piece...)
	defer func() {
		if cap(l.long) > 4*lineSlack {
			l.long = nil // one such line is no reason to keep its memory
		}
	}()
	var e escapes
	e.count(piece)
	for {
		piece, err := l.r.ReadSlice('\n')
		l.long = append(l.long, piece...)
		e.count(piece)
		if len(l.long) > anyLine || e.meant(len(l.long)) > plainLine {
			return nil, l.skip(err)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return l.long, err
		}
	}
}

// escapes counts what makes a line longer than what it means.
type escapes struct{ all, unicode int }

func (e *escapes) count(piece []byte) {
	e.all += bytes.Count(piece, []byte(`\`))
	e.unicode += bytes.Count(piece, []byte(`\u`))
}

// meant is how many bytes a line of n can mean at least: six stand for one in an
// escape with \u, two in any other.
func (e *escapes) meant(n int) int {
	return n - 5*e.unicode - max(0, min(e.all-e.unicode, (n-6*e.unicode)/2))
}

// skip passes over the rest of a line.
func (l *Reader) skip(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.r.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("%w: a body has %d bytes at most", ErrTooLong, pawl.MaxBody)
}

// Error is about a line that is not a message, or one that the store refuses.
type Error struct {
	Line int64 // from 1
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %v", e.Line, e.Err) }

// Unwrap returns what is wrong with the line.
func (e *Error) Unwrap() error { return e.Err }
