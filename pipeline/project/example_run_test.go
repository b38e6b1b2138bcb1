package project

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// examples/project is what the page of this pipeline tells to run.
func TestExample(t *testing.T) {
	if _, err := exec.LookPath("psql"); err != nil {
		t.Skip("psql is not installed: the example talks to PostgreSQL with it")
	}
	search, at := address(t, "PAWL_TEST_OPENSEARCH", "opensearch"), address(t, "PAWL_TEST_POSTGRES", "postgres")
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(bin, "pawl"), "github.com/pawl-dev/pawl/cmd/pawl")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	run := exec.Command("bash", filepath.Join("..", "..", "examples", "project", "run.sh"))
	run.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "SEARCH_URL="+search,
		"DATABASE="+freshDatabase(t, at),
		"DOC=json_build_object('name', name)")
	out, err := run.CombinedOutput()
	for _, want := range []string{`"_source":{"name":"a red chair"}`, "search: running",
		"equal: 1 checked, 0 missing, 0 stale, 0 extra"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in the output", want)
		}
	}
	if err != nil || t.Failed() {
		t.Fatalf("%v\n%s", err, out)
	}
}
