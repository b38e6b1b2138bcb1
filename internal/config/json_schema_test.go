package config

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// judge holds a value to the part of JSON Schema that ours uses.
func judge(schema map[string]any, v any) error {
	if several, ok := schema["anyOf"].([]any); ok {
		var err error
		for _, one := range several {
			if err = judge(one.(map[string]any), v); err == nil {
				return nil
			}
		}
		return err
	}
	if err := judgeType(schema["type"], v); err != nil {
		return err
	}
	switch v := v.(type) {
	case string:
		if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, any(v)) {
			return fmt.Errorf("%q is none of %v", v, enum)
		}
		if p, ok := schema["pattern"].(string); ok && !regexp.MustCompile(p).MatchString(v) {
			return fmt.Errorf("%q does not match %s", v, p)
		}
	case float64:
		if least, ok := schema["minimum"].(float64); ok && (v < least || v > schema["maximum"].(float64)) {
			return fmt.Errorf("%v is out of range", v)
		}
	case []any:
		for _, item := range v {
			if err := judge(schema["items"].(map[string]any), item); err != nil {
				return err
			}
		}
	case map[string]any:
		return judgeObject(schema, v)
	}
	return nil
}

func judgeType(types, v any) error {
	is := map[string]bool{}
	switch v := v.(type) {
	case string:
		is["string"] = true
	case bool:
		is["boolean"] = true
	case float64:
		is["number"], is["integer"] = true, v == float64(int64(v))
	case []any:
		is["array"] = true
	case map[string]any:
		is["object"] = true
	}
	list, ok := types.([]any)
	if !ok {
		list = []any{types}
	}
	for _, name := range list {
		if is[name.(string)] {
			return nil
		}
	}
	return fmt.Errorf("%v is no %v", v, types)
}

func judgeObject(schema, v map[string]any) error {
	properties, _ := schema["properties"].(map[string]any)
	for name, value := range v {
		inner, ok := properties[name].(map[string]any)
		if !ok {
			if inner, ok = schema["additionalProperties"].(map[string]any); !ok {
				return fmt.Errorf("no key %q", name)
			}
		}
		if err := judge(inner, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	must, _ := schema["required"].([]any)
	conditions, _ := schema["allOf"].([]any)
	for _, c := range conditions {
		c := c.(map[string]any)
		for by, when := range c["if"].(map[string]any)["properties"].(map[string]any) {
			then, ok := c["then"].(map[string]any)["required"].([]any)
			if ok && v[by] == when.(map[string]any)["const"] {
				must = append(slices.Clip(must), then...)
			}
		}
	}
	for _, name := range must {
		if _, ok := v[name.(string)]; !ok {
			return fmt.Errorf("%v is missing", name)
		}
	}
	return nil
}

// What Load takes and refuses for itself, without a look at anything else, the
// schema takes and refuses, too.
func TestSchemaAndLoadAgree(t *testing.T) {
	b, err := Schema(nil)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(b, &schema); err != nil {
		t.Fatal(err)
	}
	sample, err := os.ReadFile("../../deploy/pawl.yaml")
	if err != nil {
		t.Fatal(err)
	}
	topic := func(s string) string { return "topics: {a: {handler: exec, command: cat, " + s + "}}" }
	for _, text := range []string{
		string(sample), "drain: 1m30s", "drain: 30", "drain: soon", "auto_migrate: maybe", "auto_migrate: ${X:true}",
		"nodes: a", "logger: {level: loud}", "logger: {levels: info}", "logger: []",
		topic("concurrency: 3"), topic("concurrency: 0"), topic("concurrency: 3.5"), topic("concurrency: '${X:3}'"),
		topic("limit: 100/s"), topic("limit: 100"), topic("order: up"),
		"topics: {a: {handler: http}}", "topics: {a: {handler: http, url: 'http://h/'}}", "topics: {a: {}}",
		"topics: []", "policy: {overrides: {}}",
		"policy: {overrides: [{match: {kind: a}, alert: error}]}",
		"policy: {overrides: [{match: {kind: a}, alerts: error}]}", "policy: {overrides: [{alert: error}]}",
	} {
		j, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		var v any
		if err := json.Unmarshal(j, &v); err != nil {
			t.Fatal(err)
		}
		_, refused := Load(Source{Path: "pawl.yaml", Text: []byte(text)})
		if wrong := judge(schema, v); (wrong == nil) != (refused == nil) {
			t.Errorf("%.80s\nLoad says %v\nthe schema says %v", text, refused, wrong)
		}
	}
}

func TestEveryKeyIsDescribed(t *testing.T) {
	var walk func(*shape, string)
	walk = func(s *shape, path string) {
		for i := range s.fields {
			f := &s.fields[i]
			if f.later {
				continue
			}
			if !strings.HasSuffix(f.doc, ".") {
				t.Errorf("%s: the document is %q", join(path, f.name), f.doc)
			}
			walk(&f.shape, join(path, f.name))
		}
		if s.of != nil {
			walk(s.of, path+".*")
		}
	}
	f := format(&Source{})
	walk(&f, "")
}
