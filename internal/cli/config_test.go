package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/serve"
	"github.com/pawl-dev/pawl/pipeline"
)

// What `pawl up` would refuse for its form, `pawl config check` refuses with line and column.
func TestConfigCheckRefusesWhatUpRefuses(t *testing.T) {
	const (
		project = "pipelines:\n  p:\n    kind: project\n    sink: {url: 'http://h', index: i}\n    "
		crawl   = "pipelines:\n  c:\n    kind: crawl\n    seeds: ['http://h']\n    "
		wecom   = "pipelines:\n  w: {kind: wecom, corp_id: c, secret: s, token: t, handler: {exec: cat},\n" +
			"    encoding_aes_key: " + "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG,\n    messages: {"
	)
	stores := 0
	for name, c := range map[string]struct{ text, at string }{
		"store":                   {"store: 'sqlite:x?cache=0'", "1:8: store: "},
		"store, planned":          {"store: 'mysql://h/d'", "1:8: store: "},
		"mirror":                  {"mirror: 'postgres://h:x/d'", "1:9: mirror: "},
		"console.stores":          {"console: {stores: {a: 'kafka://h:x'}}", "1:23: console.stores.a: "},
		"project.database":        {project + "database: notaurl", "5:15: pipelines.p.database: "},
		"project.database, kafka": {project + "database: kafka:x", "5:15: pipelines.p.database: "},
		"crawl.state":             {crawl + "state: 'sqlite:x?foo=1'", "5:12: pipelines.c.state: "},
		"crawl, no seeds":         {"pipelines: {c: {kind: crawl, seeds: []}}", "1:37: pipelines.c.seeds: "},
		"crawl, seeds absent":     {"pipelines: {c: {kind: crawl}}", "pipelines.c"},
		"crawl.timeout":           {crawl + "timeout: 0s", "5:14: pipelines.c.timeout: "},
		"crawl.max_bytes":         {crawl + "max_bytes: 0", "5:16: pipelines.c.max_bytes: "},
		"wecom.messages.store":    {wecom + "store: notaurl}}", "4:23: pipelines.w.messages.store: "},
		"wecom.messages.fallback": {wecom + "store: 'sqlite:m', fallback: nowhere}}", "4:45: pipelines.w.messages.fallback: "},
		"wecom.messages.topic":    {wecom + "topic: pawl.state}}", "4:23: pipelines.w.messages.topic: "},
		"wecom.messages, dead":    {wecom + "dead_letter_topic: pawl.state}}", "4:35: pipelines.w.messages.dead_letter_topic: "},
		"wecom.messages, stage":   {wecom + "dead_letter_topic: w.pull}}", "4:35: pipelines.w.messages.dead_letter_topic: "},
		"topics":                  {"topics: {pawl.state: {handler: exec, command: x}}", "1:10: topics.pawl.state: "},
		"schedules":               {"schedules: {s: {every: 2s, topic: pawl.state}}", "1:35: schedules.s.topic: "},
		"wecom.messages.group":    {wecom + "group: 'a b'}}", "4:23: pipelines.w.messages.group: "},
	} {
		file := filepath.Join(t.TempDir(), "pawl.yaml")
		if err := os.WriteFile(file, []byte(c.text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		out := &bytes.Buffer{}
		code := Run(t.Context(), "test", []string{"config", "check", file},
			System{In: &bytes.Buffer{}, Out: out, Err: out, Getenv: func(string) string { return "" }})
		if code != exitUsage || !strings.Contains(out.String(), c.at) {
			t.Errorf("%s: ended with %d, want a problem at %s\n%s", name, code, c.at, out)
		}
	}
	for _, k := range serve.Kinds() {
		stores += storeURLs(k.Fields)
	}
	if stores != 4 {
		t.Errorf("pipelines have %d URLs of stores: add those that are new to the table", stores)
	}
}

func storeURLs(fields []pipeline.Field) (n int) {
	for i := range fields {
		if fields[i].Type == pipeline.StoreURL {
			n++
		}
		n += storeURLs(fields[i].Fields)
	}
	return n
}
