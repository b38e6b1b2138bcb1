package backend

import (
	"errors"
	"math"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/fingerprint"
	"github.com/pawl-dev/pawl/store"
)

// AdmitEdit checks an Edit and returns what is refused without reading the letters.
func AdmitEdit(edits []store.Edit) (refused map[string]error, err error) {
	refused = map[string]error{}
	size := 0
	for i := range edits {
		a := &edits[i]
		m := pawl.Message{Topic: "any"}
		if err := a.Apply(&m); err != nil {
			refused[a.ID] = err
			continue
		}
		size += m.Size()
	}
	return refused, admitMany("edit", len(edits), size)
}

// AdmitImport checks an Import. The letters it returns can be stored: texts are cut and
// cleaned, and missing fields are filled in. Of two with one id the first counts.
func AdmitImport(letters []store.Record) (fit []store.Record, refused map[string]error, err error) {
	refused = map[string]error{}
	seen, size := map[string]bool{}, 0
	for _, r := range letters {
		if seen[r.ID] {
			refused[r.ID] = ImportConflict(r.ID)
			continue
		}
		seen[r.ID] = true
		if err := makeFit(&r); err != nil {
			refused[r.ID] = err
			continue
		}
		size += r.Size()
		fit = append(fit, r)
	}
	return fit, refused, admitMany("import", len(letters), size)
}

// ImportConflict is the error of a letter whose id exists already.
func ImportConflict(id string) error {
	return &store.Error{Op: "import " + id, Code: store.ErrConflict, Err: errors.New("a message with this id is there")}
}

func admitMany(op string, n, size int) error {
	if n > store.MaxBatch || size > store.MaxBatchBytes {
		return tooLarge(op, "%d items of %d bytes; the limits are %d and %d",
			n, size, store.MaxBatch, store.MaxBatchBytes)
	}
	return nil
}

// makeFit makes r a dead letter that any store can keep, or says why it is none.
func makeFit(r *store.Record) error {
	if err := r.Validate(); err != nil {
		return err
	}
	switch {
	case r.ID == "":
		return pawl.Invalid("id", "is missing")
	case r.State != "" && r.State != store.IsDead:
		return pawl.Invalid("state", "is %q; it is %q", r.State, store.IsDead)
	case !plausible(r.DeadAt):
		return pawl.Invalid("dead_at", "is missing or not a valid time")
	case !plausible(r.EnqueuedAt):
		return pawl.Invalid("enqueued_at", "is missing or not a valid time")
	case r.Lease != nil || !r.AckedAt.IsZero():
		return pawl.Invalid("state", "is that of another message: a dead letter is neither leased nor acked")
	}
	for name, n := range map[string]int{"attempt": r.Attempts, "rescues": r.Rescues, "lonely": r.Lonely,
		"replays": r.Replays} {
		if n < 0 || n > math.MaxInt16 {
			return pawl.Invalid(name, "is %d; it goes from 0 to %d", n, math.MaxInt16)
		}
	}
	r.State, r.NotBefore = store.IsDead, time.Time{}
	r.Reason, r.Kind = store.Text(r.Reason), r.Kind.Bounded()
	if r.Fingerprint = store.Text(r.Fingerprint); r.Fingerprint == "" {
		r.Fingerprint = fingerprint.Of(r.Kind, r.Reason)
	}
	history := make([]store.Attempt, len(r.History))
	for i, a := range r.History {
		for _, at := range []time.Time{a.StartedAt, a.EndedAt, a.NextAt} {
			if !at.IsZero() && !plausible(at) {
				return pawl.Invalid("attempts", "[%d]: %v is not a valid time", i, at)
			}
		}
		for _, text := range []*string{&a.Worker, &a.Kind, &a.Error, &a.Rule, &a.Action} {
			*text = store.Text(*text)
		}
		a.Attrs = FitAttrs(a.Attrs)
		history[i] = a
	}
	r.History = history
	if r.Resolved != nil {
		if !plausible(r.Resolved.At) {
			return pawl.Invalid("resolved", "has no valid time")
		}
		was := r.Resolved
		r.Resolved = &store.Resolution{At: was.At, By: store.Text(was.By), Note: store.Text(was.Note)}
	}
	return nil
}

// plausible reports whether every store can keep a time.
func plausible(t time.Time) bool { return t.Year() > 1900 && t.Year() < 9999 }
