package site

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// longestSource is the size in bytes from which on a file has no page of its
// own: generated tables and bundles, slow to send and dull to read.
const longestSource = 128 << 10

// A listing is what the site knows about a Go installation after one quick
// look: names, not documentation. It is immutable once read.
type listing struct {
	version  string    // "go1.26.1", or "go" where the installation does not say
	packages []*volume // in the order of their import paths
	skipped  []string  // source files no parser could read, as "net/http/client.go"
}

// A volume is one package as the listing sees it.
type volume struct {
	path       string // import path
	dir        string // folder of its files
	name       string // name in its package clause
	synopsis   string
	sources    []source
	imports    []string // sorted; listed packages only
	importedBy []string // sorted; listed packages only
	entries    []entry  // types, then functions, then groups of values, by name
	methods    map[string]bool
}

// A source is one file of a volume.
type source struct {
	name string
	size int
}

// An entry is something declared at package level that can have a page.
type entry struct {
	kind  kind
	names []string // one, or what a group of constants or variables declares
	file  string
}

// buildRules decides which files belong to a package. They are the same on
// every machine, so that the site is.
func buildRules() build.Context {
	rules := build.Default
	rules.GOOS, rules.GOARCH, rules.Compiler = "linux", "amd64", "gc"
	rules.CgoEnabled, rules.UseAllFiles = false, false
	rules.BuildTags, rules.ToolTags, rules.InstallSuffix = nil, nil, ""
	return rules
}

// readListing looks through the sources under goroot.
func readListing(goroot string) (*listing, error) {
	src := filepath.Join(goroot, "src")
	// Some distributions make src a symbolic link, into which WalkDir would not go.
	root, err := filepath.EvalSymlinks(src)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s, it has no src folder: %s", ErrNoGoRoot, goroot, whatToDo)
	}
	if err != nil {
		return nil, fmt.Errorf("read Go sources: %w", err)
	}
	dirs, err := packageDirs(root)
	if err != nil {
		return nil, fmt.Errorf("read Go sources: %w", err)
	}
	l := &listing{version: goVersion(goroot)}
	if err := l.readAll(root, dirs); err != nil {
		return nil, fmt.Errorf("read Go sources: %w", err)
	}
	if len(l.packages) == 0 {
		return nil, fmt.Errorf("%w in %s, its src folder has no packages: %s", ErrNoGoRoot, goroot, whatToDo)
	}
	l.connect()
	return l, nil
}

// packageDirs returns the folders below root that may hold a package of the
// public library, as slash-separated paths relative to root, sorted.
func packageDirs(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil || !d.IsDir() || rel == "." {
			return err
		}
		rel = filepath.ToSlash(rel)
		switch name := d.Name(); {
		case name == "internal", name == "vendor", name == "testdata", rel == "cmd", !plainName(name):
			return fs.SkipDir
		}
		dirs = append(dirs, rel)
		return nil
	})
	slices.Sort(dirs)
	return dirs, err
}

// plainName reports whether name needs no escaping in a path and no thought
// about upper and lower case in other scripts. What is not plain is not listed.
func plainName(name string) bool {
	if name == "" || name[0] == '_' || name[0] == '.' {
		return false
	}
	return strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-' && r != '.'
	}) < 0
}

// readAll reads the packages in dirs, on all processors.
func (l *listing) readAll(root string, dirs []string) error {
	volumes := make([]*volume, len(dirs))
	skipped := make([][]string, len(dirs))
	errs := make([]error, len(dirs))
	var next atomic.Int64
	var readers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(dirs)) {
		readers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(dirs)); i = next.Add(1) - 1 {
				volumes[i], skipped[i], errs[i] = readVolume(root, dirs[i])
			}
		})
	}
	readers.Wait()
	l.packages = slices.DeleteFunc(volumes, func(v *volume) bool { return v == nil })
	l.skipped = slices.Concat(skipped...)
	return errors.Join(errs...)
}

// readVolume lists one package; nil when the folder has none.
func readVolume(root, path string) (*volume, []string, error) {
	v := &volume{path: path, dir: filepath.Join(root, filepath.FromSlash(path)), methods: make(map[string]bool)}
	found, err := os.ReadDir(v.dir)
	if err != nil {
		return nil, nil, err
	}
	var skipped []string
	rules := buildRules()
	for _, f := range found {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") || !plainName(f.Name()) {
			continue
		}
		text, err := readMatching(rules, v.dir, f.Name())
		if err != nil || text == nil {
			// MatchFile fails on a header it cannot parse; a file that is not
			// there any more is found missing by readMatching, too.
			if err != nil {
				skipped = append(skipped, path+"/"+f.Name())
			}
			continue
		}
		file, synopsis, err := parseOutline(f.Name(), text)
		if err != nil {
			skipped = append(skipped, path+"/"+f.Name())
			continue
		}
		if !v.belongs(file) {
			continue
		}
		v.name = file.Name.Name
		v.synopsis = cmp.Or(v.synopsis, synopsis)
		v.add(f.Name(), len(text), file)
	}
	if len(v.sources) == 0 {
		return nil, skipped, nil
	}
	v.sort()
	return v, skipped, nil
}

// readMatching returns the text of a file that the rules take, else nil.
func readMatching(rules build.Context, dir, name string) ([]byte, error) {
	var text []byte
	rules.OpenFile = func(path string) (io.ReadCloser, error) {
		var err error
		text, err = os.ReadFile(path)
		return io.NopCloser(bytes.NewReader(text)), err
	}
	match, err := rules.MatchFile(dir, name)
	if err != nil || !match {
		return nil, err
	}
	return text, nil
}

// belongs reports whether file is part of the package and not a command, a
// cgo file, or a stray of another name.
func (v *volume) belongs(file *ast.File) bool {
	switch file.Name.Name {
	case "main", "documentation":
		return false
	}
	for _, spec := range file.Imports {
		if spec.Path.Value == `"C"` {
			return false
		}
	}
	return v.name == "" || v.name == file.Name.Name
}

// sort brings the entries into the order of the site: by kind, then by name.
func (v *volume) sort() {
	slices.Sort(v.imports)
	v.imports = slices.Compact(v.imports)
	slices.SortStableFunc(v.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.kind.shelf(), b.kind.shelf()), cmp.Compare(a.names[0], b.names[0]))
	})
}

// connect drops imports of unlisted packages and fills in importedBy.
func (l *listing) connect() {
	byPath := make(map[string]*volume, len(l.packages))
	for _, v := range l.packages {
		byPath[v.path] = v
	}
	for _, v := range l.packages {
		v.imports = slices.DeleteFunc(v.imports, func(path string) bool { return byPath[path] == nil })
		for _, path := range v.imports {
			byPath[path].importedBy = append(byPath[path].importedBy, v.path)
		}
	}
}

// goVersion returns the first line of the VERSION file of an installation.
func goVersion(goroot string) string {
	text, err := os.ReadFile(filepath.Join(goroot, "VERSION"))
	if err != nil {
		return "go" // a checkout of the sources has none
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return cmp.Or(strings.TrimSpace(first), "go")
}
