package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with the configuration, or perhaps not what was
// meant.
type Problem struct {
	File    string `json:"file"` // or the variable or flag that it is in
	Line    int    `json:"line"` // from 1; 0: not in a file
	Column  int    `json:"column"`
	Path    string `json:"path"` // of the value, such as topics.mail.concurrency
	Message string `json:"message"`
	Hint    string `json:"hint"`
	// Warning tells that the configuration is good all the same.
	Warning bool `json:"warning"`

	excerpt string
}

// String is the problem in a line, without the lines that it is about.
func (p *Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
	}
	b.WriteString(": ")
	if p.Warning {
		b.WriteString("warning: ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// Text is the problem with the lines of the file that it is about.
func (p *Problem) Text() string {
	if p.excerpt == "" {
		return p.String()
	}
	return p.String() + "\n" + p.excerpt
}

// Problems are all that is wrong with a configuration, in the order of the file, with
// the warnings about it.
type Problems []Problem

func (ps Problems) Error() string {
	texts := make([]string, len(ps))
	for i := range ps {
		texts[i] = ps[i].Text()
	}
	return strings.Join(texts, "\n")
}

// Faults are those that are no warnings.
func (ps Problems) Faults() Problems {
	return slices.DeleteFunc(slices.Clone(ps), func(p Problem) bool { return p.Warning })
}

// sort puts the problems in the order of the file; those of the environment and
// of flags come first.
func (ps Problems) sort() {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// excerptWidth is how much of a line is shown, in characters.
const excerptWidth = 120

// excerpt is the line of a problem between its neighbours, with a caret below the
// place. Of long lines it is what is around the place.
func excerpt(lines []string, line, column int) string {
	if line < 1 || line > len(lines) {
		return ""
	}
	var b strings.Builder
	from := 0 // of the characters that are shown
	if column > excerptWidth {
		from = column - excerptWidth/2
	}
	for n := max(line-1, 1); n <= min(line+1, len(lines)); n++ {
		mark := ' '
		if n == line {
			mark = '>'
		}
		shown := []rune(lines[n-1])
		shown = shown[min(from, len(shown)):]
		if len(shown) > excerptWidth {
			shown = append(shown[:excerptWidth-1:excerptWidth-1], '…')
		}
		fmt.Fprintf(&b, "%c %4d | %s\n", mark, n, string(shown))
		if n == line {
			fmt.Fprintf(&b, "       | %s^\n", strings.Repeat(" ", max(column-1-from, 0)))
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

// Near returns the one of some words that was probably meant, in whatever case, or "".
func Near(word string, known []string) string {
	best, least := "", max(1, len(word)/3)+1
	for _, k := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(k)); d < least {
			best, least = k, d
		}
	}
	return best
}

// distance is how many letters two words differ by: inserted, left out, changed,
// or two neighbours swapped.
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a)
	}
	var before []int
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
