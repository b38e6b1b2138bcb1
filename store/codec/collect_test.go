package codec_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
	"github.com/pawl-dev/pawl/store/memory"
)

func (r *rig) collect(olderThan time.Duration, want codec.Collected) {
	r.Helper()
	told, err := r.Collectable(r.Context(), olderThan)
	if r.must(err); told != want {
		r.Fatalf("collectable %+v; want %+v", told, want)
	}
	got, err := r.Collect(r.Context(), olderThan)
	if r.must(err); got != want {
		r.Fatalf("collected %+v; want %+v", got, want)
	}
}

// TestCollectRemovesWhatNobodyNeeds has a blob for every state of a message.
func TestCollectRemovesWhatNobodyNeeds(t *testing.T) {
	r := newRig(t, codec.Config{Offload: 1024})
	r.put(msg(noise(2000, 1)), msg(noise(2000, 2)), msg(noise(2000, 3)), msg(noise(2000, 4)))
	ds := r.claimed(store.Want{Limit: 3}) // the fourth waits
	r.ack(ds[0])
	r.settle(store.Settlement{Token: ds[1].Token, ID: ds[1].ID, Verdict: store.Dead})
	delayed := msg(noise(2000, 5))
	delayed.Delay = time.Hour
	r.put(delayed)
	r.collect(0, codec.Collected{Blobs: 5, Young: 5})
	r.age(23*time.Hour, r.files()...)
	r.collect(0, codec.Collected{Blobs: 5, Young: 5})
	r.age(2*time.Hour, r.files()...)
	r.collect(0, codec.Collected{Blobs: 5, Used: 4, Removed: 1, Bytes: 2000})
	r.collect(time.Minute, codec.Collected{Blobs: 4, Used: 4})
	r.bodies(noise(2000, 4))
	r.Advance(time.Hour) // the leased one is rescued, the delayed one is due
	r.bodies(noise(2000, 3), noise(2000, 5))
	r.none(r.letters().Replay(t.Context(), "", ds[1].ID))
	r.bodies(noise(2000, 2))
	r.age(48*time.Hour, r.files()...)
	r.collect(0, codec.Collected{Blobs: 4, Removed: 4, Bytes: 8000})
	if _, err := r.Collect(t.Context(), -1); !errors.Is(err, store.ErrInvalid) {
		t.Fatal(err)
	}
}

// TestUseMakesYoung: whatever refers to a file anew makes it young.
func TestUseMakesYoung(t *testing.T) {
	body := noise(2000, 1)
	for name, use := range map[string]func(r *rig, id string){
		"append": func(r *rig, _ string) { r.put(msg(body)) },
		"emit": func(r *rig, _ string) {
			r.put(msg(nil))
			d := r.claimed(store.Want{Limit: 1})[0]
			r.settle(store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack, Emit: []pawl.Message{msg(body)}})
		},
		"edit": func(r *rig, id string) {
			r.none(r.letters().Edit(t.Context(), store.Edit{ID: id, Body: body}))
		},
		"import": func(r *rig, id string) {
			letter := r.seen(id)
			letter.ID = "another"
			r.none(r.letters().Import(t.Context(), letter))
		},
		"replay": func(r *rig, id string) { r.none(r.letters().Replay(t.Context(), "", id)) },
	} {
		r := newRig(t, codec.Config{Offload: 1024})
		id := r.put(msg(body))[0]
		r.kill()
		r.age(48*time.Hour, r.file())
		use(r, id)
		info, err := os.Stat(r.file())
		if r.must(err); time.Since(info.ModTime()) > time.Hour {
			t.Errorf("%s leaves the file old", name)
		}
	}
}

func TestCollectWaitsForTheRetained(t *testing.T) {
	r := newRig(t, codec.Config{Offload: 1024})
	topics, _ := store.As[store.Topics](r.Store)
	retain := time.Hour
	_, err := topics.Declare(t.Context(), store.Declaration{Name: topic, Retain: &retain})
	r.must(err)
	body := noise(2000, 1)
	id := r.put(msg(body))[0]
	r.bodies(body)
	file := r.file()
	r.age(24*time.Hour, file)
	r.collect(time.Minute, codec.Collected{Blobs: 1, Deferred: 1})
	r.collect(time.Minute, codec.Collected{Blobs: 1, Deferred: 1})
	if rec := r.seen(id); rec.State != store.Acked || !bytes.Equal(rec.Body, body) {
		t.Fatalf("retained: %+v", rec)
	}
	r.age(time.Hour, file+".gone") // an hour, and the minute
	r.collect(time.Minute, codec.Collected{Blobs: 1, Deferred: 1})
	r.put(msg(body)) // and acked soon
	r.bodies(body)
	r.age(time.Hour, file)
	r.collect(time.Minute, codec.Collected{Blobs: 1, Deferred: 1})
	r.age(10*time.Minute, file+".gone")
	r.age(3*time.Hour, file)
	r.collect(time.Minute, codec.Collected{Blobs: 1, Deferred: 1})
	r.age(55*time.Minute, file+".gone")
	r.collect(time.Minute, codec.Collected{Blobs: 1, Removed: 1, Bytes: 2000})
	if _, err := os.Stat(file + ".gone"); !errors.Is(err, os.ErrNotExist) {
		t.Error("the note stays behind")
	}
}

