package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/operate"
)

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

// keyCell is a message's key, in base64 if it is no text.
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
