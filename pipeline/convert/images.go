package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// images keeps the pictures of documents, named by their content; the zero value keeps none.
type images struct {
	dir  string
	from string // the folder that outputs are in, for links; empty: links are to dir
}

// pictures are those of one document.
type pictures struct {
	names []string
	err   error // why one could not be kept
}

// there reports whether all pictures with these names are.
func (i images) there(names []string) bool {
	return !slices.ContainsFunc(names, func(name string) bool {
		_, err := os.Stat(filepath.Join(i.dir, name))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// keeper returns what keeps the pictures of one document, and notes them.
func (i images) keeper(output string, all *pictures) func(name string, data []byte) string {
	if i.dir == "" {
		return nil
	}
	return func(name string, data []byte) string {
		sum := sha256.Sum256(data)
		file := hex.EncodeToString(sum[:8]) + strings.ToLower(path.Ext(name))
		full := filepath.Join(i.dir, file)
		// One that has another size is what was left of it when a disk was full.
		if info, err := os.Stat(full); err != nil || info.Size() != int64(len(data)) {
			if err := writeFile(full, string(data)); err != nil {
				all.err = err
				return name
			}
		}
		if !slices.Contains(all.names, file) {
			all.names = append(all.names, file)
		}
		link := full
		if rel, err := filepath.Rel(filepath.Join(i.from, filepath.Dir(filepath.FromSlash(output))),
			full); i.from != "" && err == nil {
			link = rel
		}
		return filepath.ToSlash(link)
	}
}
