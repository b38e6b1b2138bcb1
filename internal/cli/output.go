package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/terminal"
)

// The output formats.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatLines = "jsonl"
	formatWide  = "wide" // a table, in full
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
	if s.inside != nil {
		s.inside.answer.Data = v
	}
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

var (
	oneLine = terminal.OneLine
	clean   = terminal.Clean
	cut     = terminal.Cut
)

// list prints objects as they come: rows of a table, elements of an array, or
// lines. After an error it prints no more; end returns it.
type list struct {
	s     *session
	table *terminal.Table
	n     int
	err   error
}

func (s *session) list(columns ...string) *list {
	l := &list{s: s}
	if s.inside != nil {
		s.inside.begin(columns)
		return l
	}
	if s.output == formatTable {
		l.table = terminal.NewTable(s.out, s.colours(), s.columns(), columns...)
	}
	return l
}

// add prints v, in a table the cells. It reports whether more can be printed.
func (l *list) add(v any, cells ...string) bool {
	if l.err == nil {
		l.n++
		l.err = l.print(v, cells)
	}
	return l.err == nil
}

func (l *list) print(v any, cells []string) error {
	if l.s.inside != nil {
		return l.s.inside.add(v, cells)
	}
	if l.table != nil {
		return l.table.Row(cells...)
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
	case l.n == 0 && (l.table != nil || l.s.inside != nil):
		l.s.note("%s", l.s.here(fmt.Sprintf(empty, args...)))
	case l.table != nil:
		if err := l.table.Flush(); err != nil {
			return err
		}
	case l.s.output == formatJSON && l.n == 0:
		_, _ = l.s.out.WriteString("[]\n") // the error comes again with Flush
	case l.s.output == formatJSON:
		_, _ = l.s.out.WriteString("\n]\n")
	}
	return l.s.out.Flush()
}

// colours reports whether stdout takes them.
func (s *session) colours() bool {
	return s.OutTerminal && !s.noColor && s.Getenv("NO_COLOR") == "" && s.Getenv("TERM") != "dumb"
}

// progress shows how far something came, on a terminal.
func (s *session) progress(what string) *terminal.Progress {
	if !s.ErrTerminal || s.quiet {
		return terminal.NewProgress(nil, what)
	}
	return terminal.NewProgress(s.Err, what)
}

// The cells of tables.

func number[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// age is a duration in one or two units.
func age(d time.Duration) string {
	switch seconds := d.Round(time.Second); {
	case d <= 0:
		return ""
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case seconds < time.Hour:
		return seconds.String()
	case d < 48*time.Hour:
		return strings.TrimSuffix(strings.TrimSuffix(d.Round(time.Minute).String(), "0s"), "0m")
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func asDuration(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// at is a time in a table: local and short, in full with -o wide.
func (s *session) at(t time.Time) string {
	now, local := time.Now(), t.Local()
	switch {
	case t.IsZero() || s.wide:
		return when(t)
	case local.Format(time.DateOnly) == now.Format(time.DateOnly):
		return local.Format(time.TimeOnly)
	case local.Year() == now.Year():
		return local.Format("Jan 02 15:04")
	}
	return local.Format(time.DateOnly)
}

func (s *session) atp(t *time.Time) string {
	if t == nil {
		return ""
	}
	return s.at(*t)
}

// cell is a text in a table: the beginning of its first line, or all with -o wide.
func (s *session) cell(text string, most int) string {
	if s.wide {
		return oneLine(text)
	}
	line, _, _ := strings.Cut(text, "\n")
	return cut(oneLine(line), most)
}

// most is how much of a text is shown, unless all is asked for.
func (s *session) most(columns int) int {
	if s.wide {
		return 1 << 20
	}
	return columns
}

// columns is how wide a table may be; 0: any width.
func (s *session) columns() int {
	if s.wide {
		return 0
	}
	if n, err := strconv.Atoi(s.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if s.OutTerminal && s.Columns != nil {
		return cmp.Or(s.Columns(), defaultColumns)
	}
	return defaultColumns
}

const defaultColumns = 80

// when is a time in UTC, as logs and JSON have it.
func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func whenever(t *time.Time) string {
	if t == nil {
		return ""
	}
	return when(*t)
}

// keyCell is a message's key, in base64 if it is not a text.
func keyCell(m *operate.Message) string {
	if m.Key != nil {
		return *m.Key
	}
	return m.KeyBase64
}

// bodyCell is the beginning of a message's body.
func bodyCell(m *operate.Message, most int) string {
	if m.Body == nil {
		return fmt.Sprintf("(%d bytes)", len(*m.BodyBase64)/4*3)
	}
	body := *m.Body
	if len(body) > 4*most {
		body = strings.ToValidUTF8(body[:4*most], "") + "…"
	}
	return cut(oneLine(body), most)
}
