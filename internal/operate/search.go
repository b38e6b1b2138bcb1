package operate

import (
	"iter"
	"strings"

	"github.com/pawl-dev/pawl/store"
)

// MostSearched is how many messages a search looks at.
const MostSearched = 10_000

// Search is what messages are searched for, without an index. What is empty is not looked for.
type Search struct {
	Text      string // in the id, the key, a header or the body, ignoring case
	Header    string // NAME, or NAME=VALUE
	UniqueKey string
}

// In passes on what matches of the first messages. If there are more than [MostSearched] it calls more, and ends.
func (s Search) In(records iter.Seq2[store.Record, error], more func()) iter.Seq2[store.Record, error] {
	if s == (Search{}) {
		return records
	}
	s.Text = strings.ToLower(s.Text)
	return func(yield func(store.Record, error) bool) {
		looked := 0
		for r, err := range records {
			if looked++; looked > MostSearched {
				more()
				return
			}
			if (err != nil || s.matches(&r)) && (!yield(r, err) || err != nil) {
				return
			}
		}
	}
}

func (s *Search) matches(r *store.Record) bool {
	name, value, valued := strings.Cut(s.Header, "=")
	given, has := r.Headers[name]
	switch {
	case s.UniqueKey != "" && r.Unique.Key != s.UniqueKey:
		return false
	case name != "" && (!has || valued && given != value):
		return false
	}
	in := func(text string) bool { return strings.Contains(strings.ToLower(text), s.Text) }
	if in(r.ID) || in(string(r.Key)) || in(string(r.Body)) {
		return true
	}
	for _, value := range r.Headers {
		if in(value) {
			return true
		}
	}
	return false
}
