package site

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrNoGoRoot says that there is no Go installation whose sources could be
// served. The error that wraps it says where was looked and what to do.
var ErrNoGoRoot = errors.New("no sources of the Go standard library")

// whatToDo ends every error about a missing Go installation.
const whatToDo = "set GOROOT, or pass --goroot, to the root of a Go installation (the folder that `go env GOROOT` prints)"

// goEnvPatience bounds one call of the go command, which normally takes some
// 10 ms but may sit on a slow or dead network file system.
const goEnvPatience = 5 * time.Second

// FindGoRoot returns the root of a Go installation that has its sources: what
// $GOROOT names, else what `go env GOROOT` prints, else the first of the
// places where installers put it. (A binary built with -trimpath does not know
// the root it was built with.) A $GOROOT that is set but has no sources is an
// error, not skipped: the user asked for that one. Errors wrap [ErrNoGoRoot].
func FindGoRoot(ctx context.Context) (string, error) {
	s := search{env: os.Getenv("GOROOT"), goEnv: goEnvRoot, places: usualPlaces}
	return s.run(ctx)
}

// search is FindGoRoot with its surroundings as values.
type search struct {
	env    string
	goEnv  func(context.Context) (string, error)
	places func() []string
}

func (s search) run(ctx context.Context) (string, error) {
	if s.env != "" {
		if !hasSources(s.env) {
			return "", fmt.Errorf("find GOROOT: %w in %s, which GOROOT names: %s", ErrNoGoRoot, s.env, whatToDo)
		}
		return s.env, nil
	}
	root, err := s.goEnv(ctx)
	tried := "`go env GOROOT` says " + root
	switch {
	case err != nil:
		tried = fmt.Sprintf("`go env GOROOT`: %v", err)
	case hasSources(root):
		return root, nil
	}
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("find GOROOT: %w", err)
	}
	for _, place := range s.places() {
		if hasSources(place) {
			return place, nil
		}
	}
	return "", fmt.Errorf("find GOROOT: %w (%s; none of the usual places has any): %s", ErrNoGoRoot, tried, whatToDo)
}

// hasSources reports whether root looks like a GOROOT with its src folder.
func hasSources(root string) bool {
	info, err := os.Stat(filepath.Join(root, "src", "fmt"))
	return root != "" && err == nil && info.IsDir()
}

// goEnvRoot asks the go command. It runs outside any module and with the
// toolchain at hand, so that a go.mod nearby cannot make it download another.
func goEnvRoot(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, goEnvPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "env", "GOROOT")
	cmd.Dir = os.TempDir()
	cmd.Env = append(os.Environ(), "GOTOOLCHAIN=local")
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	return strings.TrimSpace(string(out)), err
}

// usualPlaces lists where installers and package managers put Go. Where one
// of them keeps several versions, the names are in descending order.
func usualPlaces() []string {
	places := []string{
		"/usr/local/go", "/usr/lib/go", "/usr/lib/golang", "/usr/share/go", "/opt/go", "/snap/go/current",
		"/opt/homebrew/opt/go/libexec", "/usr/local/opt/go/libexec", "/opt/local/lib/go",
		`C:\Program Files\Go`, `C:\Go`,
	}
	patterns := []string{"/usr/lib/go-*", "/usr/lib64/go/*"}
	if home, err := os.UserHomeDir(); err == nil {
		patterns = append(patterns,
			filepath.Join(home, "sdk", "go*"),
			filepath.Join(home, "go", "pkg", "mod", "golang.org", "toolchain@*"))
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			continue // a home folder with a bracket in its name
		}
		slices.Reverse(found)
		places = append(places, found...)
	}
	return places
}