func TestCollectTidies(t *testing.T) {
	r := newRig(t, codec.Config{Offload: 1024})
	r.put(msg(noise(2000, 1)), msg(noise(2000, 2)))
	a, b := r.files()[0], r.files()[1]
	content, err := os.ReadFile(a)
	r.must(err)
	r.must(os.WriteFile(a+".old", content, 0o600)) // written anew since
	r.must(os.Rename(b, b+".old"))
	r.must(os.WriteFile(a+".x.tmp", content, 0o600))
	r.must(os.WriteFile(filepath.Join(r.blobs, "README"), nil, 0o600))
	r.age(25*time.Hour, a+".x.tmp", filepath.Join(r.blobs, "README"))
	_, err = r.Collect(t.Context(), 0)
	r.must(err)
	var left []string
	r.must(filepath.WalkDir(r.blobs, func(name string, d os.DirEntry, err error) error {
		if !d.IsDir() {
			left = append(left, strings.TrimPrefix(name, r.blobs+"/"))
		}
		return err
	}))
	if len(left) != 4 || len(r.files()) != 2 {
		t.Fatalf("left: %q", left)
	}
}

func TestCollectNeedsItsFolder(t *testing.T) {
	r := newRig(t, codec.Config{Offload: 1024})
	r.put(msg(noise(2000, 1)))
	r.must(os.Remove(filepath.Join(r.blobs, "pawl-blobs")))
	_, err := r.Collect(t.Context(), time.Nanosecond)
	wantCode(t, err, store.ErrUnavailable)
	s, err := codec.New(memory.New(memory.Config{}), codec.Config{})
	r.must(err)
	_, err = s.Collect(t.Context(), 0)
	wantCode(t, err, store.ErrUnsupported)
}

// unlisted is a store whose listings are interrupted.
type unlisted struct {
	store.Store
	store.Inspector
	before, after func()
	err           error
}

func (u *unlisted) Unwrap() store.Store { return u.Store }

func (u *unlisted) List(ctx context.Context, f store.Filter) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		u.before()
		for r, err := range u.Inspector.List(ctx, f) {
			if !yield(r, err) {
				return
			}
		}
		u.after()
		if u.err != nil {
			yield(store.Record{}, u.err)
		}
	}
}

// TestCollectWhileOthersWork: what changes between the listings loses nothing.
func TestCollectWhileOthersWork(t *testing.T) {
	body := noise(2000, 1)
	nothing := func() {}
	for name, during := range map[string]func(r *rig){
		"it dies":        func(r *rig) { r.kill() },
		"it dies first":  func(r *rig) { r.kill() },
		"same appended":  func(r *rig) { r.kill(); r.purge(); r.put(msg(body)) },
		"it is replayed": func(r *rig) { r.kill(); r.replayAll() },
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, codec.Config{Offload: 1024})
			r.put(msg(body))
			if name == "it is replayed" {
				r.kill()
			}
			r.age(48*time.Hour, r.file())
			inspector, _ := store.As[store.Inspector](r.inner, store.CanLookup)
			u := &unlisted{Store: r.inner, Inspector: inspector, before: nothing, after: nothing}
			if r.inner = u; name == "it dies first" {
				u.before = func() { during(r) }
			} else {
				u.after = func() { during(r) }
			}
			r.wrap(codec.Config{Offload: 1024})
			if _, err := r.Collect(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
			r.file()
			if len(r.dead(store.DeadFilter{})) > 0 {
				r.replayAll()
			}
			r.bodies(body)
		})
	}
	r := newRig(t, codec.Config{Offload: 1024})
	r.put(msg(body))
	r.bodies(body)
	r.age(48*time.Hour, r.file())
	inspector, _ := store.As[store.Inspector](r.inner, store.CanLookup)
	r.inner = &unlisted{Store: r.inner, Inspector: inspector, before: nothing, after: nothing,
		err: store.ErrUnavailable}
	r.wrap(codec.Config{})
	_, err := r.Collect(t.Context(), 0)
	wantCode(t, err, store.ErrUnavailable)
	r.file()
}

func (r *rig) purge() {
	r.Helper()
	for _, rec := range r.dead(store.DeadFilter{}) {
		r.none(r.letters().Purge(r.Context(), rec.ID))
	}
}

func (r *rig) replayAll() {
	r.Helper()
	for _, rec := range r.dead(store.DeadFilter{}) {
		r.none(r.letters().Replay(r.Context(), "", rec.ID))
	}
}

// TestCollectAgainstAppend: bodies come and go while several collect; whoever
// appended one finds it.
func TestCollectAgainstAppend(t *testing.T) {
	r := newRig(t, codec.Config{Offload: 1024})
	ctx, cancel := context.WithCancel(t.Context())
	var collectors sync.WaitGroup
	var removed atomic.Int64
	for i := range 2 {
		collectors.Go(func() {
			for ctx.Err() == nil {
				c, err := r.Collect(ctx, time.Hour)
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				if i == 0 {
					removed.Add(int64(c.Removed))
				}
			}
		})
	}
	rounds := 400
	if testing.Short() {
		rounds = 100
	}
	for i := 0; i < rounds || removed.Load() == 0 && i < 100*rounds; i++ { // on a fast disk a collector comes late
		body := noise(1100, uint64(i%3))
		for _, file := range r.files() { // nobody needs them now
			long := time.Now().Add(-2 * time.Hour)
			_ = os.Chtimes(file, long, long)
		}
		r.put(msg(body))
		r.bodies(body)
	}
	cancel()
	collectors.Wait()
	r.reported(0)
	t.Logf("one of two collectors removed %d files", removed.Load())
	if removed.Load() == 0 {
		t.Error("nothing was removed meanwhile")
	}
}
