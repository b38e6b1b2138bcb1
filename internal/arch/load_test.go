package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/pawl-dev/pawl"

// file is one parsed source file, whatever its build constraints.
type file struct {
	path  string // relative to the module
	test  bool
	lines int
	src   []byte
	ast   *ast.File
}

// pkg is the Go files of one folder.
type pkg struct {
	path  string // relative to the module, "." for its root
	files []*file
}

// tree is the source of a module.
type tree struct {
	fset *token.FileSet
	pkgs []*pkg
}

// load parses every Go file below root, except other modules, testdata, and
// generated files. It reads the files themselves rather than ask `go list`, so
// that files for other systems are judged, too, and a tree that does not build is.
func load(t *testing.T, root fs.FS) *tree {
	t.Helper()
	tr := &tree{fset: token.NewFileSet()}
	byPath := map[string]*pkg{}
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return skipFolder(root, name)
		case !strings.HasSuffix(name, ".go") || strings.HasPrefix(d.Name(), "_") || strings.HasPrefix(d.Name(), "."):
			return nil
		}
		f, err := parse(tr.fset, root, name)
		if err != nil || ast.IsGenerated(f.ast) {
			return err
		}
		dir := path.Dir(name)
		if byPath[dir] == nil {
			byPath[dir] = &pkg{path: dir}
			tr.pkgs = append(tr.pkgs, byPath[dir])
		}
		byPath[dir].files = append(byPath[dir].files, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func skipFolder(root fs.FS, name string) error {
	if name == "." {
		return nil
	}
	base := path.Base(name)
	_, err := fs.Stat(root, path.Join(name, "go.mod"))
	if err == nil || base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return fs.SkipDir
	}
	return nil
}

func parse(fset *token.FileSet, root fs.FS, name string) (*file, error) {
	src, err := fs.ReadFile(root, name)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.ParseFile(fset, name, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	return &file{name, strings.HasSuffix(name, "_test.go"), bytes.Count(src, []byte("\n")), src, parsed}, nil
}

// eachImport calls do for every import, with its path.
func (tr *tree) eachImport(do func(p *pkg, f *file, imported string, at token.Pos)) {
	for _, p := range tr.pkgs {
		for _, f := range p.files {
			for _, spec := range f.ast.Imports {
				if imported, err := strconv.Unquote(spec.Path.Value); err == nil {
					do(p, f, imported, spec.Pos())
				}
			}
		}
	}
}

// ours turns an import path into one relative to the module.
func ours(imported string) (rel string, ok bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// standard says whether a path is of the standard library: its first element has no dot.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// matches says whether a pattern of data_test.go covers a path.
func matches(pattern, name string) bool {
	if rest, ok := strings.CutSuffix(pattern, "..."); ok {
		return rest == "" || name == strings.TrimSuffix(rest, "/") || strings.HasPrefix(name, rest)
	}
	ok, _ := path.Match(pattern, name)
	return ok
}

func matchesAny(patterns []string, name string) bool {
	for _, pattern := range patterns {
		if matches(pattern, name) {
			return true
		}
	}
	return false
}

// below says whether a path is in the folder of a package, or is that package.
func below(folder, name string) bool {
	return folder == name || folder != "." && strings.HasPrefix(name, folder+"/")
}
