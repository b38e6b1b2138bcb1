package codec

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// ref names a file of a folder of blobs.
type ref struct {
	sum    [sha256.Size]byte
	size   int
	folder string // its id
}

// setSum reads "sha256:" and 64 hexadecimal digits.
func (r *ref) setSum(v string) bool {
	digits, ok := strings.CutPrefix(v, "sha256:")
	return ok && len(digits) == hex.EncodedLen(len(r.sum)) && readSum(&r.sum, digits)
}

// readSum reads a sum from the hexadecimal digits that a text begins with.
func readSum(s *sum, text string) bool {
	n, err := hex.Decode(s[:], []byte(text[:min(len(text), hex.EncodedLen(len(s)))]))
	return err == nil && n == len(s)
}

// folder keeps bodies by the sum of their content: aa/bb/<64 digits>. The file
// [marker] tells it from the empty place where it is not mounted, and from
// another folder. Safe for concurrent use, also by several processes.
type folder struct {
	path string
	id   string
}

const (
	marker  = "pawl-blobs"
	aside   = ".old" // of a file that Collect is about to remove
	gone    = ".gone"
	partial = ".tmp"
)

var errNoFolder = errors.New("its body is in a file, and this codec has no folder of blobs")

// openFolder opens a folder, or makes a new one of an empty or missing place
// whose parent is there.
func openFolder(path string) (*folder, error) {
	fail := func(code, err error, hint string) (*folder, error) {
		return nil, &store.Error{Op: "open folder of blobs " + path, Code: code, Err: err, Hint: hint}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return fail(store.ErrInvalid, err, "")
	}
	if err := os.Mkdir(path, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return fail(codeOf(err), err, "make the folder above it, or mount it")
	}
	f := &folder{path: path}
	if f.id, err = f.readMarker(); errors.Is(err, fs.ErrNotExist) {
		entries, err := os.ReadDir(path)
		if err != nil {
			return fail(codeOf(err), err, "")
		}
		for _, e := range entries {
			if e.Name() != "lost+found" && !strings.HasPrefix(e.Name(), ".") && e.Name() != marker {
				return fail(store.ErrConflict, fmt.Errorf("it has %s, but no file %s", e.Name(), marker),
					"name an empty folder, or put the file back")
			}
		}
		if f.id, err = f.mark(); err != nil {
			return fail(codeOf(err), err, "")
		}
	} else if err != nil {
		return fail(codeOf(err), err, "")
	}
	return f, nil
}

