package serve

import (
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync"
)

// eventsFile is the file that gets all events. It is safe for concurrent use.
type eventsFile struct {
	path string
	log  *slog.Logger

	mu   sync.Mutex
	file *os.File
	torn bool // its last line has no end
}

func openEventsFile(path string, log *slog.Logger) (*eventsFile, error) {
	e := &eventsFile{path: path, log: log}
	return e, e.reopen()
}

// reopen opens what is at the path now, for those who have moved the file away. With an
// error, events go on into the file that they went to. What is no regular file, as a pipe
// or /dev/stderr, stays open: it is never rotated, and opening a pipe without a reader
// would block the caller.
func (e *eventsFile) reopen() error {
	if !e.rotates() {
		return nil
	}
	f, err := os.OpenFile(e.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("open the file for events: %w", err)
	}
	torn := endsTorn(f)
	e.mu.Lock()
	before := e.file
	e.file, e.torn = f, torn
	e.mu.Unlock()
	if before != nil {
		if err := before.Close(); err != nil {
			e.log.Warn("the file for events that was there before could not be closed; its last lines may be missing",
				"error", err)
		}
	}
	return nil
}

// rotates tells whether the file may have been moved away: it is not open yet, or a
// regular one.
func (e *eventsFile) rotates() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.file == nil {
		return true
	}
	info, err := e.file.Stat()
	return err != nil || info.Mode().IsRegular()
}

// endsTorn tells whether the last line may have no end: the process that wrote it was
// killed, or its disk full. The next line would be glued to it, and both be lost to
// whoever reads lines.
func endsTorn(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Mode().Type() != fs.FileMode(0) || info.Size() == 0 {
		return false
	}
	r, err := os.Open(f.Name())
	if err != nil {
		return true // an empty line does no harm
	}
	defer func() { _ = r.Close() }()
	last := make([]byte, 1)
	_, err = r.ReadAt(last, info.Size()-1)
	return err != nil || last[0] != '\n'
}

// Write implements io.Writer.
func (e *eventsFile) Write(b []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.torn {
		if _, err := e.file.WriteString("\n"); err != nil {
			return 0, err
		}
		e.torn = false
	}
	return e.file.Write(b)
}

func (e *eventsFile) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.file.Close()
}
