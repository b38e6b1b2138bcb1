package site

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// goroot returns the Go installation that runs the tests.
func goroot(t testing.TB) string {
	t.Helper()
	root, err := FindGoRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// library is the listing of that installation, which does not change.
var library = sync.OnceValues(func() (*listing, error) {
	root, err := FindGoRoot(context.Background())
	if err != nil {
		return nil, err
	}
	return readListing(root)
})

// open opens the site of that installation as Open does, but lists it once.
func open(t testing.TB, opt Options) *Site {
	t.Helper()
	l, err := library()
	if err := errors.Join(err, opt.validate()); err != nil {
		t.Fatal(err)
	}
	return newSite(l, opt)
}

func openAt(t testing.TB, root string, opt Options) *Site {
	t.Helper()
	s, err := Open(root, opt)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// smallRoot writes a Go installation of a few files, with no vendor folder.
func smallRoot(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, "VERSION"), "go1.99.1\ntime 2030-01-01T00:00:00Z\n")
	for name, text := range files {
		write(t, filepath.Join(root, "src", filepath.FromSlash(name)), text)
	}
	return root
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// zoo is a small library with a bit of everything that has to be left out.
var zoo = map[string]string{
	"fmt/print.go":               "// Package fmt prints.\npackage fmt\n\nimport \"io\"\n\n// Fprint prints to w.\nfunc Fprint(w io.Writer, a ...any) error { return nil }\n",
	"fmt/print_test.go":          "package fmt\n\nfunc Tested() {}\n",
	"fmt/print_windows.go":       "package fmt\n\nfunc OnWindows() {}\n",
	"fmt/new.go":                 "package fmt\n\nfunc Newer() { this is a syntax of the future }\n",
	"fmt/gen.go":                 "//go:build ignore\n\npackage main\n\nfunc Generate() {}\n",
	"fmt/notes.txt":              "not Go",
	"io/io.go":                   "// Package io is <basic> & small.\npackage io\n\n// Writer is what [Discard] is. See https://example.com/x.\ntype Writer interface{ Write(p []byte) (n int, err error) }\n\nfunc (hidden) Close() {}\n\ntype hidden struct{}\n\n// Modes of writing.\nconst (\n\tFirst = iota\n\tsecond\n\tThird\n)\n\n// Discard discards.\nvar Discard Writer\n",
	"io/internal/secret/s.go":    "package secret\n\nfunc Secret() {}\n",
	"internal/abi/abi.go":        "package abi\n\nfunc Hidden() {}\n",
	"cmd/go/main.go":             "package main\n\nfunc Command() {}\n",
	"cmd/lib/lib.go":             "package lib\n\nfunc Command() {}\n",
	"net/cgo.go":                 "package net\n\nimport \"C\"\n\nfunc Native() {}\n",
	"net/http/cmd/tool/tool.go":  "package main\n",
	"net/http/cmd/server/api.go": "package server\n\n// Üben is not plain.\nfunc Üben() {}\n",
}

func TestSmallSite(t *testing.T) {
	s := openAt(t, smallRoot(t, zoo), Options{})
	want := []string{
		"/", "/pkg/fmt", "/pkg/fmt/Fprint", "/pkg/io", "/pkg/io/Discard", "/pkg/io/First", "/pkg/io/Writer",
		"/pkg/net/http/cmd/server", "/src/fmt/print.go", "/src/io/io.go", "/src/net/http/cmd/server/api.go",
	}
	if got := slices.Sorted(s.Paths()); !slices.Equal(got, want) {
		t.Errorf("paths\n got %q\nwant %q", got, want)
	}
	if s.Version() != "go1.99.1" || s.Len() != len(want) {
		t.Errorf("version %q with %d pages", s.Version(), s.Len())
	}
	if got, want := s.Skipped(), []string{"fmt/new.go"}; !slices.Equal(got, want) {
		t.Errorf("skipped %q, want %q", got, want)
	}
}

// A distribution may keep the sources elsewhere, behind a symbolic link.
func TestOpenLinkedSources(t *testing.T) {
	root := smallRoot(t, zoo)
	linked := t.TempDir()
	if err := os.Symlink(filepath.Join(root, "src"), filepath.Join(linked, "src")); err != nil {
		t.Skip("no symbolic links here:", err)
	}
	if got, want := openAt(t, linked, Options{}).Len(), openAt(t, root, Options{}).Len(); got != want {
		t.Errorf("%d pages, want %d", got, want)
	}
}

func TestOpenWithoutSources(t *testing.T) {
	empty := t.TempDir()
	if err := os.Mkdir(filepath.Join(empty, "src"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{t.TempDir(), filepath.Join(t.TempDir(), "nowhere"), empty} {
		_, err := Open(root, Options{})
		if !errors.Is(err, ErrNoGoRoot) {
			t.Fatalf("Open(%s): %v, want ErrNoGoRoot", root, err)
		}
		for _, want := range []string{root, "set GOROOT", "--goroot"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
	}
}

func TestOpenRefusesNonsense(t *testing.T) {
	nan := 0.0
	nan /= nan
	for name, opt := range map[string]Options{
		"negative":            {Pages: -1},
		"throttled":           {Faults: FaultRates{Throttled: 1.5}},
		"slow":                {Faults: FaultRates{Slow: -0.1}},
		"reset":               {Faults: FaultRates{Reset: nan}},
		"add up":              {Faults: FaultRates{Reset: 0.6, Truncated: 0.6}},
		"no negative number":  {Faults: FaultRates{Broken: -1}},
		"failing is -2, want": {Faults: FaultRates{Failing: -2}},
	} {
		if _, err := Open(t.TempDir(), opt); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPages shows that the limit is kept, and that a larger site contains the
// smaller ones, however small.
func TestPages(t *testing.T) {
	all := open(t, Options{})
	if all.Len() < DefaultPages {
		t.Errorf("the standard library has %d pages, want at least %d", all.Len(), DefaultPages)
	}
	larger := slices.Collect(all.Paths())
	for _, popular := range []string{"/pkg/errors", "/pkg/io"} {
		if !slices.Contains(larger[:10], popular) {
			t.Errorf("a site of 10 pages has no %s", popular)
		}
	}
	for _, pages := range []int{DefaultPages, 500, 100, 2, 1} {
		got := slices.Collect(open(t, Options{Pages: pages}).Paths())
		if len(got) != pages || !slices.Equal(got, larger[:pages]) {
			t.Errorf("a site of %d pages has %d, or others than a larger one", pages, len(got))
		}
	}
}

// TestSameSite opens a site twice, and with another seed.
func TestSameSite(t *testing.T) {
	opt := Options{Pages: 400, Seed: 7, Faults: DefaultFaults()}
	a, b := openAt(t, goroot(t), opt), open(t, opt)
	opt.Seed = 8
	c := open(t, opt)
	if !slices.Equal(slices.Collect(a.Paths()), slices.Collect(b.Paths())) {
		t.Error("the pages differ")
	}
	if !maps.EqualFunc(plans(a), plans(b), slices.Equal) {
		t.Error("the plans differ")
	}
	if !slices.Equal(a.Broken(), b.Broken()) || !slices.Equal(a.Failing(), b.Failing()) {
		t.Error("what is broken or failing differs")
	}
	if maps.EqualFunc(plans(a), plans(c), slices.Equal) || slices.Equal(a.Broken(), c.Broken()) {
		t.Error("another seed changes nothing")
	}
	synctest.Test(t, func(t *testing.T) { // so that slow pages take no time
		for path := range a.Paths() {
			x, y := answer(a, "GET", path, nil), answer(b, "GET", path, nil)
			if x.Code != y.Code || x.Header().Get("ETag") != y.Header().Get("ETag") || x.Body.String() != y.Body.String() {
				t.Errorf("%s differs", path)
			}
		}
	})
}

// plans returns the plan of every page that has one.
func plans(s *Site) map[string][]Fault {
	plans := make(map[string][]Fault)
	for path := range s.Paths() {
		if plan := s.Plan(path); len(plan) > 0 {
			plans[path] = plan
		}
	}
	return plans
}
