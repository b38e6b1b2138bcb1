package codec_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/spill"
)

// overfull is a store that takes nothing.
type overfull struct{ store.Store }

func (f overfull) Unwrap() store.Store { return f.Store }

func (f overfull) Append(context.Context, store.Batch[pawl.Message]) ([]store.Receipt, error) {
	return nil, &store.Error{Op: "append", Code: store.ErrFull, Err: errors.New("it is full")}
}

// overSpill is a codec over a primary store that takes nothing.
func overSpill(t *testing.T, fallback store.Store) *rig {
	r := &rig{TB: t, clock: &clock{}, blobs: filepath.Join(t.TempDir(), "blobs")}
	s, err := spill.New(overfull{memory.New(memory.Config{})}, fallback, spill.Config{PrimaryTimeout: time.Second})
	r.must(err)
	t.Cleanup(func() { _ = s.Close() })
	r.inner = s
	r.wrap(codec.Config{Offload: 1024})
	return r
}

// TestCollectSparesWhatIsElsewhere: a message that waits in the fallback store of a
// spill, or died there, keeps its body.
func TestCollectSparesWhatIsElsewhere(t *testing.T) {
	foreign := keyed("k", noise(4000, 1))
	foreign.Headers = map[string]string{"pawl-spill-topic": "mine"} // all headers go into the body of the row
	for name, message := range map[string]pawl.Message{"spilled": keyed("k", noise(4000, 1)), "spilled packed": foreign} {
		for _, dead := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " dead"}[dead], func(t *testing.T) {
				elsewhere := memory.New(memory.Config{})
				r := overSpill(t, elsewhere)
				id := r.put(message)[0]
				if dead {
					row, err := elsewhere.Get(t.Context(), id)
					r.must(err)
					elsewhere = memory.New(memory.Config{})
					again := overSpill(t, elsewhere)
					again.blobs = r.blobs
					again.wrap(codec.Config{Offload: 1024})
					r = again
					letter := store.Record{Message: row.Message, State: store.IsDead, EnqueuedAt: time.Now(),
						DeadAt: time.Now()}
					r.none(elsewhere.Import(t.Context(), letter))
				}
				r.age(48*time.Hour, r.file())
				r.collect(0, codec.Collected{Blobs: 1, Used: 1})
				r.none(r.purgeIn(elsewhere, id))
				if dead {
					r.collect(0, codec.Collected{Blobs: 1, Removed: 1, Bytes: 4000})
				}
			})
		}
	}
}

// purgeIn removes a dead letter, if it is one.
func (r *rig) purgeIn(s *memory.Store, id string) (map[string]error, error) {
	if rec, err := s.Get(r.Context(), id); err != nil || rec.State != store.IsDead {
		return nil, err
	}
	return s.Purge(r.Context(), id)
}

// TestCollectAndADamagedRow: what a damaged row needs is not known.
func TestCollectAndADamagedRow(t *testing.T) {
	fallback := memory.New(memory.Config{})
	r := overSpill(t, fallback)
	m := keyed("k", []byte("\xff\xff\xff\xff\xff"))
	m.Topic, m.Headers = "spill.a", map[string]string{spill.HeaderTopic: "a", "pawl-spill-packed": "1"}
	m.ID = "damaged"
	r.none(fallback.Import(t.Context(), store.Record{Message: m, State: store.IsDead, EnqueuedAt: time.Now(),
		DeadAt: time.Now()}))
	body := noise(4000, 1)
	r.put(msg(body))
	r.age(48*time.Hour, r.file())
	_, err := r.Collect(t.Context(), 0)
	wantCode(t, err, store.ErrCorrupt)
	r.file()
}
