package config_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/pipeline"
)

// A file that a section names counts where the section says nothing, and what is wrong in it is told with its name.
func TestSectionIncludesAFile(t *testing.T) {
	kind := sampleKinds()[0]
	kind.Include = "module"
	kind.Fields = append(kind.Fields, pipeline.Field{Name: "module"})
	load := func(section string, files map[string]string) (*config.Config, error) {
		return config.Load(config.Source{
			Path: "conf/pawl.yaml", Text: []byte("pipelines:\n  search: {kind: sample, " + section + "}\n"),
			Kinds: []*pipeline.Kind{kind},
			ReadFile: func(name string) ([]byte, error) {
				text, ok := files[name]
				if !ok {
					return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
				}
				return []byte(text), nil
			},
		})
	}
	const file = "kind: sample\nsink: {url: \"http://h\", password: hunter2hunter}\nseeds: [a, b]\nwait: 1s\n"
	c, err := load("module: shop.yaml, seeds: [c]", map[string]string{"conf/shop.yaml": file})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Pipelines[0].Section
	if s.Section("sink").Text("url") != "http://h" || strings.Join(s.Texts("seeds"), " ") != "c" ||
		s.Duration("wait").Seconds() != 1 || s.Int("batch_bytes") != 5<<20 {
		t.Errorf("%+v", s)
	}
	if fmt.Sprint(c.Secrets) != "[hunter2hunter]" {
		t.Errorf("secrets: %d", len(c.Secrets))
	}
	for text, want := range map[string]string{
		"sink: {url: \"http://h\"}\nwaite: 1s\n": "conf/shop.yaml:2:1: pipelines.search.waite: unknown key",
		"wait: soon\nsink: {url: \"http://h\"}":  "conf/shop.yaml:1:7: pipelines.search.wait: ",
		"wait: 1s\n":                             "conf/pawl.yaml:2:3: pipelines.search: needs a sink",
		"sink: {password: hunter2hunter}\n":      "conf/shop.yaml:1:7: pipelines.search.sink: needs a url",
		"sink: {url: \"http://no\"}\n":           "conf/shop.yaml:1:13: pipelines.search.sink.url: is not wanted",
		"- a\n":                                  "conf/shop.yaml:1:1",
	} {
		if _, err := load("module: shop.yaml", map[string]string{"conf/shop.yaml": text}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := load("module: none.yaml, sink: {url: \"http://h\"}", nil); err == nil ||
		!strings.Contains(err.Error(), "conf/pawl.yaml:2") || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("no file: %v", err)
	}
}
