package convert

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// images keeps the pictures of documents, named by their content; the zero value keeps none.
type images struct {
	dir  string
	from string // the folder that outputs are in, for links; empty: links are to dir
}

// keeper returns what keeps the pictures of one document. failed is why one could not be kept.
func (i images) keeper(output string, failed *error) func(name string, data []byte) string {
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
				*failed = err
				return name
			}
		}
		link := full
		if rel, err := filepath.Rel(filepath.Join(i.from, filepath.Dir(filepath.FromSlash(output))),
			full); i.from != "" && err == nil {
			link = rel
		}
		return filepath.ToSlash(link)
	}
}
