package codec

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// Collected is the result of a [Store.Collect].
type Collected struct {
	Blobs    int   // files of bodies, before
	Young    int   // of these, too young to be looked at
	Used     int   // of these, needed by a message
	Deferred int   // of these, needed by no message but perhaps by a retained one
	Removed  int   // of these, removed
	Bytes    int64 // that were freed
}

// Collect removes blobs that no message needs any more and that were last used,
// by any append, more than olderThan ago; 0 is [DefaultAge]. A message that is
// appended in a transaction, or by a process with another clock, counts from when
// it is visible: olderThan must be longer than that takes.
//
// It lists all messages of the store that the codec wraps, and of each [Keeper] on
// the way down, twice. Retained ones cannot be listed: where a topic
// retains, a blob is removed by a later call, once it has been unused for longer
// than any topic retains now. Nor does a log list what is finished, although others
// may read it still: there olderThan must be longer than its topics keep their
// records. [store.ErrUnsupported]: the store cannot list what it has, or the codec
// has no folder.
//
// Appends may go on meanwhile, and several processes may collect at once.
func (s *Store) Collect(ctx context.Context, olderThan time.Duration) (Collected, error) {
	return s.collect(ctx, olderThan, false)
}

// Collectable tells what [Store.Collect] would do now, and changes nothing.
func (s *Store) Collectable(ctx context.Context, olderThan time.Duration) (Collected, error) {
	return s.collect(ctx, olderThan, true)
}

func (s *Store) collect(ctx context.Context, olderThan time.Duration, dry bool) (Collected, error) {
	if olderThan == 0 {
		olderThan = DefaultAge
	}
	if olderThan < 0 {
		return Collected{}, &store.Error{Op: "collect", Code: store.ErrInvalid,
			Err: fmt.Errorf("age %v is negative", olderThan)}
	}
	looker, canList := store.As[store.Inspector](s.inner)
	letters, canDead := store.As[store.DeadLetters](s.inner)
	switch {
	case s.decode.blobs == nil:
		return Collected{}, &store.Error{Op: "collect", Code: store.ErrUnsupported,
			Err: errors.New("this codec has no folder of blobs")}
	case !canList || !canDead:
		return Collected{}, &store.Error{Op: "collect", Code: store.ErrUnsupported,
			Err: errors.New("the store cannot list what it has")}
	}
	retain, err := s.longestRetention(ctx)
	if err != nil {
		return Collected{}, err
	}
	c := collection{dry: dry, folder: s.decode.blobs, before: time.Now().Add(-olderThan), old: map[sum]time.Time{}}
	if retain > 0 {
		c.deferral = retain + olderThan
	}
	if err := c.scan(ctx); err != nil {
		return c.Collected, err
	}
	if len(c.old) == 0 {
		return c.Collected, nil
	}
	// A listing may miss what changes its place meanwhile, as a delayed message does when
	// it is due. So there are two: to be missed by both a message would have to move twice,
	// which it does only by a replay. Live ones come first: what dies meanwhile is seen
	// among the dead. What is replayed meanwhile is made young.
	for range 2 {
		all := append(s.kept(ctx), looker.List(ctx, store.Filter{}), letters.Dead(ctx, store.DeadFilter{}))
		for _, records := range all {
			if err := c.use(records); err != nil {
				return c.Collected, err
			}
		}
	}
	return c.Collected, c.remove(ctx)
}

// Keeper is the optional interface of a store, between the codec and the one that
// has the messages, that keeps some in another place, where the listings below do
// not find them.
type Keeper interface {
	// Kept yields these messages, dead ones too, as they were appended to it. It is
	// for [Store.Collect]: a record has its headers, and the rest need not be there.
	Kept(ctx context.Context) iter.Seq2[store.Record, error]
}

// kept is what is in other places, the outermost one first: from there messages go
// inwards, and so one that does meanwhile is seen in the next listing.
func (s *Store) kept(ctx context.Context) (all []iter.Seq2[store.Record, error]) {
	for below := s.inner; below != nil; {
		if k, ok := below.(Keeper); ok {
			all = append(all, k.Kept(ctx))
		}
		w, ok := below.(interface{ Unwrap() store.Store })
		if !ok {
			break
		}
		below = w.Unwrap()
	}
	return all
}

// longestRetention is for how long acked messages may be there.
func (s *Store) longestRetention(ctx context.Context) (longest time.Duration, err error) {
	topics, ok := store.As[store.Topics](s.inner)
	if !ok {
		return 0, nil
	}
	all, err := topics.Stats(ctx)
	for _, t := range all {
		longest = max(longest, t.Retain)
	}
	return longest, err
}

type sum = [sha256.Size]byte

