package codec

import (
	"context"
	"errors"
	"maps"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// An amendment sets headers and takes none away: a letter that has the codec's header
// keeps it, and one that has none gets none. So the header fits the body also if two
// processes amend a letter at the same time.

// Amend implements [store.DeadLetters]. The new body of a letter that is encoded is
// encoded like any other, or marked as "raw"; that of another letter is stored as it is.
func (l *letters) Amend(ctx context.Context, amendments ...store.Amendment) (map[string]error, error) {
	refused, err := backend.AdmitAmend(amendments)
	if err != nil {
		return nil, err
	}
	var out []store.Amendment
	for _, a := range amendments {
		if refused[a.ID] != nil {
			continue
		}
		if err := refuseReserved(a.Headers); err != nil {
			refused[a.ID] = err
			continue
		}
		if a, err = l.amendment(ctx, a); err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	below, err := l.DeadLetters.Amend(ctx, out...)
	if err != nil {
		return nil, err
	}
	maps.Copy(refused, below)
	return refused, nil
}

// amendment is what amends the letter as it is stored.
func (l *letters) amendment(ctx context.Context, a store.Amendment) (store.Amendment, error) {
	if a.Body == nil {
		return a, nil
	}
	looker, ok := store.As[store.Inspector](l.inner)
	if !ok {
		return a, &store.Error{Op: "amend " + a.ID, Code: store.ErrUnsupported,
			Err: errors.New("the store does not show whether its body is encoded")}
	}
	r, err := looker.Get(ctx, a.ID)
	if errors.Is(err, store.ErrNotFound) {
		return a, nil // the store below refuses it
	} else if err != nil {
		return a, err
	}
	if _, encoded := r.Headers[Header]; !encoded {
		return a, nil
	}
	d, err := l.encode.encode(pawl.Message{Topic: r.Topic, Headers: a.Headers, Body: a.Body})
	if err != nil {
		return a, err
	}
	next := store.Amendment{ID: a.ID, Body: d.message.Body, Headers: map[string]string{}}
	if next.Body == nil {
		next.Body = []byte{} // nil would keep the old one
	}
	next.Headers[Header] = (&recipe{length: len(a.Body)}).String()
	maps.Copy(next.Headers, d.message.Headers)
	return next, l.keep(ctx, &d)
}
