package config

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
)

// Reference is the table of all keys in docs/configuration.md.
func Reference(kinds []*pipeline.Kind) string {
	var b strings.Builder
	f := format(&Source{Kinds: kinds})
	f.reference(&b, "", "The file", "")
	return b.String()
}

func (s *shape) reference(b *strings.Builder, path, title, doc string) {
	b.WriteString("## " + title + "\n\n")
	if doc != "" {
		b.WriteString(doc + "\n\n")
	}
	b.WriteString("| key | value | default | |\n|---|---|---|---|\n")
	for i := range s.fields {
		if f := &s.fields[i]; !f.later {
			b.WriteString(f.row())
		}
	}
	b.WriteString("\n")
	for i := range s.fields {
		f := &s.fields[i]
		inner, at := &f.shape, join(path, f.name)
		if inner.kind == table || inner.kind == list {
			at += map[kind]string{table: ".NAME", list: "[]"}[inner.kind]
			inner = inner.of
		}
		switch {
		case inner.kind != object || f.later:
		case inner.variants != nil:
			for _, name := range slices.Sorted(maps.Keys(inner.variants)) {
				inner.variants[name].reference(b, at, "`"+at+"` of kind "+name, f.doc)
			}
		default:
			inner.reference(b, at, "`"+at+"`", f.doc)
		}
	}
}

func (f *field) row() string {
	def := f.defDoc
	switch {
	case f.must:
		def = "required"
	case def == "" && f.def != "":
		def = "`" + f.def + "`"
	}
	doc := f.doc
	if f.with != nil {
		doc = "With `" + strings.Join(f.with, "` or `") + "`: " + strings.ToLower(doc[:1]) + doc[1:]
	}
	if f.env != "" {
		doc += " `" + f.env + "` overrides it."
	}
	if f.flag != "" {
		doc += " `--" + f.flag + "` overrides it."
	}
	switch {
	case f.liveBy != nil:
		doc += " **Live** with `" + strings.Join(f.liveBy, "` and `") + "`."
	case f.live:
		doc += " **Live.**"
	}
	return "| `" + f.name + "` | " + f.shape.what() + f.shape.limits() + " | " + def + " | " + doc + " |\n"
}

// limits are those of a number, in words.
func (s *shape) limits() string {
	switch s.kind {
	case integer:
		if s.max == math.MaxInt64 {
			return ", at least " + number(s.min)
		}
		return ", " + number(s.min) + " to " + number(s.max)
	case duration:
		return ", " + short(time.Duration(s.min)) + " to " + short(time.Duration(s.max))
	}
	return ""
}

func number(n int64) string {
	b, _ := json.Marshal(n) // a number always has a form
	return string(b)
}

// short is a duration without zeros at its end, in days where it is long.
func short(d time.Duration) string {
	if day := 24 * time.Hour; d >= day {
		return number(int64(d/day)) + "d"
	}
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}
