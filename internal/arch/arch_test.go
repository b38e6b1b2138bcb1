package arch

import (
	"fmt"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rogpeppe/go-internal/txtar"
)

// report collects what breaks a rule, as "file:line: what and why".
type report struct {
	fset  *token.FileSet
	found []string
}

func (r *report) add(at token.Pos, format string, args ...any) {
	where := ""
	if at.IsValid() {
		p := r.fset.Position(at)
		where = fmt.Sprintf("%s:%d: ", p.Filename, p.Line)
	}
	r.found = append(r.found, where+fmt.Sprintf(format, args...))
}

// judge applies every rule.
func judge(tr *tree, exceptions map[string]string) (found []string, files, functions []size) {
	r := &report{fset: tr.fset}
	checkLayers(tr, r)
	checkLibraries(tr, r)
	checkBans(tr, r)
	checkNames(tr, r)
	checkPackageDocs(tr, r)
	checkDocs(tr, r)
	checkColumns(tr, r)
	checkPackages(tr, r)
	checkContract(tr, r)
	checkOwners(tr, r)
	files, functions = checkSizes(tr, r, exceptions)
	slices.Sort(r.found)
	return r.found, files, functions
}

func TestTree(t *testing.T) {
	tr := load(t, os.DirFS(filepath.Join("..", "..")))
	if len(tr.pkgs) == 0 {
		t.Fatal("no Go package found")
	}
	found, files, functions := judge(tr, exceptions)
	for _, f := range found {
		t.Error(f)
	}
	t.Logf("%d packages; longest files and functions:", len(tr.pkgs))
	for _, s := range slices.Concat(files[:min(5, len(files))], functions[:min(5, len(functions))]) {
		t.Logf("%5d lines  %s", s.lines, s.name)
	}
}

// TestRulesCanFail runs the rules over small modules that break them. Each
// testdata/*.txtar begins with the reports it wants, one a line, by their beginning.
func TestRulesCanFail(t *testing.T) {
	fixtures, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(fixtures) == 0 {
		t.Fatal("no fixtures", err)
	}
	for _, name := range fixtures {
		t.Run(filepath.Base(name), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			root := fstest.MapFS{}
			for _, f := range archive.Files {
				root[f.Name] = &fstest.MapFile{Data: f.Data}
			}
			found, _, _ := judge(load(t, root), map[string]string{})
			want := wanted(string(archive.Comment))
			for i := range max(len(found), len(want)) {
				if i >= len(found) || i >= len(want) || !strings.HasPrefix(found[i], want[i]) {
					t.Fatalf("found:\n%s\nwant:\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
}

// wanted reads the reports that a fixture asks for; a line with # is a remark.
func wanted(comment string) []string {
	var want []string
	for line := range strings.Lines(comment) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			want = append(want, line)
		}
	}
	slices.Sort(want)
	return want
}

func TestPackageLimit(t *testing.T) {
	half := []byte("// Package a is long.\npackage a\n" + strings.Repeat("\n", maxPackage/2))
	for path, want := range map[string]int{"dev/a": 1, "store/a": 0} {
		r := &report{}
		checkPackages(load(t, fstest.MapFS{path + "/a.go": {Data: half}, path + "/b.go": {Data: half},
			path + "/a_test.go": {Data: half}}), r)
		if len(r.found) != want {
			t.Errorf("%s: found %q", path, r.found)
		}
		r = &report{}
		checkPackages(load(t, fstest.MapFS{path + "/a.go": {Data: half}, path + "/b_test.go": {Data: half}}), r)
		if len(r.found) > 0 {
			t.Errorf("%s: tests count: %q", path, r.found)
		}
	}
}

func TestSizeLimits(t *testing.T) {
	long := "// Package a is long.\npackage a\n\nfunc f() {" + strings.Repeat("\n",
		maxFunction) + "}\n" + strings.Repeat("\n", maxFile)
	short := "// Package a is short.\npackage a\n"
	for _, c := range []struct {
		name, source string
		exceptions   map[string]string
		want         []string
	}{
		{"too long", long, nil, []string{"dev/a/a.go:2: dev/a/a.go has 584 lines",
			"dev/a/a.go:4: dev/a/a.go:f has 81 lines"}},
		{"excused", long, map[string]string{"dev/a/a.go": "a table", "dev/a/a.go:f": "a table"}, nil},
		{"excused without a reason", long, map[string]string{"dev/a/a.go": "a table", "dev/a/a.go:f": ""},
			[]string{"dev/a/a.go:4: dev/a/a.go:f has 81 lines"}},
		{"excuse outlived", short, map[string]string{"dev/a/a.go": "a table"},
			[]string{"dev/a/a.go is within the limit"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := fstest.MapFS{"dev/a/a.go": {Data: []byte(c.source)}}
			found, _, _ := judge(load(t, root), c.exceptions)
			if !slices.EqualFunc(found, c.want, strings.HasPrefix) {
				t.Errorf("found %q, want %q", found, c.want)
			}
		})
	}
}
