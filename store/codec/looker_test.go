package codec_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
	"github.com/pawl-dev/pawl/store/memory"
)

// logLike is a store that finds messages by reading, as a log does.
type logLike struct {
	store.Store
	store.DeadLetters
	store.Inspector
	after func() // a listing; nil: nothing
}

func (l *logLike) Describe() store.Description { return store.Description{} }

func (l *logLike) Unwrap() store.Store { return nil }

func (l *logLike) List(ctx context.Context, f store.Filter) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		for r, err := range l.Inspector.List(ctx, f) {
			if !yield(r, err) {
				return
			}
		}
		if l.after != nil {
			l.after()
		}
	}
}

func overLog(t *testing.T, c codec.Config) (*rig, *logLike) {
	r := &rig{TB: t, clock: &clock{now: time.Now()}, blobs: filepath.Join(t.TempDir(), "blobs")}
	m := memory.New(memory.Config{Now: r.Now})
	l := &logLike{Store: m, DeadLetters: m, Inspector: m}
	r.inner = l
	r.wrap(c)
	return r, l
}

// TestLookOverALog: messages of a store without look-ups are decoded, too.
func TestLookOverALog(t *testing.T) {
	for _, c := range []codec.Config{{Compress: true}, {Offload: 1024}} {
		r, l := overLog(t, c)
		body := fmt.Append(nil, bytes.Repeat([]byte("what is compressed "), 200))
		id := r.put(msg(body))[0]
		raw, err := l.Get(t.Context(), id)
		if r.must(err); bytes.Equal(raw.Body, body) {
			t.Fatal("it is not encoded")
		}
		shown, err := r.Show(t.Context(), raw)
		if r.must(err); !bytes.Equal(shown.Body, body) {
			t.Errorf("shown: %.60q", shown.Body)
		}
		look, ok := store.As[store.Inspector](r.Store)
		if !ok {
			t.Fatal("no Inspector")
		}
		if _, ok := store.As[store.Inspector](r.Store, store.CanLookup); ok {
			t.Fatal("it does not find messages by id")
		}
		for r0, err := range look.List(t.Context(), store.Filter{}) {
			if r.must(err); !bytes.Equal(r0.Body, body) || r0.Headers[codec.Header] != "" {
				t.Errorf("listed: %.60q %v", r0.Body, r0.Headers)
			}
		}
		r.kill()
		next := fmt.Append(nil, bytes.Repeat([]byte("it was edited "), 200))
		for _, b := range [][]byte{body, next} {
			got, err := look.Get(t.Context(), id)
			if r.must(err); got.State != store.IsDead || !bytes.Equal(got.Body, b) || got.Headers[codec.Header] != "" {
				t.Errorf("got: %.60q %v", got.Body, got.Headers)
			}
			r.none(r.letters().Edit(t.Context(), store.Edit{ID: id, Body: next}))
		}
	}
}

// TestCollectAndAReplayOverALog: what is replayed between two listings keeps its
// body, whether or not the store looks messages up.
func TestCollectAndAReplayOverALog(t *testing.T) {
	r, l := overLog(t, codec.Config{Offload: 1024})
	body := noise(2000, 1)
	id := r.put(msg(body))[0]
	r.kill()
	r.age(48*time.Hour, r.file())
	l.after = func() {
		// Dead for every listing of the live ones, alive for every one of the dead.
		r.none(r.letters().Replay(t.Context(), "", id))
		l.after = nil
	}
	_, err := r.Collect(t.Context(), 0)
	r.must(err)
	r.file()
	info, err := os.Stat(r.file())
	if r.must(err); time.Since(info.ModTime()) > time.Hour {
		t.Error("the replay leaves the file old")
	}
	r.bodies(body)
	id = r.put(msg(body))[0]
	r.kill()
	l.Inspector = away{l.Inspector}
	if refused, err := r.letters().Replay(t.Context(), "", id); err == nil {
		t.Errorf("replayed although its body may be collected meanwhile; refused %v", refused)
	}
}

// away is an Inspector that does not answer.
type away struct{ store.Inspector }

func (away) Get(context.Context, string) (store.Record, error) {
	return store.Record{}, &store.Error{Op: "get", Code: store.ErrUnavailable}
}
