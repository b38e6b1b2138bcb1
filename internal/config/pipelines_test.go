package config_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/pipeline"
)

func sampleKinds() []*pipeline.Kind {
	return []*pipeline.Kind{{
		Name: "sample",
		Fields: []pipeline.Field{
			{Name: "sink", Type: pipeline.Object, Required: true, Fields: []pipeline.Field{
				{Name: "url", Type: pipeline.URL, Required: true}, {Name: "password", Secret: true}}},
			{Name: "batch_bytes", Type: pipeline.Size, Default: "5MiB"},
			{Name: "wait", Type: pipeline.Duration, Default: "200ms", Live: true},
			{Name: "seeds", Type: pipeline.Texts},
			{Name: "fields", Type: pipeline.Table, Fields: []pipeline.Field{{Name: "css"}}},
			{Name: "limits", Type: pipeline.Object, Short: "mode", Fields: []pipeline.Field{
				{Name: "all", Type: pipeline.Rate, Default: "30/s"},
				{Name: "mode", Type: pipeline.Choice, Choices: []string{"on", "off"}, Default: "on"}}},
		},
		Top: []pipeline.Field{{Name: "llm", Type: pipeline.Object, Fields: []pipeline.Field{
			{Name: "budget", Type: pipeline.Number},
			{Name: "providers", Type: pipeline.Table, Fields: []pipeline.Field{{Name: "timeout",
				Type: pipeline.Duration, Default: "120s"}}}}}},
		Check: func(_ string, s pipeline.Section) []pipeline.Fault {
			if s.Section("sink").Text("url") == "http://no" {
				return []pipeline.Fault{{Path: "sink.url", Why: "is not wanted"}}
			}
			return nil
		},
		New: func(context.Context, pipeline.Env) (*pipeline.Pipeline, error) { return nil, errors.New("no") },
	}}
}

func TestPipelineSections(t *testing.T) {
	const text = `pipelines:
  search:
    kind: sample
    sink: {url: http://h, password: hunter2hunter}
    batch_bytes: 1KiB
    seeds: [a, b]
    fields: {title: {css: h1}}
llm: {budget: 5.00, providers: {local: {}}}
`
	c, err := config.Load(config.Source{Path: "pawl.yaml", Text: []byte(text), Kinds: sampleKinds()})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Pipelines) != 1 || c.Pipelines[0].Name != "search" || c.Pipelines[0].Kind.Name != "sample" {
		t.Fatalf("pipelines: %+v", c.Pipelines)
	}
	s := c.Pipelines[0].Section
	if s.Section("sink").Text("url") != "http://h" || s.Int("batch_bytes") != 1024 ||
		s.Duration("wait") != 200*time.Millisecond ||
		len(s.Texts("seeds")) != 2 || s.Sections("fields")["title"].Text("css") != "h1" ||
		s.Section("limits").Number("all") != 30 {
		t.Errorf("values of the section are wrong: %+v", s)
	}
	llm, err := c.Top("llm")
	if err != nil || llm.Number("budget") != 5 ||
		llm.Sections("providers")["local"].Duration("timeout") != 2*time.Minute {
		t.Errorf("llm: %+v, %v", llm, err)
	}
	for _, set := range c.Settings() {
		if strings.Contains(set.Value, "hunter2") {
			t.Errorf("%s shows a secret", set.Path)
		}
		if set.Path == "pipelines.search.wait" && !set.Live {
			t.Error("wait is not live")
		}
	}
	if !strings.Contains(strings.Join(c.Secrets, " "), "hunter2hunter") {
		t.Error("the password is not among the secrets that logs mask")
	}
}

// A value in place of an object is that of the key that the object is short for.
func TestPipelineShort(t *testing.T) {
	for text, want := range map[string]string{"limits: off": "off", "limits: {all: 10/s}": "on"} {
		c, err := config.Load(config.Source{Path: "pawl.yaml",
			Text:  []byte("pipelines: {a: {kind: sample, sink: {url: 'http://h'}, " + text + "}}"),
			Kinds: sampleKinds()})
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Pipelines[0].Section.Section("limits").Text("mode"); got != want {
			t.Errorf("%s: the mode is %q", text, got)
		}
	}
}

func TestPipelineFaults(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no kind": {"pipelines: {a: {}}", "pipelines.a: needs a kind; add kind: …"},
		"unknown kind": {"pipelines: {a: {kind: other, url: x}}",
			"pipelines.a.kind: must be sample (got \"other\")"},
		"object missing": {"pipelines: {a: {kind: sample}}", "pipelines.a: needs a sink"},
		"key missing":    {"pipelines: {a: {kind: sample, sink: {password: x}}}", "pipelines.a.sink: needs a url"},
		"unknown key":    {"pipelines: {a: {kind: sample, sink: {url: h}, wiat: 1s}}", "did you mean wait?"},
		"size":           {"pipelines: {a: {kind: sample, sink: {url: h}, batch_bytes: big}}", "must be a size"},
		"the kind's fault": {"pipelines: {a: {kind: sample, sink: {url: 'http://no'}}}",
			"pipelines.a.sink.url: is not wanted"},
		"short": {"pipelines: {a: {kind: sample, sink: {url: h}, limits: none}}",
			"pipelines.a.limits.mode: must be on or off"},
		"top of the file":   {"llm: {budget: much}", "llm.budget: must be a number"},
		"name with a space": {"pipelines: {'a b': {kind: sample, sink: {url: h}}}", "topic"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load(config.Source{Path: "pawl.yaml", Text: []byte(c.text), Kinds: sampleKinds()})
			problems, _ := errors.AsType[config.Problems](err)
			if err == nil || !strings.Contains(err.Error(), c.want) || len(problems) != 1 {
				t.Errorf("got %v; want one problem with %q", err, c.want)
			}
		})
	}
}
