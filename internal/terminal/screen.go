package terminal

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
)

// Screen is a terminal with a board at the bottom of what is written: lines that are written while the board
// is shown appear above it. It is safe for concurrent use.
type Screen struct {
	out     io.Writer
	columns func() int // of the terminal, now; 0: unknown

	mu    sync.Mutex
	board []string
	rest  []byte // a line that has no end yet, while there is a board
}

// NewScreen makes a screen of a terminal.
func NewScreen(out io.Writer, columns func() int) *Screen { return &Screen{out: out, columns: columns} }

// Show replaces the board. Lines that are wider than the terminal are cut.
func (s *Screen) Show(lines []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var text bytes.Buffer
	s.wipe(&text)
	s.board = lines
	s.draw(&text)
	_, _ = s.out.Write(text.Bytes())
}

// End leaves the board where it is: what is written from now on comes below it.
func (s *Screen) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.out.Write(s.rest)
	s.board, s.rest = nil, nil
}

// Write implements io.Writer.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.board == nil {
		return s.out.Write(p)
	}
	whole := bytes.LastIndexByte(p, '\n') + 1
	if whole == 0 {
		s.rest = append(s.rest, p...)
		return len(p), nil
	}
	var text bytes.Buffer
	s.wipe(&text)
	text.Write(s.rest)
	text.Write(p[:whole])
	s.rest = bytes.Clone(p[whole:])
	s.draw(&text)
	if _, err := s.out.Write(text.Bytes()); err != nil {
		return 0, err
	}
	return len(p), nil
}

// wipe clears the board. Its lines were as wide as the terminal at most: they take more rows only where it has
// become narrower since.
func (s *Screen) wipe(text *bytes.Buffer) {
	rows, columns := 0, s.columns()
	for _, line := range s.board {
		rows++
		if w := Width(line); columns > 0 && w > columns {
			rows += (w - 1) / columns
		}
	}
	if rows > 0 {
		fmt.Fprintf(text, "\r\x1b[%dA\x1b[J", rows)
	}
}

func (s *Screen) draw(text *bytes.Buffer) {
	columns := s.columns()
	for i, line := range s.board {
		line = Clean(strings.ReplaceAll(line, "\n", " ")) // it names files and pages
		if columns > 0 {
			line = Cut(line, columns-1)
		}
		s.board[i] = line
		text.WriteString(line + "\n")
	}
}
