package project

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The dashboard asks for metrics, and labels of them, that are exported.
func TestDashboardNamesRealMetrics(t *testing.T) {
	labels := map[string][]string{}
	for _, m := range (&figures{}).metrics(&projection{}) {
		labels[m.Name] = append(m.Labels, "job", "instance", "le")
	}
	text, err := os.ReadFile("../../deploy/grafana/project.json")
	if err != nil {
		t.Fatal(err)
	}
	queries := regexp.MustCompile(`\b([a-z0-9_]+)\{([^}]*)\}`).FindAllStringSubmatch(string(text), -1)
	names := 0
	for _, q := range queries {
		if !strings.Contains(q[2], "$instance") { // of a variable
			continue
		}
		names++
		name := strings.TrimSuffix(q[1], "_bucket")
		for _, l := range regexp.MustCompile(`([a-z_]+)=~`).FindAllStringSubmatch(q[2], -1) {
			if !slices.Contains(labels[name], l[1]) {
				t.Errorf("there is no metric %s with label %s", name, l[1])
			}
		}
	}
	if names < 8 {
		t.Errorf("%d queries were found", names)
	}
}
