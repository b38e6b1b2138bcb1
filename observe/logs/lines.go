package logs

import (
	"errors"
	"fmt"
	"sync"
)

// Lines is a file that only grows, by whole lines. It follows its path when it is moved away. It is safe for
// concurrent use.
type Lines struct {
	mu   sync.Mutex
	file file
}

// OpenLines opens a file for lines, and makes it if it is missing.
func OpenLines(path string) (*Lines, error) {
	l := &Lines{file: file{FileConfig: FileConfig{Path: path}}}
	if err := l.file.begin(); err != nil {
		return nil, fmt.Errorf("open the file: %w", err)
	}
	return l, nil
}

// Write implements io.Writer, for one or more whole lines.
func (l *Lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.write(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Reopen looks at once whether the file was moved away. With an error, lines go on into the file that they went to. It
// does not wait for a write, which may take as long as a reader of a pipe likes: that looks soon.
func (l *Lines) Reopen() error {
	if !l.mu.TryLock() {
		return nil
	}
	defer l.mu.Unlock()
	return l.file.followPath()
}

// Close closes the file. It does not wait for a write either: the end of the process ends that.
func (l *Lines) Close() error {
	if !l.mu.TryLock() {
		return errors.New("a write has not ended: what reads the file takes nothing")
	}
	defer l.mu.Unlock()
	if l.file.f == nil {
		return nil
	}
	return l.file.f.Close()
}
