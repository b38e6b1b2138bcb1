package codec

import (
	"context"
	"errors"
	"iter"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// letters is the DeadLetters of a store that has them.
type letters struct {
	layer
	store.DeadLetters
}

// Dead implements [store.DeadLetters]. To look for a text it reads every dead
// letter that the rest of the filter selects, with its blob: the store below has
// other bytes.
func (l *letters) Dead(ctx context.Context, f store.DeadFilter) iter.Seq2[store.Record, error] {
	if f.Text == "" { // facts are not encoded
		return l.opened(ctx, l.DeadLetters.Dead(ctx, f))
	}
	all := f
	all.Text, all.Limit, all.Brief = "", 0, false
	return func(yield func(store.Record, error) bool) {
		left := f.Limit
		for r, err := range l.opened(ctx, l.DeadLetters.Dead(ctx, all)) {
			if err != nil {
				yield(r, err)
				return
			}
			if !f.MatchesText(&r) {
				continue
			}
			if f.Shorten(&r); !yield(r, nil) {
				return
			}
			if left--; left == 0 {
				return
			}
		}
	}
}

// Replay implements [store.DeadLetters]. Blobs of what is replayed become young,
// so that a Collect that runs at the same time, and sees neither the dead letter
// nor the message, spares them.
func (l *letters) Replay(ctx context.Context, topic string, ids ...string) (map[string]error, error) {
	if err := l.refresh(ctx, ids); err != nil {
		return nil, err
	}
	return l.DeadLetters.Replay(ctx, topic, ids...)
}

// ReplayKeeping implements [store.DeadLetters]; blobs become young as with Replay.
func (l *letters) ReplayKeeping(ctx context.Context, topic string, ids ...string) (map[string]error, error) {
	if err := l.refresh(ctx, ids); err != nil {
		return nil, err
	}
	return l.DeadLetters.ReplayKeeping(ctx, topic, ids...)
}

// refresh makes the blobs of letters young. One that cannot be read is replayed all the
// same: the claim says what is wrong.
func (s *Store) refresh(ctx context.Context, ids []string) error {
	looker, ok := store.As[store.Inspector](s.inner)
	if !ok || s.decode.blobs == nil {
		return nil // then there is no Collect
	}
	for _, id := range ids {
		r, err := looker.Get(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			continue // the replay finds that out
		} else if err != nil {
			return err
		}
		recipe, err := parseRecipe(r.Headers[Header])
		if err != nil || recipe.blob == nil {
			continue
		}
		if content, err := s.decode.blobs.read(ctx, recipe.blob); err == nil {
			if err := s.decode.blobs.put(recipe.blob, content); err != nil {
				return err
			}
		}
	}
	return nil
}

// Import implements [store.DeadLetters]. A letter that bears [SealedHeader] is
// stored in the encoded form that it has.
func (l *letters) Import(ctx context.Context, letters ...store.Record) (map[string]error, error) {
	encoded := slices.Clone(letters)
	refused := map[string]error{}
	for i := range encoded {
		m := &encoded[i].Message
		if isSealed(m) {
			m.Headers = maps.Clone(m.Headers)
			delete(m.Headers, SealedHeader)
		}
	}
	if _, _, err := backend.AdmitImport(encoded); err != nil {
		return nil, err
	}
	for i := range encoded {
		m := &encoded[i].Message
		if isSealed(&letters[i].Message) {
			continue
		}
		next, why, err := l.encoded(ctx, *m)
		if err != nil {
			return nil, err
		}
		if *m = next; why != nil {
			refused[m.ID] = why
		}
	}
	below, err := l.DeadLetters.Import(ctx, encoded...)
	if err == nil && len(refused) > 0 {
		maps.Copy(below, refused) // the codec's own reasons
	}
	return below, err
}
