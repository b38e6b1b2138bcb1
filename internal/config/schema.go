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

// Schema is the JSON Schema (2020-12) of the file, for editors. What it cannot
// say, such as which timeouts fit which deadlines, is for [Load] to find.
func Schema(kinds []*pipeline.Kind) ([]byte, error) {
	f := format(kinds, nil)
	s := f.schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "pawl.yaml"
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}

// durations are what [ParseDuration] takes, nearly.
const durations = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d))+$`

func (s *shape) schema() map[string]any {
	switch s.kind {
	case object:
		if s.variants != nil {
			return s.variantSchema()
		}
		return s.objectSchema()
	case table:
		return map[string]any{"type": "object", "additionalProperties": s.of.schema()}
	case list:
		return map[string]any{"type": "array", "items": s.of.schema()}
	case number64:
		return orVariable(map[string]any{"type": "number"})
	case size:
		return orVariable(map[string]any{"type": []string{"string", "integer"}})
	case integer:
		return orVariable(map[string]any{"type": "integer", "minimum": s.min, "maximum": s.max})
	case boolean:
		return orVariable(map[string]any{"type": "boolean"})
	case duration:
		return orVariable(map[string]any{"type": "string", "pattern": durations})
	case rate:
		return orVariable(map[string]any{"type": []string{"string", "number"}})
	case choice:
		return orVariable(map[string]any{"type": "string", "enum": s.choices})
	}
	return map[string]any{"type": []string{"string", "number", "boolean"}}
}

// orVariable also allows ${…} for a value.
func orVariable(s map[string]any) map[string]any {
	return map[string]any{"anyOf": []any{s, map[string]any{"type": "string", "pattern": `\$\{`}}}
}

func (s *shape) objectSchema() map[string]any {
	properties := map[string]any{}
	var must []string
	for i := range s.fields {
		f := &s.fields[i]
		if f.later {
			continue
		}
		p := f.shape.schema()
		p["description"] = f.doc
		if f.defDoc == "" && f.def != "" {
			p["default"] = f.def
		}
		properties[f.name] = p
		if f.must && f.with == nil {
			must = append(must, f.name)
		}
	}
	out := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if must != nil {
		out["required"] = must
	}
	if handler := s.field("handler"); handler != nil && handler.shape.kind == choice {
		out["allOf"] = s.byHandler(handler.shape.choices)
	}
	return out
}

// variantSchema is one of the shapes, by the value of kind.
func (s *shape) variantSchema() map[string]any {
	var all []any
	for _, name := range slices.Sorted(maps.Keys(s.variants)) {
		v := s.variants[name].objectSchema()
		v["properties"].(map[string]any)[kindKey] = map[string]any{"const": name}
		all = append(all, v)
	}
	return map[string]any{"type": "object", "oneOf": all}
}

// byHandler says what each handler needs.
func (s *shape) byHandler(handlers []string) []any {
	var all []any
	for _, h := range handlers {
		var must []string
		for i := range s.fields {
			if f := &s.fields[i]; f.must && slices.Contains(f.with, h) {
				must = append(must, f.name)
			}
		}
		all = append(all, map[string]any{
			"if":   map[string]any{"properties": map[string]any{"handler": map[string]any{"const": h}}, "required": []string{"handler"}},
			"then": map[string]any{"required": must},
		})
	}
	return all
}

// Reference is the table of all keys, in Markdown.
func Reference(kinds []*pipeline.Kind) string {
	var b strings.Builder
	f := format(kinds, nil)
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
		doc += " Before it: `" + f.env + "`."
	}
	if f.flag != "" {
		doc += " Before that: `--" + f.flag + "`."
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
