package pdf

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

var marks = regexp.MustCompile(`^(?:[•●○◦▪▫■□–‣⁃∙·\x{f0b7}\x{f0a7}*-]|\d{1,3}[.)])$`)

// maxCompared bounds the lines of a page that are compared with one another.
const maxCompared = 2000

// findItems finds the lines of a page that begin with the mark of a list, and puts mark and text into one cell.
func findItems(all []line) {
	numbers := map[int][]int{} // lines that begin with a number alone, by it
	for i := range all {
		l := &all[i]
		if l.grid != nil {
			continue
		}
		l.dropOuterMarks()
		mark, _, _ := strings.Cut(l.text(), " ")
		switch {
		case len(l.text()) == len(mark): // there is nothing after it
		case marks.MatchString(mark):
			l.item = mark
		case strings.TrimSpace(l.cells[0].parts[0].text) == mark:
			if n, err := strconv.Atoi(mark); err == nil && n > 0 && n < 1000 && len(l.cells) <= 2 {
				numbers[n] = append(numbers[n], i)
			}
		}
		if l.item != "" && len(l.cells) > 1 && l.cells[0].text() == mark {
			l.join()
		}
	}
	if len(all) > maxCompared {
		return
	}
	// A number without a dot is a mark if the next one, or the one before, stands below or above it, close to its text.
	for n, at := range numbers {
		for _, i := range at {
			for _, j := range append(numbers[n+1], numbers[n-1]...) {
				a, b := &all[i], &all[j]
				if len(a.cells)+len(b.cells) == 2 && math.Abs(numberEnd(a)-numberEnd(b)) < 1 &&
					math.Abs(a.y-b.y) < 12*a.size {
					a.item = strconv.Itoa(n)
				}
			}
		}
	}
}

// dropOuterMarks leaves the last of several marks: an item that holds nothing but a list has its mark on the same line.
func (l *line) dropOuterMarks() {
	for len(l.cells) > 1 && marks.MatchString(l.cells[0].text()) && startsWithMark(l.cells[1].text()) {
		l.cells = l.cells[1:]
	}
	first := &l.cells[0]
	for i, p := range first.parts {
		switch t := strings.TrimSpace(p.text); {
		case i > 0 && startsWithMark(t):
			first.parts, first.x = first.parts[i:], p.x
			l.dropOuterMarks()
			return
		case t != "" && !marks.MatchString(t):
			return
		}
	}
}

func startsWithMark(t string) bool {
	mark, _, _ := strings.Cut(t, " ")
	return marks.MatchString(mark)
}

// numberEnd is where the number at the beginning of a line ends; numbers are set flush right.
func numberEnd(l *line) float64 { return l.cells[0].parts[0].end }

// join makes one cell of the first two.
func (l *line) join() {
	a, b := &l.cells[0], l.cells[1]
	a.parts = append(append(a.parts, piece{text: " ", font: b.parts[0].font}), b.parts...)
	a.end = b.end
	l.cells = append(l.cells[:1], l.cells[2:]...)
}

// isOver reports whether a paragraph ended with its last line: the first word of the next one would have had room in
// it. right is where the lines of the paragraph's column end.
func isOver(last, next *line, right float64) bool {
	word, _, _ := strings.Cut(next.text(), " ")
	first := next.cells[0]
	width := (first.end - first.x) / float64(max(next.chars, 1)) * float64(len([]rune(word))+1)
	return right-last.cells[len(last.cells)-1].end > 1.2*width
}

// rightEdge is where the longest of the lines ends that begin near x and are of the same size.
func rightEdge(all []line, like *line) float64 {
	right := 0.0
	if len(all) > maxCompared {
		return right
	}
	for i := range all {
		l := &all[i]
		if len(l.cells) == 1 && math.Abs(l.cells[0].x-like.cells[0].x) < 3*like.size && near(l.size, like.size) {
			right = max(right, l.cells[len(l.cells)-1].end)
		}
	}
	return right
}
