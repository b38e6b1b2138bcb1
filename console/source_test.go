package console

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dynamicTexts are translated by their value.
var dynamicTexts = []string{"waiting", "delayed", "leased", "dead", "acked", "paused by %s since %s",
	"full: appends are refused", "%d handlers are beyond their deadline", "the oldest message waits for %s",
	"%s wait, and no worker serves it", "%s died in the last hour", "%s wait, held back by the limit %s"}

// sources are the texts of the templates and of the code.
func sources(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"templates/*.html", "*.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all[name] = string(b)
		}
	}
	return all
}