// mark gives the folder an id, unless another process does so at the same time.
func (f *folder) mark() (string, error) {
	temp := filepath.Join(f.path, "."+rand.Text()+partial)
	if err := writeSynced(temp, []byte(strings.ToLower(rand.Text()[:10])+"\n")); err != nil {
		return "", err
	}
	defer func() { _ = os.Remove(temp) }()
	err := os.Link(temp, filepath.Join(f.path, marker))
	if err != nil && !errors.Is(err, fs.ErrExist) { // no links here
		err = os.Rename(temp, filepath.Join(f.path, marker))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if err := syncFolder(f.path); err != nil {
		return "", err
	}
	return f.readMarker()
}

func (f *folder) readMarker() (string, error) {
	b, err := os.ReadFile(filepath.Join(f.path, marker))
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(string(b))
	if id == "" || strings.ContainsAny(id, ";=") {
		return "", fmt.Errorf("%s is damaged: %.20q", marker, id)
	}
	return id, nil
}

// refer returns what a message says of its blob.
func (f *folder) refer(content []byte) ref {
	return ref{sum: sha256.Sum256(content), size: len(content), folder: f.id}
}

// file is where a blob is.
func (f *folder) file(sum [sha256.Size]byte) string {
	name := hex.EncodeToString(sum[:])
	return filepath.Join(f.path, name[:2], name[2:4], name)
}

// put stores content durably. One that is there is made young again, so that
// Collect, which may run at the same time, leaves it alone: Collect moves a file
// aside before it looks at its age for the last time. So either it sees the new
// age, or put sees after the touch that the file is not there, and writes it.
func (f *folder) put(r *ref, content []byte) error {
	name := f.file(r.sum)
	dir := filepath.Dir(name)
	err := touch(name, r.size)
	if err == nil {
		err = syncFolder(dir) // its writer may not have got that far
	} else {
		if err = f.mkdirs(dir); err == nil {
			err = f.write(name, content)
		}
	}
	if err != nil {
		return &store.Error{Op: "write blob", Code: codeOf(err), Err: err,
			Hint: "look at the folder of blobs " + f.path}
	}
	return nil
}

// touch makes a file young and reports whether it is there still, and whole.
func touch(name string, size int) error {
	now := time.Now()
	if err := os.Chtimes(name, now, now); err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err == nil && (!info.Mode().IsRegular() || info.Size() != int64(size)) {
		err = errors.New("it is not whole")
	}
	return err
}

// mkdirs makes the two levels, durably. The folder itself must be there: where
// it is not mounted nothing is written.
func (f *folder) mkdirs(dir string) error {
	if id, err := f.readMarker(); err != nil {
		return err
	} else if id != f.id {
		return fmt.Errorf("it was folder %s and is %s now", f.id, id)
	}
	for _, d := range []string{filepath.Dir(dir), dir} {
		err := os.Mkdir(d, 0o750)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := syncFolder(filepath.Dir(d)); err != nil {
			return err
		}
	}
	return nil
}

// write writes a file under a temporary name first, so that no reader sees half of it.
func (f *folder) write(name string, content []byte) error {
	temp := name + "." + rand.Text() + partial
	err := writeSynced(temp, content)
	if err == nil {
		err = os.Rename(temp, name)
	}
	if err != nil {
		_ = os.Remove(temp)
		return err
	}
	return syncFolder(filepath.Dir(name))
}

func writeSynced(name string, content []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o640)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // it synchronises no folders
	}
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// read returns a blob that is whole. It is damaged, for good, if the file is not
// what it was, or is missing from the very folder that it was written to. All
// else may be better later.
func (f *folder) read(ctx context.Context, r *ref) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, &store.Error{Op: "read blob", Err: err}
	}
	name := f.file(r.sum)
	content, err := readBounded(name, r.size)
	for _, again := range []string{name + aside, name} { // Collect puts back what it should not have moved
		if errors.Is(err, fs.ErrNotExist) {
			content, err = readBounded(again, r.size)
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, f.missing(name, r)
	case err != nil:
		return nil, &store.Error{Op: "read blob " + name, Code: store.ErrUnavailable, Err: err,
			Hint: "look at the folder of blobs " + f.path}
	case len(content) != r.size:
		return nil, damaged("blob %s no longer has its %d bytes", name, r.size)
	case sha256.Sum256(content) != r.sum:
		return nil, damaged("blob %s has changed: its SHA-256 is %x", name, sha256.Sum256(content))
	}
	return content, nil
}

// readBounded reads a file; of one that is longer than size a byte more.
func readBounded(name string, size int) ([]byte, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	content := make([]byte, size+1)
	n, err := io.ReadFull(file, content)
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		err = nil
	}
	return content[:n], err
}

// missing tells a file that is gone from a folder that is not there.
func (f *folder) missing(name string, r *ref) error {
	id, err := f.readMarker()
	switch {
	case err != nil:
		return &store.Error{Op: "read blob " + name, Code: store.ErrUnavailable, Err: err,
			Hint: "is the folder of blobs mounted?"}
	case id != r.folder:
		return &store.Error{
			Op: "read blob " + name, Code: store.ErrUnavailable,
			Err:  fmt.Errorf("it was written to folder %s, this is %s", r.folder, id),
			Hint: "mount or copy the folder that it was written to",
		}
	}
	return damaged("blob %s is missing", name)
}

// codeOf is the code of an error of the file system.
func codeOf(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return store.ErrFull
	}
	return store.ErrUnavailable
}
