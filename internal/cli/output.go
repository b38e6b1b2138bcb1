package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The output formats.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatLines = "jsonl"
)

// marshal is v as JSON, without escaping for HTML.
func marshal(v any, indent string) ([]byte, error) {
	var b jsonBuffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return b, err
}

type jsonBuffer []byte

func (b *jsonBuffer) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	return len(p), nil
}

// one prints a single object, in words by human.
func (s *session) one(v any, human func(w io.Writer)) error {
	if s.output == formatTable {
		human(s.out)
		return s.out.Flush()
	}
	indent := "  "
	if s.output == formatLines {
		indent = ""
	}
	b, err := marshal(v, indent)
	if err != nil {
		return err
	}
	_, err = s.out.Write(b)
	return errors.Join(err, s.out.Flush())
}

// list prints objects as they come: rows of a table, elements of an array, or
// lines. After an error it prints no more; end returns it.
type list struct {
	s     *session
	table *table
	n     int
	err   error
}

func (s *session) list(columns ...string) *list {
	l := &list{s: s}
	if s.output == formatTable {
		l.table = newTable(s.out, s.colours(), columns...)
	}
	return l
}

// add prints v, in a table the cells. It tells whether more can be printed.
func (l *list) add(v any, cells ...string) bool {
	if l.err == nil {
		l.n++
		l.err = l.print(v, cells)
	}
	return l.err == nil
}

func (l *list) print(v any, cells []string) error {
	if l.table != nil {
		return l.table.row(cells...)
	}
	b, err := marshal(v, "")
	if err != nil {
		return err
	}
	if l.s.output == formatLines {
		_, err = l.s.out.Write(b)
		return err
	}
	before := ",\n  "
	if l.n == 1 {
		before = "[\n  "
	}
	_, err = fmt.Fprintf(l.s.out, "%s%s", before, b[:len(b)-1])
	return err
}

// end ends the list. In a table that stays empty, it is said why, on stderr.
func (l *list) end(empty string, args ...any) error {
	switch {
	case l.err != nil:
		return l.err
	case l.table != nil && l.n == 0:
		l.s.note(empty, args...)
	case l.table != nil:
		if err := l.table.flush(); err != nil {
			return err
		}
	case l.s.output == formatJSON && l.n == 0:
		_, _ = l.s.out.WriteString("[]\n") // the error comes again with Flush
	case l.s.output == formatJSON:
		_, _ = l.s.out.WriteString("\n]\n")
	}
	return l.s.out.Flush()
}

// colours tells whether stdout takes them.
func (s *session) colours() bool {
	return s.OutTerminal && !s.noColor && s.Getenv("NO_COLOR") == "" && s.Getenv("TERM") != "dumb"
}
