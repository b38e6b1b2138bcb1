package forward

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A filter is text~REGEXP, media=KIND or from=USER_ID; with ! in front it excludes. A message passes if
// nothing excludes it and, of each kind of filter that there is without !, one takes it.
//
// Regular expressions are those of package regexp: their time is linear in the length of the text, which
// Telegram bounds, so none can stall the pipeline.

type filters []filter

type filter struct {
	kind    string // text, media or from
	exclude bool
	value   string
	pattern *regexp.Regexp
}

func mediaKinds() []string {
	return []string{"photo", "video", "document", "audio", "voice", "sticker", "none"}
}

// parseAll parses texts, and says everything that is wrong with them.
func parseAll[T any](what string, texts []string, parse func(string) (T, error)) ([]T, error) {
	var all []T
	var errs []error
	for _, t := range texts {
		one, err := parse(t)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %q: %w", what, t, err))
		}
		all = append(all, one)
	}
	return all, errors.Join(errs...)
}

func parseFilter(text string) (f filter, err error) {
	rest, exclude := strings.CutPrefix(text, "!")
	f.exclude = exclude
	if pattern, ok := strings.CutPrefix(rest, "text~"); ok {
		f.kind = "text"
		f.pattern, err = regexp.Compile(pattern)
		return f, err
	}
	kind, value, ok := strings.Cut(rest, "=")
	f.kind, f.value = kind, value
	switch {
	case ok && kind == "media":
		if !slices.Contains(mediaKinds(), value) {
			return f, fmt.Errorf("media is one of %s", strings.Join(mediaKinds(), ", "))
		}
	case ok && kind == "from":
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			return f, errors.New("from is the number of a user")
		}
	default:
		return f, errors.New("it is text~REGEXP, media=KIND or from=USER_ID, with ! in front to exclude")
	}
	return f, nil
}

// pass reports whether a message passes; otherwise it names the filter that stopped it.
func (fs filters) pass(m *message) (stopped string, ok bool) {
	took := map[string]bool{}
	for i := range fs {
		f := &fs[i]
		matches := f.matches(m)
		if f.exclude && matches {
			return "!" + f.text(), false
		}
		if !f.exclude {
			took[f.kind] = took[f.kind] || matches
		}
	}
	for i := range fs {
		if f := &fs[i]; !f.exclude && !took[f.kind] {
			return f.text(), false
		}
	}
	return "", true
}

func (f *filter) text() string {
	if f.pattern != nil {
		return f.kind + "~" + f.pattern.String()
	}
	return f.kind + "=" + f.value
}

func (f *filter) matches(m *message) bool {
	switch f.kind {
	case "text":
		return f.pattern.MatchString(m.words())
	case "media":
		return m.media() == f.value
	}
	return strconv.FormatInt(sender(m), 10) == f.value
}

// sender is who wrote a message: a user, or the chat in whose name it was written.
func sender(m *message) int64 {
	switch {
	case m.SenderChat != nil:
		return m.SenderChat.ID
	case m.From != nil:
		return m.From.ID
	}
	return m.Chat.ID
}

// replacement is REGEXP=TEXT, for the text of copies. TEXT may use $1.
type replacement struct {
	pattern *regexp.Regexp
	with    string
}

func parseReplacement(text string) (r replacement, err error) {
	pattern, with, ok := strings.Cut(text, "=")
	if !ok || pattern == "" {
		return r, errors.New("it is REGEXP=TEXT")
	}
	r.with = with
	r.pattern, err = regexp.Compile(pattern)
	return r, err
}

// rewrite applies all replacements; changed reports whether the text is another one.
func rewrite(rs []replacement, text string) (out string, changed bool) {
	out = text
	for _, r := range rs {
		out = r.pattern.ReplaceAllString(out, r.with)
	}
	return out, out != text
}
