package operate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
)

// BlobAge is how long a file of a body is left alone that no message needs, unless
// somebody says otherwise.
const BlobAge = codec.DefaultAge

// Collected is what became of the files of bodies, as JSON.
type Collected struct {
	Blobs    int   `json:"blobs"`
	Young    int   `json:"young"`
	Used     int   `json:"used"`
	Deferred int   `json:"deferred"`
	Removed  int   `json:"removed"`
	Bytes    int64 `json:"bytes"`
}

// Describe writes it for people.
func (c *Collected) Describe(w io.Writer, dry bool) {
	verb := "removed"
	if dry {
		verb = "would remove"
	}
	_, _ = fmt.Fprintf(w, "%s %d of %d files, %d bytes\n", verb, c.Removed, c.Blobs, c.Bytes)
	_, _ = fmt.Fprintf(w, "kept: %d in use, %d too young, %d that retained messages may need\n", c.Used, c.Young,
		c.Deferred)
}

// CollectBlobs removes files of bodies that no message of s needs. With dry nothing
// is changed, and what would be is returned.
func CollectBlobs(ctx context.Context, s store.Store, olderThan time.Duration, dry bool) (Collected, error) {
	c, ok := store.As[interface {
		Collect(context.Context, time.Duration) (codec.Collected, error)
		Collectable(context.Context, time.Duration) (codec.Collected, error)
	}](s)
	if !ok {
		return Collected{}, &store.Error{
			Op: "collect blobs", Code: store.ErrUnsupported,
			Err:  errors.New("the URL of the store has no blobs=FOLDER"),
			Hint: "give the URL that the programs have: pawl help store-urls",
		}
	}
	collect := c.Collect
	if dry {
		collect = c.Collectable
	}
	done, err := collect(ctx, olderThan)
	return Collected(done), err
}
