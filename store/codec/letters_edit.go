package codec

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// An edit sets headers and takes none away: a letter that has the codec's header
// keeps it. One that has none gets it with a new body that is worth encoding; whoever
// stored another one as it is at the same time sees to it that the header fits.

// Edit implements [store.DeadLetters]. A new body is encoded like any other; that of a
// letter that is encoded is marked as "raw" otherwise.
func (l *letters) Edit(ctx context.Context, edits ...store.Edit) (map[string]error, error) {
	refused, err := backend.AdmitEdit(edits)
	if err != nil {
		return nil, err
	}
	var out, plain []store.Edit
	for _, a := range edits {
		if refused[a.ID] != nil {
			continue
		}
		if err := refuseReserved(a.Headers); err != nil {
			refused[a.ID] = err
			continue
		}
		if a, err = l.edit(ctx, a); err != nil {
			return nil, err
		}
		out = append(out, a)
		if a.Body != nil && a.Headers[Header] == "" {
			plain = append(plain, a)
		}
	}
	below, err := l.DeadLetters.Edit(ctx, out...)
	if err != nil {
		return nil, err
	}
	maps.Copy(refused, below)
	for _, a := range plain {
		if err := l.fit(ctx, a); err != nil {
			return nil, err
		}
	}
	return refused, nil
}

// fit marks a body that was stored as it is as such, if the letter has got the header meanwhile.
func (l *letters) fit(ctx context.Context, a store.Edit) error {
	r, err := l.look(ctx, a.ID)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil || r.Headers[Header] == "" || !bytes.Equal(r.Body, a.Body) {
		return err
	}
	_, err = l.DeadLetters.Edit(ctx, store.Edit{ID: a.ID,
		Headers: map[string]string{Header: (&recipe{length: len(a.Body)}).String()}})
	return err
}

// look returns a letter as it is stored.
func (l *letters) look(ctx context.Context, id string) (store.Record, error) {
	looker, ok := store.As[store.Inspector](l.inner)
	if !ok {
		return store.Record{}, &store.Error{Op: "edit " + id, Code: store.ErrUnsupported,
			Err: errors.New("the store does not show whether its body is encoded")}
	}
	return looker.Get(ctx, id)
}

// edit is what edits the letter as it is stored.
func (l *letters) edit(ctx context.Context, a store.Edit) (store.Edit, error) {
	if a.Body == nil {
		return a, nil
	}
	r, err := l.look(ctx, a.ID)
	if errors.Is(err, store.ErrNotFound) {
		return a, nil // the store below refuses it
	} else if err != nil {
		return a, err
	}
	_, encoded := r.Headers[Header]
	whole := pawl.Message{Topic: r.Topic, Headers: a.Headers, Body: a.Body}
	if !encoded { // the header needs room beside those that are there
		whole.Headers = maps.Clone(r.Headers)
		if whole.Headers == nil {
			whole.Headers = map[string]string{}
		}
		maps.Copy(whole.Headers, a.Headers)
	}
	d, err := l.encode.encode(whole)
	if err != nil || !encoded && d.message.Headers[Header] == "" {
		return a, err
	}
	next := store.Edit{ID: a.ID, Body: d.message.Body, Headers: map[string]string{}}
	if next.Body == nil {
		next.Body = []byte{} // nil would keep the old one
	}
	maps.Copy(next.Headers, a.Headers)
	next.Headers[Header] = cmp.Or(d.message.Headers[Header], (&recipe{length: len(a.Body)}).String())
	return next, l.keep(ctx, &d)
}
