package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/pipeline"
)

func moduleKind() *pipeline.Kind {
	return &pipeline.Kind{Name: "crawl", Fields: []pipeline.Field{
		{Name: "seeds", Type: pipeline.Texts, Required: true}, {Name: "delay", Type: pipeline.Duration, Default: "1s"},
		{Name: "fields", Type: pipeline.Table, Fields: []pipeline.Field{{Name: "css"}}},
	}, Check: func(_ string, s pipeline.Section) []pipeline.Fault {
		if len(s.Texts("seeds")) > 2 {
			return []pipeline.Fault{{Path: "seeds", Why: "are too many"}}
		}
		return nil
	}}
}

func TestLoadSection(t *testing.T) {
	s, _, err := config.LoadSection(config.Source{Path: "shop.yaml",
		Text: []byte("kind: crawl\nseeds: [a, b]\nfields:\n  title: {css: h1}\n")}, moduleKind())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Texts("seeds")) != 2 || s.Duration("delay") != time.Second ||
		s.Sections("fields")["title"].Text("css") != "h1" {
		t.Errorf("%v %v %v", s.Texts("seeds"), s.Duration("delay"), s.Sections("fields"))
	}
	for text, want := range map[string]string{
		"seeds: [a]\nfeilds: {}\n": "shop.yaml:2", "delay: soon\nseeds: [a]": "shop.yaml:1",
		"kind: convert\nseeds: [a]": "crawl",
		"delay: 1s\n":               "seeds", "seeds: [a, b, c]": "too many", "": "seeds", "- a\n": "mapping",
	} {
		if _, _, err := config.LoadSection(config.Source{Path: "shop.yaml", Text: []byte(text)},
			moduleKind()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
