package wecom

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Alerts and their pages name metrics that are exported.
func TestDocumentsNameRealMetrics(t *testing.T) {
	exported := map[string]bool{}
	for _, m := range (&bridge{figures: newFigures("kefu")}).metrics() {
		exported[m.Name] = true
	}
	files, err := filepath.Glob("../../docs/runbook/PawlWecom*.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\bpawl_wecom_[a-z_]+[a-z]\b`)
	names := 0
	for _, file := range append(files, "../../deploy/alerts/pawl.rules.yaml", "../../docs/pipelines/wecom.md",
		"../../deploy/grafana/wecom.json") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range named.FindAllString(string(text), -1) {
			names++
			base := name
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				base = strings.TrimSuffix(base, suffix)
			}
			if !exported[name] && !exported[base] {
				t.Errorf("%s: there is no metric %s", file, name)
			}
		}
	}
	if names < 10 {
		t.Errorf("%d names of metrics were found", names)
	}
}
