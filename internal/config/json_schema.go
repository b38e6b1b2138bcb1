package config

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/pawl-dev/pawl/internal/wire"
	"github.com/pawl-dev/pawl/pipeline"
)

// Schema is the JSON Schema (2020-12) of the file, for editors. What it cannot
// say, such as which timeouts fit which deadlines, is for [Load] to find.
func Schema(kinds []*pipeline.Kind) ([]byte, error) {
	f := format(&Source{Kinds: kinds})
	s := f.schema()
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "pawl.yaml"
	b, err := json.MarshalIndent(s, "", "  ")
	return append(b, '\n'), err
}

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
		return orVariable(map[string]any{"type": "string", "pattern": wire.Durations})
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
	if s.by != "" {
		out["allOf"] = s.byValue(s.field(s.by).shape.choices)
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

// byValue says what each value of the key needs that the others go by.
func (s *shape) byValue(values []string) []any {
	var all []any
	for _, h := range values {
		var must []string
		for i := range s.fields {
			if f := &s.fields[i]; f.must && slices.Contains(f.with, h) {
				must = append(must, f.name)
			}
		}
		all = append(all, map[string]any{
			"if": map[string]any{"properties": map[string]any{s.by: map[string]any{"const": h}},
				"required": []string{s.by}},
			"then": map[string]any{"required": must},
		})
	}
	return all
}
