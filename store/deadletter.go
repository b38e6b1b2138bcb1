package store

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/fingerprint"
)

// The rules of [DeadLetters], shared by all backends.

// Matches reports whether f selects the dead letter r, ignoring Limit.
func (f *DeadFilter) Matches(r *Record) bool {
	return (f.Topic == "" || f.Topic == r.Topic) && (f.Key == nil || bytes.Equal(f.Key, r.Key)) &&
		(f.Kind == "" || f.Kind == r.Kind) &&
		(f.Fingerprint == "" || f.Fingerprint == r.Fingerprint) &&
		(f.Resolved == nil || *f.Resolved == (r.Resolved != nil)) &&
		(f.Since.IsZero() || !r.DeadAt.Before(f.Since)) && (f.Until.IsZero() || r.DeadAt.Before(f.Until)) &&
		(f.Reason == "" || strings.Contains(strings.ToLower(r.Reason), strings.ToLower(f.Reason))) && f.MatchesText(r)
}

// Searches reports whether f looks for something that only a complete letter has: a text,
// or facts. Letters must then be read in full.
func (f *DeadFilter) Searches() bool { return f.Text != "" || len(f.Attrs) > 0 }

// MatchesText reports whether r has the text and the facts that f looks for.
func (f *DeadFilter) MatchesText(r *Record) bool {
	for name, want := range f.Attrs {
		if got, ok := r.Attrs()[name]; !ok || got != want {
			return false
		}
	}
	if f.Text == "" {
		return true
	}
	want := strings.ToLower(f.Text)
	has := func(s string) bool { return strings.Contains(strings.ToLower(s), want) }
	if has(r.ID) || has(r.Reason) || utf8.Valid(r.Key) && has(string(r.Key)) {
		return true
	}
	for i := range r.History {
		if has(r.History[i].Error) {
			return true
		}
	}
	for _, v := range r.Headers {
		if has(v) {
			return true
		}
	}
	return utf8.Valid(r.Body) && has(string(r.Body))
}

// Shorten leaves out of r what a brief listing does not have.
func (f *DeadFilter) Shorten(r *Record) {
	if f.Brief {
		r.Body, r.Headers, r.History, r.Origin = nil, nil, nil, nil
	}
}

// Apply returns the amended message, which shares no memory with the original.
func (a *Amendment) Apply(m *pawl.Message) error {
	next := *m
	if a.Body != nil {
		next.Body = bytes.Clone(a.Body)
	}
	if len(a.Headers) > 0 {
		next.Headers = maps.Clone(m.Headers)
		if next.Headers == nil {
			next.Headers = map[string]string{}
		}
		maps.Copy(next.Headers, a.Headers)
	}
	if err := next.Validate(); err != nil {
		return err
	}
	*m = next
	return nil
}

// AdmitAmend checks an Amend and returns what is refused without reading the letters.
func AdmitAmend(amendments []Amendment) (refused map[string]error, err error) {
	refused = map[string]error{}
	size := 0
	for i := range amendments {
		a := &amendments[i]
		m := pawl.Message{Topic: "any"}
		if err := a.Apply(&m); err != nil {
			refused[a.ID] = err
			continue
		}
		size += m.Size()
	}
	return refused, admitMany("amend", len(amendments), size)
}

// AdmitBury checks a Bury. The letters it returns can be stored: texts are cut and
// cleaned, and missing fields are filled in. Of two with one id the first counts.
func AdmitBury(letters []Record) (fit []Record, refused map[string]error, err error) {
	refused = map[string]error{}
	seen, size := map[string]bool{}, 0
	for _, r := range letters {
		if seen[r.ID] {
			refused[r.ID] = BuryConflict(r.ID)
			continue
		}
		seen[r.ID] = true
		if err := r.makeFit(); err != nil {
			refused[r.ID] = err
			continue
		}
		size += r.Size()
		fit = append(fit, r)
	}
	return fit, refused, admitMany("bury", len(letters), size)
}

// BuryConflict is the error of a letter whose id exists already.
func BuryConflict(id string) error {
	return &Error{Op: "bury " + id, Code: ErrConflict, Err: errors.New("a message with this id is there")}
}

func admitMany(op string, n, size int) error {
	if n > MaxBatch || size > MaxBatchBytes {
		return tooLarge(op, "%d items of %d bytes; the limits are %d and %d", n, size, MaxBatch, MaxBatchBytes)
	}
	return nil
}

// makeFit makes r a dead letter that any store can keep, or says why it is none.
func (r *Record) makeFit() error {
	if err := r.Validate(); err != nil {
		return err
	}
	switch {
	case r.ID == "":
		return pawl.Invalid("id", "is missing")
	case r.State != "" && r.State != IsDead:
		return pawl.Invalid("state", "is %q; it is %q", r.State, IsDead)
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
	r.State, r.NotBefore = IsDead, time.Time{}
	r.Reason, r.Kind = Text(r.Reason), r.Kind.Bounded()
	if r.Fingerprint = Text(r.Fingerprint); r.Fingerprint == "" {
		r.Fingerprint = fingerprint.Of(r.Kind, r.Reason)
	}
	history := make([]Attempt, len(r.History))
	for i, a := range r.History {
		for _, at := range []time.Time{a.StartedAt, a.EndedAt, a.NextAt} {
			if !at.IsZero() && !plausible(at) {
				return pawl.Invalid("attempts", "[%d]: %v is not a valid time", i, at)
			}
		}
		a.Worker, a.Kind, a.Error, a.Rule, a.Action = Text(a.Worker), Text(a.Kind), Text(a.Error), Text(a.Rule),
			Text(a.Action)
		a.Attrs = FitAttrs(a.Attrs)
		history[i] = a
	}
	r.History = history
	if r.Resolved != nil {
		if !plausible(r.Resolved.At) {
			return pawl.Invalid("resolved", "has no valid time")
		}
		r.Resolved = &Resolution{At: r.Resolved.At, By: Text(r.Resolved.By), Note: Text(r.Resolved.Note)}
	}
	return nil
}

// plausible reports whether every store can keep a time.
func plausible(t time.Time) bool { return t.Year() > 1900 && t.Year() < 9999 }
