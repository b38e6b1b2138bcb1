package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/goccy/go-yaml"
)

// chartFunctions are those of helm that the chart uses.
var chartFunctions = template.FuncMap{
	"toYaml": func(v any) (string, error) {
		b, err := yaml.Marshal(v)
		return strings.TrimSuffix(string(b), "\n"), err
	},
	"nindent": func(n int, s string) string {
		pad := "\n" + strings.Repeat(" ", n)
		return pad + strings.ReplaceAll(s, "\n", pad)
	},
	"quote":     func(s string) string { return fmt.Sprintf("%q", s) },
	"sha256sum": func(s string) string { sum := sha256.Sum256([]byte(s)); return hex.EncodeToString(sum[:]) },
}

// chart renders the chart as helm does, and returns its manifests by kind.
func chart(t *testing.T, values map[string]any) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../deploy/helm/templates/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	manifests := map[string]string{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := template.New(file).Option("missingkey=error").Funcs(chartFunctions).Parse(string(b))
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		given := map[string]any{"Values": values, "Release": map[string]string{"Name": "2026"}}
		if err := parsed.Execute(&out, given); err != nil {
			t.Fatal(err)
		}
		kind, _ := found(t, out.String(), "$.kind").(string)
		manifests[kind] = out.String()
	}
	return manifests
}

// found is what a document has at a path, nil for nothing.
func found(t *testing.T, document, path string) (v any) {
	t.Helper()
	p, err := yaml.PathString(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Read(strings.NewReader(document), &v); err != nil && !yaml.IsNotFoundNodeError(err) {
		t.Fatalf("%v:\n%s", err, document)
	}
	return v
}

// The chart makes manifests that fit together, with a configuration that is right, probes at ports that it opens, and
// the user of the image, without root and with a root file system that is read only.
func TestTheChart(t *testing.T) {
	b, err := os.ReadFile("../../deploy/helm/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(b, &values); err != nil {
		t.Fatal(err)
	}
	without := chart(t, values)["Deployment"]
	values["secret"] = "keys"
	all := chart(t, values)
	if len(all) != 3 {
		t.Fatalf("manifests: %v", all)
	}
	text, _ := found(t, all["ConfigMap"], "$.data.'pawl.yaml'").(string)
	c, err := Load(Source{Path: "pawl.yaml", Text: []byte(text), Getenv: func(name string) string {
		return map[string]string{"PAWL_PASSWORD": "word", "PAWL_TOKEN": "long-enough"}[name]
	}})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	const pod, box = "$.spec.template.spec", "$.spec.template.spec.containers[0]"
	for path, want := range map[string]any{
		"$.metadata.name":                                 "2026", // a text, as Kubernetes wants it
		"$.spec.replicas":                                 uint64(2),
		box + ".image":                                    "pawl:latest",
		box + ".envFrom[0].secretRef.name":                "keys",
		box + ".ports[0].containerPort":                   uint64(8470),
		box + ".ports[1].containerPort":                   uint64(9102),
		box + ".livenessProbe.httpGet.path":               "/livez",
		box + ".livenessProbe.httpGet.port":               "metrics",
		box + ".readinessProbe.httpGet.path":              "/readyz",
		box + ".readinessProbe.httpGet.port":              "metrics",
		box + ".securityContext.readOnlyRootFilesystem":   true,
		box + ".securityContext.allowPrivilegeEscalation": false,
		box + ".resources.limits.memory":                  "512Mi",
		box + ".volumeMounts[0].mountPath":                "/etc/pawl",
		box + ".volumeMounts[1].mountPath":                "/var/lib/pawl",
		pod + ".securityContext.runAsNonRoot":             true,
		pod + ".securityContext.runAsUser":                uint64(65532),
		pod + ".volumes[0].configMap.name":                found(t, all["ConfigMap"], "$.metadata.name"),
		"$.spec.selector.matchLabels":                     found(t, all["Service"], "$.spec.selector"),
		"$.spec.template.metadata.labels":                 found(t, all["Service"], "$.spec.selector"),
	} {
		if got := found(t, all["Deployment"], path); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	if !strings.HasSuffix(c.Listen, ":9102") || !strings.HasSuffix(c.API.Listen, ":8470") {
		t.Errorf("it listens at %s and %s", c.Listen, c.API.Listen)
	}
	grace, _ := found(t, all["Deployment"], pod+".terminationGracePeriodSeconds").(uint64)
	if time.Duration(grace)*time.Second <= c.Drain {
		t.Errorf("killed after %d s, while it drains for %v", grace, c.Drain)
	}
	if found(t, without, box+".envFrom") != nil {
		t.Error("a secret that is not named is asked for")
	}
	image, err := os.ReadFile("../../deploy/Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nUSER 65532\n", "\nEXPOSE 8470 9102\n", "/etc/pawl/pawl.yaml", "9102/livez",
		"\nWORKDIR /var/lib/pawl\n"} {
		if !strings.Contains(string(image), want) {
			t.Errorf("the image lacks %q", want)
		}
	}
	sum := found(t, all["Deployment"], "$.spec.template.metadata.annotations.'checksum/config'")
	values["config"] = map[string]any{"listen": "off"}
	if next := chart(t, values)["Deployment"]; sum == found(t, next,
		"$.spec.template.metadata.annotations.'checksum/config'") {
		t.Error("a change of the configuration starts nothing anew")
	}
}
