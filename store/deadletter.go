package store

import (
	"bytes"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
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

// Apply returns the edited message, which shares no memory with the original.
func (a *Edit) Apply(m *pawl.Message) error {
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
