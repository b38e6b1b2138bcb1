package config_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/serve"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

// The reference in docs is made of the format: what it says is what is read.
func TestReferenceIsOfThisFormat(t *testing.T) {
	const path = "../../docs/configuration.md"
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<!-- the rest is generated: go test ./internal/config -update -->\n\n"
	intro, _, found := strings.Cut(string(b), mark)
	if !found {
		t.Fatalf("%s has no line %s", path, mark)
	}
	want := intro + mark + strings.TrimRight(config.Reference(serve.Kinds()), "\n") + "\n"
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(b) != want {
		t.Errorf("%s is not of this format: go test ./internal/config -update", path)
	}
}
