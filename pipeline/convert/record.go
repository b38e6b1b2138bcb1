package convert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// States of a file, as state.json has them.
const (
	pending    = "pending"
	processing = "processing"
	completed  = "completed"
	failed     = "failed"
	permanent  = "permanent_failure"
)

// record is what the store knows of a file: a mark under its path.
type record struct {
	Path    string    `json:"path"` // relative to its source
	Status  string    `json:"status"`
	Size    int64     `json:"size"`
	ModTime time.Time `json:"mtime"`
	// Options are those that the output depends on.
	Options  string    `json:"options,omitempty"`
	Failures int       `json:"failures,omitempty"` // over all runs
	Forgiven int       `json:"forgiven,omitempty"` // of these, those before it was last tried again by --retry-failed
	Output   string    `json:"output,omitempty"`
	SHA256   string    `json:"sha256,omitempty"` // of the source
	Pictures []string  `json:"pictures,omitempty"`
	Error    string    `json:"error,omitempty"`
	Kind     pawl.Kind `json:"kind,omitempty"`
	FailedAt time.Time `json:"failed_at,omitzero"`
}

// same reports whether the file is as it was when it was looked at last.
func (r *record) same(size int64, mod time.Time, options string) bool {
	return r.Size == size && r.ModTime.Equal(mod) && r.Options == options
}

// markKey is the key of a path. A long one is told apart by a hash.
func markKey(path string) string {
	if len(path) <= pawl.MaxKey {
		return path
	}
	sum := sha256.Sum256([]byte(path))
	return path[:pawl.MaxKey-65] + "#" + hex.EncodeToString(sum[:])
}

// put writes marks, durably when it returns. No context ends it: what was paid for is written down. Stores gather what
// is put at the same time.
func put(to store.Shared, marks ...pawl.Mark) error {
	receipts, err := to.PutMarks(context.Background(), marks...)
	for i := 0; i < len(receipts) && err == nil; i++ {
		err = receipts[i].Err
	}
	return err
}

// write stores a record.
func (r *run) write(rec *record) error {
	value, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	r.changed.Store(true)
	return put(r.marks, pawl.Mark{Scope: r.scope, Key: markKey(rec.Path), Value: value, If: pawl.AnyVersion})
}
