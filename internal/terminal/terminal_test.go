package terminal

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestTableFits at every width: no line is wider than the terminal while a figure, an id or a heading of its own
// need not be cut.
func TestTableFits(t *testing.T) {
	rows := [][]string{
		{"0199f8a2-1b2c-7d3e-8f40-0123456789ab", "mail", "customer-7", "", "100", strings.Repeat("body ", 40)},
		{"0199f8a2-1b2c-7d3e-9f40-0123456789ab", "mail", "顧客-17", "", "3", "a\tb\nc"},
	}
	for _, within := range []int{0, 60, 80, 100, 200} {
		var out bytes.Buffer
		table := NewTable(&out, false, within, "ID", "TOPIC", "KEY", "LEASED BY", ">PRIORITY", "BODY")
		for _, row := range rows {
			if err := table.Row(row...); err != nil {
				t.Fatal(err)
			}
		}
		if err := table.Flush(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		for _, line := range lines {
			if within > 0 && Width(line) > within {
				t.Errorf("within %d: %d columns: %q", within, Width(line), line)
			}
		}
		ids := map[string]bool{}
		for _, line := range lines[1:] {
			id, _, _ := strings.Cut(line, " ")
			ids[id] = true
		}
		whole := strings.Contains(out.String(), rows[0][0])
		if len(ids) != 2 || whole != (within == 0) || strings.Contains(lines[0], "LEASED") != (within == 0) ||
			!strings.Contains(lines[1], "100") || !strings.Contains(lines[1], "custome") {
			t.Errorf("within %d:\n%s", within, out.String())
		}
	}
}

// TestIDsOfOthersCanBeUsed: of an id that is not made by Pawl enough is printed for a command. It was cut like a text.
func TestIDsOfOthersCanBeUsed(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out, false, 60, "ID", "TOPIC", "KEY", "REASON")
	long := strings.Repeat("long ", 9)
	for _, id := range []string{"change-17-0123456789ab", "change-18-ab", "0199f8a2-1b2c-7d3e-8f40-0123456789ab"} {
		if err := table.Row(id, long, long, long); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"change-17-01234567 ", "change-18-ab ", "0199f8a2-1b2c-7d3e "} {
		if !strings.Contains(out.String(), "\n"+id) {
			t.Errorf("no %q:\n%s", id, out.String())
		}
	}
}

// TestHeadingsAreReadable: cells are cut before any heading is.
func TestHeadingsAreReadable(t *testing.T) {
	columns := []string{"TYPE", "PHASE", "CONDITION", ">ATTEMPTS", "LAST REASON", "ORIGIN"}
	var out bytes.Buffer
	table := NewTable(&out, false, 60, columns...)
	cell := strings.Repeat("long ", 5)
	if err := errors.Join(table.Row(cell, cell, cell, "1", cell, cell), table.Flush()); err != nil {
		t.Fatal(err)
	}
	heading, _, _ := strings.Cut(out.String(), "\n")
	for _, c := range columns {
		if !strings.Contains(heading, strings.TrimPrefix(c, ">")) || Width(heading) > 60 {
			t.Errorf("no %s in 60 columns:\n%s", c, out.String())
		}
	}
}

// screenOf is what a terminal of that width shows of what was written: it knows newline, carriage return, up, and
// erase to the end.
func screenOf(written string, columns int) []string {
	text := []rune(written)
	lines, y, x := [][]rune{{}}, 0, 0
	down := func() {
		if y++; y == len(lines) {
			lines = append(lines, nil)
		}
		x = 0
	}
	for i := 0; i < len(text); i++ {
		var n int
		switch rest := string(text[i:min(i+8, len(text))]); {
		case text[i] == '\n':
			down()
		case text[i] == '\r':
			x = 0
		case strings.HasPrefix(rest, "\x1b[J"):
			lines[y], lines = lines[y][:x], lines[:y+1]
			i += 2
		case strings.HasPrefix(rest, "\x1b["):
			if _, err := fmt.Sscanf(rest, "\x1b[%dA", &n); err != nil {
				panic(rest)
			}
			y = max(0, y-n)
			i += len(fmt.Sprint(n)) + 2
		default:
			if x == columns {
				down()
			}
			for len(lines[y]) <= x {
				lines[y] = append(lines[y], ' ')
			}
			lines[y][x] = text[i]
			x++
		}
	}
	var shown []string
	for _, line := range lines {
		shown = append(shown, strings.TrimRight(string(line), " "))
	}
	return shown
}

// TestBoardUnderLogs: whatever is logged, in pieces and at once, the board stays whole at the bottom, and every line of
// the log is there once, above it.
func TestBoardUnderLogs(t *testing.T) {
	for _, columns := range []int{80, 100, 120, 200} {
		var out bytes.Buffer
		s := NewScreen(&out, func() int { return columns })
		board := func(n int) []string {
			return []string{fmt.Sprintf("%d pages %s", n, strings.Repeat("=", 150)), "hosts", fmt.Sprint("n ", n)}
		}
		s.Show(board(0))
		var wg sync.WaitGroup
		for w := range 4 {
			wg.Go(func() {
				for i := range 25 {
					_, _ = fmt.Fprintf(s, "log %d %d %s.\n", w, i, strings.Repeat("x", 137))
					s.Show(board(i))
				}
			})
		}
		wg.Wait()
		_, _ = s.Write([]byte("half a "))
		s.Show(board(99))
		_, _ = s.Write([]byte("line\n"))
		shown := screenOf(out.String(), columns)
		all := strings.Join(shown, "")
		for w := range 4 {
			for i := range 25 {
				if line := fmt.Sprintf("log %d %d x", w, i); strings.Count(all, line) != 1 {
					t.Errorf("%d columns: %q is there %d times", columns, line, strings.Count(all, line))
				}
			}
		}
		end := shown[len(shown)-5:] // and where the next line goes
		if end[0] != "half a line" || !strings.HasPrefix(end[1], "99 pages") || end[2] != "hosts" || end[3] != "n 99" ||
			strings.Count(all, "hosts") != 1 {
			t.Errorf("%d columns: it ends with %q", columns, end)
		}
		s.End()
		_, _ = s.Write([]byte("below\n"))
		if shown := screenOf(out.String(), columns); shown[len(shown)-2] != "below" || shown[len(shown)-3] != "n 99" {
			t.Errorf("%d columns: after the end %q", columns, shown[len(shown)-4:])
		}
	}
}

// TestBoardInANarrowerTerminal: rows are counted as they wrap now.
func TestBoardInANarrowerTerminal(t *testing.T) {
	var out bytes.Buffer
	columns := 120
	s := NewScreen(&out, func() int { return columns })
	s.Show([]string{strings.Repeat("a", 110)})
	columns = 80
	before := out.Len()
	s.Show([]string{"b"})
	if got := out.String()[before:]; got != "\r\x1b[2A\x1b[Jb\n" {
		t.Errorf("%q", got)
	}
}

// TestBoardObeysNoName: the name of a file that is converted may hold anything.
func TestBoardObeysNoName(t *testing.T) {
	var out bytes.Buffer
	NewScreen(&out, func() int { return 80 }).Show([]string{"a\x1b[2J.docx\r"})
	if text := out.String(); !strings.Contains(text, "a\uFFFD[2J.docx\uFFFD") {
		t.Errorf("%q", text)
	}
}