// collection is one call of Collect.
type collection struct {
	Collected
	dry      bool // change nothing
	folder   *folder
	before   time.Time         // younger files are left alone
	deferral time.Duration     // how long an unused file waits; 0: not at all
	old      map[sum]time.Time // files without a known user, and their age
}

// scan finds the old files, and tidies what others left behind.
func (c *collection) scan(ctx context.Context) error {
	if id, err := c.folder.readMarker(); err != nil || id != c.folder.id {
		return &store.Error{Op: "collect", Code: store.ErrUnavailable,
			Err: errors.Join(err, errors.New("the folder of blobs is not there")), Hint: "is it mounted?"}
	}
	err := filepath.WalkDir(c.folder.path, func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
			return nil
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case d.IsDir() || !d.Type().IsRegular():
			return nil
		}
		return c.look(name, d)
	})
	if err != nil {
		return &store.Error{Op: "collect", Code: store.ErrUnavailable, Err: err}
	}
	return nil
}

func (c *collection) look(name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return ignoreMissing(err)
	}
	isOld := info.ModTime().Before(c.before)
	if filepath.Ext(name) == partial {
		if isOld && !c.dry {
			return ignoreMissing(os.Remove(name))
		}
		return nil
	}
	if blob, found := strings.CutSuffix(name, aside); found && !c.dry {
		return c.putBack(name, blob)
	}
	base := filepath.Base(name)
	var s sum
	if !readSum(&s, base) || c.folder.file(s) != name {
		return nil
	}
	if c.Blobs++; !isOld {
		c.Young++
		return nil
	}
	c.old[s] = info.ModTime()
	return nil
}

// putBack ends what a Collect began that did not come to its end.
func (c *collection) putBack(old, blob string) error {
	if _, err := os.Stat(blob); err == nil {
		return ignoreMissing(os.Remove(old))
	}
	return ignoreMissing(os.Rename(old, blob))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// use takes out of the old files those that records need. A header of a newer
// version is looked through for sums, too.
func (c *collection) use(records iter.Seq2[store.Record, error]) error {
	for r, err := range records {
		if err != nil {
			return err
		}
		value := r.Headers[Header]
		for {
			var found bool
			if _, value, found = strings.Cut(value, "sha256:"); !found {
				break
			}
			var s sum
			if !readSum(&s, value) {
				continue
			}
			if _, there := c.old[s]; there {
				delete(c.old, s)
				c.Used++
				if !c.dry {
					_ = os.Remove(c.folder.file(s) + gone)
				}
			}
		}
	}
	return nil
}

// remove removes the files that are left.
func (c *collection) remove(ctx context.Context) error {
	for s, seen := range c.old {
		if err := ctx.Err(); err != nil {
			return &store.Error{Op: "collect", Err: err}
		}
		name := c.folder.file(s)
		wait, err := c.mustWait(name, seen)
		if err == nil && !wait {
			err = c.removeOne(name, seen)
		}
		if err != nil {
			return &store.Error{Op: "collect", Code: store.ErrUnavailable, Err: err}
		}
		if wait {
			c.Deferred++
		}
	}
	return nil
}

// mustWait reports whether an unused file may belong to a retained message. A file
// beside it notes since when it is unused.
func (c *collection) mustWait(name string, seen time.Time) (bool, error) {
	if c.deferral == 0 {
		return false, nil
	}
	info, err := os.Stat(name + gone)
	if err == nil && info.ModTime().After(seen) {
		return time.Since(info.ModTime()) < c.deferral, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if c.dry {
		return true, nil
	}
	if err := os.WriteFile(name+gone, nil, 0o640); err != nil {
		return false, err
	}
	now := time.Now()
	return true, os.Chtimes(name+gone, now, now)
}

// removeOne moves a file aside, looks whether it was made young meanwhile, and
// puts it back or removes it. See [folder.put].
func (c *collection) removeOne(name string, seen time.Time) error {
	if c.dry {
		info, err := os.Stat(name)
		if err == nil {
			c.Removed, c.Bytes = c.Removed+1, c.Bytes+info.Size()
		}
		return ignoreMissing(err)
	}
	if err := os.Rename(name, name+aside); err != nil {
		return ignoreMissing(err)
	}
	info, err := os.Stat(name + aside)
	if err != nil {
		return ignoreMissing(err)
	}
	if !info.ModTime().Equal(seen) {
		c.Young++
		return ignoreMissing(os.Rename(name+aside, name))
	}
	if err := os.Remove(name + aside); err != nil {
		return ignoreMissing(err)
	}
	_ = os.Remove(name + gone)
	c.Removed++
	c.Bytes += info.Size()
	return nil
}
