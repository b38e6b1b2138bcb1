package pipeline

import (
	"bufio"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces a file, or creates it with the given mode, with the output of write. Readers never see a partial
// file: the content goes to another file in the same folder, is synced, and then renamed. After an error the file is
// unchanged. The writer is buffered and keeps its first error, which WriteFile returns: write need not check each
// call.
func WriteFile(name string, mode fs.FileMode, write func(io.Writer) error) error {
	dir := filepath.Dir(name)
	part := filepath.Join(dir, ".pawl-"+rand.Text()+".part") // two writers of one file do not mix
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(f, 64<<10)
	if err = write(w); err == nil {
		err = errors.Join(w.Flush(), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, name)
	}
	if err != nil {
		_ = os.Remove(part)
		return err
	}
	return syncDir(dir)
}

// MakeState makes a folder for what is kept between runs. Git ignores a folder .pawl that it makes with it, around it
// or as it.
func MakeState(dir string) error {
	top := dir
	for filepath.Base(top) != stateFolder && filepath.Dir(top) != top {
		top = filepath.Dir(top)
	}
	_, err := os.Stat(top)
	if err := os.MkdirAll(dir, 0o755); err != nil || filepath.Base(top) != stateFolder {
		return err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return os.WriteFile(filepath.Join(top, ignoreFile), []byte("*\n"), 0o644)
	}
	return nil
}

// RemoveState removes a folder of MakeState if it is empty, and the folder .pawl around it if nothing else is in that.
func RemoveState(dir string) {
	if left, err := os.ReadDir(dir); err == nil && filepath.Base(dir) == stateFolder && len(left) == 1 {
		if left[0].Name() == ignoreFile {
			_ = os.Remove(filepath.Join(dir, ignoreFile))
		}
	}
	if os.Remove(dir) == nil && filepath.Base(filepath.Dir(dir)) == stateFolder {
		RemoveState(filepath.Dir(dir))
	}
}

const (
	stateFolder = ".pawl"
	ignoreFile  = ".gitignore"
)

// syncDir makes a renaming durable. It is not an error if the system cannot sync folders.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return nil //nolint:nilerr // a folder that one may write to, but not read
	}
	_ = d.Sync()
	return d.Close()
}
