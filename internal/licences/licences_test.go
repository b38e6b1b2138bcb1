package licences

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write NOTICE anew")

var legal = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// TestNoticeIsComplete makes the licences of all modules that the binary is linked from, and of Go, anew.
func TestNoticeIsComplete(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}{{end}}{{end}}", "../../cmd/pawl")
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	listed, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	of := map[string][]string{} // the modules of a text
	var texts []string
	read := func(name, dir string) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, e := range entries {
			if !legal.MatchString(e.Name()) || e.IsDir() || strings.Contains(e.Name(), "LOGO") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			found = true
			key := strings.TrimSpace(strings.ReplaceAll(string(text), "\r\n", "\n"))
			if of[key] == nil {
				texts = append(texts, key)
			}
			of[key] = append(of[key], name)
		}
		if !found {
			t.Errorf("%s has no licence", name)
		}
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	read("Go (the standard library and the runtime)", strings.TrimSpace(string(root)))
	seen := map[string]bool{}
	for line := range strings.Lines(string(listed)) {
		parts := strings.Split(strings.TrimSpace(line), "\t")
		if len(parts) == 3 && !seen[parts[0]] {
			seen[parts[0]] = true
			read(parts[0], parts[2])
		}
	}
	var b strings.Builder
	b.WriteString("Pawl is under the Apache License 2.0. Its binary is linked from what follows, each under the\n" +
		"licence below its name.\ngithub.com/klippa-app/go-pdfium brings PDFium as WebAssembly, which is Copyright The PDFium Authors, under the Apache\n" +
		"License 2.0 below.\n")
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(of[text], "\n"), text)
	}
	if *update {
		if err := os.WriteFile("NOTICE", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if b.String() != Text {
		t.Error("NOTICE is not what is linked: go test ./internal/licences -update")
	}
}
