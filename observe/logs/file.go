package logs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// FileConfig says where a file of logs is, and when the next one begins.
type FileConfig struct {
	Path string
	// Daily begins a file each day, by local time. MaxBytes begins one when the file would be larger; 0 is no bound.
	Daily    bool
	MaxBytes int64
	// MaxFiles are kept besides the current one; 0 keeps all.
	MaxFiles int
}

// file is a log file.
type file struct {
	FileConfig
	f      *os.File
	size   int64
	day    string
	looked time.Time
	torn   bool // the last line is not whole
	plain  bool // else it is a device or pipe, which stays where it is
	buf    []byte
}

// OpenFile opens a file for logs, and makes it and its folder if they are missing.
func OpenFile(c FileConfig) (Output, error) {
	w := &file{FileConfig: c}
	if err := os.MkdirAll(filepath.Dir(c.Path), 0o755); err != nil {
		return nil, fmt.Errorf("open the log file: %w", err)
	}
	if err := w.begin(); err != nil {
		return nil, fmt.Errorf("open the log file: %w", err)
	}
	return w, nil
}

// begin is open. A pipe that nobody reads is opened when somebody does: till then what is written fails.
func (w *file) begin() error {
	if err := w.open(); !errors.Is(err, syscall.ENXIO) {
		return err
	}
	return nil
}

const dayLayout = "2006-01-02"

func (w *file) open() error {
	how := os.O_APPEND | os.O_CREATE | os.O_WRONLY
	if info, err := os.Stat(w.Path); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
		how |= syscall.O_NONBLOCK // else it waits for somebody who reads
	}
	f, err := os.OpenFile(w.Path, how, 0o640)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.f, w.size, w.day = f, info.Size(), time.Now().Format(dayLayout)
	w.plain = info.Mode().IsRegular()
	w.torn = w.plain && w.size > 0 && endsTorn(w.Path, w.size)
	if w.size > 0 {
		w.day = info.ModTime().Format(dayLayout)
	}
	return nil
}

// endsTorn reports whether the last line has no end: the process that wrote it was killed, or its disk full. The next
// line would be glued to it, and both be lost to whoever reads lines.
func endsTorn(path string, size int64) bool {
	r, err := os.Open(path)
	if err != nil {
		return true // an empty line does no harm
	}
	defer func() { _ = r.Close() }()
	last := make([]byte, 1)
	_, err = r.ReadAt(last, size-1)
	return err != nil || last[0] != '\n'
}

// Write implements Output.
func (w *file) Write(b *Batch) {
	var parts [][]byte
	for _, s := range b.Segments {
		parts = append(parts, s.Data)
	}
	written, err := w.write(parts...)
	if err == nil {
		written = b.Lines()
	}
	b.Done(b.Lines()-written, err)
}

// write writes lines at once, and returns how many of them are in the file if not all are.
func (w *file) write(parts ...[]byte) (written int, err error) {
	now := time.Now()
	if now.Sub(w.looked) >= time.Second {
		w.looked = now
		_ = w.followPath() // else the file before goes on
	}
	w.buf = w.buf[:0]
	if w.torn {
		w.buf = append(w.buf, '\n')
	}
	for _, part := range parts {
		w.buf = append(w.buf, part...)
	}
	if err = w.rotate(now, int64(len(w.buf))); w.f == nil {
		return 0, err
	}
	n, err := w.f.Write(w.buf)
	w.size += int64(n)
	if err == nil {
		w.torn = false
		return 0, nil
	}
	written = bytes.Count(w.buf[:n], []byte{'\n'})
	if w.torn && n > 0 {
		written--
	}
	w.tear(n)
	return written, err
}

// tear takes the beginning of a line away that could not be written whole, after n bytes of buf were.
func (w *file) tear(n int) {
	whole := bytes.LastIndexByte(w.buf[:n], '\n') + 1
	if whole == n || !w.plain {
		return
	}
	info, err := w.f.Stat()
	if err == nil && info.Size() == w.size && w.f.Truncate(w.size-int64(n-whole)) == nil { // nobody else wrote since
		w.size -= int64(n - whole)
		return
	}
	w.torn = true
}

// followPath opens the file again if it was moved or removed.
func (w *file) followPath() error {
	if w.f == nil || !w.plain {
		return nil
	}
	named, err := os.Stat(w.Path)
	have, err2 := w.f.Stat()
	if err == nil && err2 == nil && os.SameFile(named, have) {
		return nil
	}
	before := w.f
	if err := w.open(); err != nil {
		return err
	}
	_ = before.Close() // what was written to it, was
	return nil
}

// rotate begins the next file where it is time to. If it cannot, the current one goes on.
func (w *file) rotate(now time.Time, more int64) error {
	if w.f == nil {
		return w.open()
	}
	over := w.MaxBytes > 0 && w.size > 0 && w.size+more > w.MaxBytes
	if !w.plain || !over && (!w.Daily || w.day == now.Format(dayLayout)) {
		return nil
	}
	name := w.Path + "." + w.day
	for at := now; over || exists(name); at = at.Add(time.Microsecond) { // numbers that are used again would not sort
		name, over = w.Path+"."+at.Format(dayLayout+"T150405.000000"), false
	}
	if err := os.Rename(w.Path, name); err != nil {
		return err
	}
	before := w.f
	w.f = nil
	err := errors.Join(before.Close(), w.open())
	w.prune()
	return err
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// prune removes the oldest files.
func (w *file) prune() {
	if w.MaxFiles == 0 {
		return
	}
	all, _ := os.ReadDir(filepath.Dir(w.Path)) // what cannot be read is not removed
	var old []string
	for _, e := range all {
		stamp, ours := strings.CutPrefix(e.Name(), filepath.Base(w.Path)+".")
		if ours && len(stamp) >= len(dayLayout) {
			if _, err := time.Parse(dayLayout, stamp[:len(dayLayout)]); err == nil {
				old = append(old, filepath.Join(filepath.Dir(w.Path), e.Name()))
			}
		}
	}
	slices.Sort(old)
	for len(old) > w.MaxFiles {
		_ = os.Remove(old[0]) // tried again at the next rotation
		old = old[1:]
	}
}

// Close implements Output.
func (w *file) Close() {
	if w.f != nil {
		_ = w.f.Close() // nothing is buffered
	}
}
