package app

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

var errLongLine = errors.New("it is longer than any message can be")

// lineReader cuts a stream into lines without ever holding much more than a
// message can need.
type lineReader struct {
	r    *bufio.Reader
	n    int64 // of the line that next returned, from 1
	long []byte
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 256<<10)}
}

// next returns the next line without its end. It is valid until the next call.
// The errors are io.EOF, errLongLine, after which the following line can be read,
// and those of the stream.
func (l *lineReader) next() ([]byte, error) {
	l.n++
	line, err := l.r.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.join(line)
	}
	switch {
	case errors.Is(err, io.EOF) && len(line) > 0:
	case err != nil:
		return nil, err
	}
	if l.n == 1 {
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	return bytes.TrimSuffix(line, []byte("\n")), nil
}

// join reads the rest of a line that is longer than the buffer.
func (l *lineReader) join(piece []byte) ([]byte, error) {
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
func (l *lineReader) skip(err error) error {
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = l.r.ReadSlice('\n')
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return fmt.Errorf("%w: a body has %d bytes at most", errLongLine, pawl.MaxBody)
}
