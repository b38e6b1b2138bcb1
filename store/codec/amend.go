package codec

import (
	"context"
	"errors"
	"maps"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// An amendment sets headers and takes none away. So what is encoded stays so, if
// only by a header that says "raw", and what is not encoded must not become so
// where there is no room for the header. Either needs a look at the letter first.

// Amend implements [store.DeadLetters]. A new body is encoded like any other.
// Amendments of one letter by several processes at once may both come out in
// part, as ever; the body that is there then is one of theirs, and readable.
func (l *letters) Amend(ctx context.Context, amendments ...store.Amendment) (map[string]error, error) {
	refused, err := backend.AdmitAmend(amendments)
	if err != nil {
		return nil, err
	}
	l.amending.Lock()
	defer l.amending.Unlock()
	seen, order, err := l.lookUp(ctx, amendments)
	if err != nil {
		return nil, err
	}
	for i := range amendments {
		a := &amendments[i]
		if refused[a.ID] != nil {
			continue
		}
		if seen[a.ID] == nil {
			refused[a.ID] = &store.Error{Op: "amend " + a.ID, Code: store.ErrNotFound}
		} else if err := seen[a.ID].apply(a); err != nil {
			refused[a.ID] = err
		}
	}
	return l.send(ctx, seen, order, refused)
}

// amended is a letter, and what it is to become.
type amended struct {
	stored  store.Record // as it is in the store below
	message pawl.Message // decoded and amended
	sealed  bool         // it cannot be decoded
	headers map[string]string
	body    bool // it has a new one
	changed bool
}

// lookUp finds the letters that are to be amended, and the order of their ids.
func (l *letters) lookUp(ctx context.Context, amendments []store.Amendment) (map[string]*amended, []string, error) {
	found := map[string]*amended{}
	var order []string
	for _, a := range amendments {
		if _, twice := found[a.ID]; !twice {
			found[a.ID] = nil
			order = append(order, a.ID)
		}
	}
	take := func(r store.Record) error {
		was := r
		err := l.open(ctx, &r)
		found[r.ID] = &amended{stored: was, message: r.Message, sealed: isSealed(&r.Message),
			headers: map[string]string{}}
		return err
	}
	looker, ok := store.As[store.Inspector](l.inner)
	if !ok {
		for r, err := range l.DeadLetters.Dead(ctx, store.DeadFilter{}) {
			if err != nil {
				return nil, nil, err
			}
			if _, asked := found[r.ID]; asked {
				if err := take(r); err != nil {
					return nil, nil, err
				}
			}
		}
		return found, order, nil
	}
	for _, id := range order {
		r, err := looker.Get(ctx, id)
		if err == nil {
			err = take(r)
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, nil, err
		}
	}
	return found, order, nil
}

// apply amends the decoded letter, or says why that cannot be.
func (w *amended) apply(a *store.Amendment) error {
	switch {
	case w.stored.State == store.Acked:
		return &store.Error{Op: "amend " + a.ID, Code: store.ErrNotFound}
	case w.stored.State != store.IsDead:
		return &store.Error{Op: "amend " + a.ID, Code: store.ErrConflict, Hint: "it is " + string(w.stored.State)}
	}
	if err := refuseReserved(a.Headers); err != nil {
		return err
	}
	if w.sealed && a.Body != nil { // it becomes readable by that
		w.message.Headers = maps.Clone(w.message.Headers)
		delete(w.message.Headers, Header)
		delete(w.message.Headers, SealedHeader)
		w.sealed = false
	}
	if err := a.Apply(&w.message); err != nil {
		return err
	}
	maps.Copy(w.headers, a.Headers)
	w.body, w.changed = w.body || a.Body != nil, true
	return nil
}

// send amends the letters in the store below.
func (l *letters) send(ctx context.Context, seen map[string]*amended, order []string,
	refused map[string]error) (map[string]error, error) {
	var out []store.Amendment
	for _, id := range order {
		w := seen[id]
		if w == nil || !w.changed {
			continue
		}
		a, d, err := l.rewrite(w)
		if err != nil {
			refused[id] = err
			continue
		}
		if err := l.keep(ctx, &d); err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	below, err := l.DeadLetters.Amend(ctx, out...)
	if err != nil {
		return nil, err
	}
	maps.Copy(refused, below)
	return refused, l.settleRaces(ctx, seen, out, below)
}

// settleRaces looks again at letters that got a body without the header: if
// another process has encoded the letter meanwhile, its header does not fit.
func (l *letters) settleRaces(ctx context.Context, seen map[string]*amended, out []store.Amendment,
	refused map[string]error) error {
	looker, ok := store.As[store.Inspector](l.inner)
	var again []store.Amendment
	for _, a := range out {
		if _, encoded := a.Headers[Header]; encoded || a.Body == nil || refused[a.ID] != nil || !ok {
			continue
		}
		r, err := looker.Get(ctx, a.ID)
		if _, encoded := r.Headers[Header]; err == nil && encoded {
			raw := recipe{length: len(a.Body)}
			again = append(again, store.Amendment{ID: a.ID, Body: a.Body,
				Headers: map[string]string{Header: raw.String()}})
		}
	}
	if len(again) == 0 {
		return nil
	}
	_, err := l.DeadLetters.Amend(ctx, again...)
	return err
}

// rewrite says how the letter below becomes what it is to be.
func (l *letters) rewrite(w *amended) (store.Amendment, draft, error) {
	noRoom := &pawl.InvalidError{Field: "headers", Why: "leave no room for the codec's own"}
	if !w.body { // it stays as it is stored
		a := store.Amendment{ID: w.stored.ID, Headers: w.headers}
		if next := w.stored.Message; a.Apply(&next) != nil {
			return a, draft{}, noRoom
		}
		return a, draft{}, nil
	}
	d, err := l.encode.encode(w.message)
	if err != nil {
		return store.Amendment{}, d, err
	}
	a, ok := onto(w, d.message)
	if !ok {
		return a, d, noRoom
	}
	return a, d, nil
}

// onto is the amendment that makes the stored letter m; false where that has no room.
func onto(w *amended, m pawl.Message) (store.Amendment, bool) {
	a := store.Amendment{ID: w.stored.ID, Body: whole(m.Body), Headers: map[string]string{}}
	for k, v := range m.Headers {
		if was, there := w.stored.Headers[k]; !there || was != v {
			a.Headers[k] = v
		}
	}
	if value, now := m.Headers[Header]; now {
		a.Headers[Header] = value
	} else if _, was := w.stored.Headers[Header]; was {
		a.Headers[Header] = (&recipe{length: len(m.Body)}).String()
	}
	next := w.stored.Message
	return a, a.Apply(&next) == nil
}

// whole is a body that replaces another, also by nothing.
func whole(body []byte) []byte {
	if body == nil {
		return []byte{}
	}
	return body
}
