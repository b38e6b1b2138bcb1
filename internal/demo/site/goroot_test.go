package site

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestFindGoRoot(t *testing.T) {
	good, other, empty := smallRoot(t, zoo), smallRoot(t, zoo), t.TempDir()
	says := func(root string, err error) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return root, err }
	}
	for name, test := range map[string]struct {
		search
		want string // "" for an error
		hint string
	}{
		"environment":         {search{env: good, goEnv: says(other, nil)}, good, ""},
		"bad environment":     {search{env: empty, goEnv: says(good, nil)}, "", empty},
		"go env":              {search{goEnv: says(good, nil), places: placesAre(other)}, good, ""},
		"go env is wrong":     {search{goEnv: says(empty, nil), places: placesAre(empty, other)}, other, ""},
		"no go command":       {search{goEnv: says("", exec.ErrNotFound), places: placesAre(empty, other)}, other, ""},
		"nowhere":             {search{goEnv: says("", exec.ErrNotFound), places: placesAre(empty)}, "", "executable file not found"},
		"nowhere, not go env": {search{goEnv: says(empty, nil), places: placesAre()}, "", empty},
	} {
		got, err := test.run(t.Context())
		if got != test.want {
			t.Errorf("%s: %q, %v; want %q", name, got, err, test.want)
		}
		if test.want != "" {
			continue
		}
		if !errors.Is(err, ErrNoGoRoot) || !strings.Contains(err.Error(), test.hint) || !strings.Contains(err.Error(), "--goroot") {
			t.Errorf("%s: the error %v does not say %q and what to do", name, err, test.hint)
		}
	}
}

func TestFindGoRootStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := search{goEnv: goEnvRoot, places: placesAre(smallRoot(t, zoo))}
	if root, err := s.run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("found %q, %v after the context ended", root, err)
	}
}

// TestFindGoRootHere asks the go command that runs this test; without GOROOT,
// which it sets for us.
func TestFindGoRootHere(t *testing.T) {
	t.Setenv("GOROOT", "")
	root, err := FindGoRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !filepath.IsAbs(root) || !hasSources(root) {
		t.Errorf("found %q", root)
	}
}

func placesAre(places ...string) func() []string {
	return func() []string { return places }
}
