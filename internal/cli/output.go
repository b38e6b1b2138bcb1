package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/operate"
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

// table aligns cells in columns. The first rows decide how wide these are; then
// it prints row by row, so that a long listing begins at once and needs no
// memory.
type table struct {
	w       io.Writer
	bold    bool
	header  []string
	right   []bool
	widths  []int
	pending [][]string
	begun   bool
}

const rowsToAlign = 300

// newTable makes a table. A column whose name begins with ">" is aligned to the
// right.
func newTable(w io.Writer, colours bool, columns ...string) *table {
	t := &table{w: w, bold: colours, widths: make([]int, len(columns))}
	for _, c := range columns {
		name, right := strings.CutPrefix(c, ">")
		t.header = append(t.header, name)
		t.right = append(t.right, right)
	}
	return t
}

func (t *table) row(cells ...string) error {
	row := make([]string, len(t.header))
	for i := range row {
		row[i] = oneLine(cells[i])
	}
	if t.begun {
		return t.print(row)
	}
	if t.pending = append(t.pending, row); len(t.pending) >= rowsToAlign {
		return t.flush()
	}
	return nil
}

// flush prints what waited for the widths.
func (t *table) flush() error {
	if t.begun {
		return nil
	}
	t.begun = true
	for _, row := range append([][]string{t.header}, t.pending...) {
		for i, c := range row {
			t.widths[i] = max(t.widths[i], width(c))
		}
	}
	if t.bold {
		_, _ = io.WriteString(t.w, "\x1b[1m")
	}
	err := t.print(t.header)
	if t.bold {
		_, _ = io.WriteString(t.w, "\x1b[0m")
	}
	for _, row := range t.pending {
		if err != nil {
			return err
		}
		err = t.print(row)
	}
	t.pending = nil
	return err
}

func (t *table) print(row []string) error {
	var b strings.Builder
	for i, c := range row {
		fill := strings.Repeat(" ", max(0, t.widths[i]-width(c)))
		switch {
		case t.right[i]:
			b.WriteString(fill + c)
		case i == len(row)-1:
			b.WriteString(c)
		default:
			b.WriteString(c + fill)
		}
		if i < len(row)-1 {
			b.WriteString("  ")
		}
	}
	_, err := fmt.Fprintln(t.w, strings.TrimRight(b.String(), " "))
	return err
}

// oneLine makes a cell of a text from outside.
func oneLine(s string) string {
	return strings.TrimSpace(clean(strings.ReplaceAll(s, "\n", " ")))
}

// width is how many columns of a terminal s takes.
func width(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case wide(r):
			n += 2
		default:
			n++
		}
	}
	return n
}

// wide tells whether r takes two columns, as East Asian scripts and emoji do.
func wide(r rune) bool {
	return 0x1100 <= r && (r <= 0x115f || 0x2e80 <= r && r <= 0xa4cf || 0xac00 <= r && r <= 0xd7a3 ||
		0xf900 <= r && r <= 0xfaff ||
		0xfe30 <= r && r <= 0xfe6f || 0xff00 <= r && r <= 0xff60 || 0x1f300 <= r && r <= 0x1faff ||
		0x20000 <= r && r <= 0x3fffd)
}

// cut shortens s to n characters.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
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

// stdout is where data goes. Its errors are [*outputError]s: what cannot be printed
// is another matter than what cannot be done, and a connection to a server that
// breaks is EPIPE, too.
type stdout struct{ w io.Writer }

func (o stdout) Write(b []byte) (int, error) {
	n, err := o.w.Write(b)
	if err != nil {
		err = &outputError{err}
	}
	return n, err
}

// outputError is why stdout cannot be written.
type outputError struct{ err error }

func (e *outputError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *outputError) Unwrap() error { return e.err }

// withoutPipes is err without errors of a closed pipe on stdout. Other errors remain.
func withoutPipes(err error) error {
	lost, ok := errors.AsType[*outputError](err)
	if !ok {
		return err
	}
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		var rest []error
		for _, part := range several.Unwrap() {
			rest = append(rest, withoutPipes(part))
		}
		return errors.Join(rest...)
	}
	if errors.Is(lost.err, syscall.EPIPE) || errors.Is(lost.err, io.ErrClosedPipe) { // the reader has gone away
		return nil
	}
	return err
}

// progress tells on a terminal how far something came, a few times a second.
type progress struct {
	s       *session
	what    string
	began   time.Time
	shown   time.Time
	visible bool
}

func (s *session) progress(what string) *progress {
	return &progress{s: s, what: what, began: time.Now(), shown: time.Now(), visible: s.ErrTerminal && !s.quiet}
}

// at says that n are done.
func (p *progress) at(n int64) {
	now := time.Now()
	if !p.visible || now.Sub(p.shown) < 200*time.Millisecond {
		return
	}
	p.shown = now
	_, _ = fmt.Fprintf(p.s.Err, "\r\x1b[K%d %s, %.0f a second", n, p.what, float64(n)/now.Sub(p.began).Seconds())
}

// end removes the line.
func (p *progress) end() {
	if p.visible && p.shown != p.began {
		_, _ = fmt.Fprint(p.s.Err, "\r\x1b[K")
	}
}
