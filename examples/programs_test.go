// Package examples_test runs the programs of this folder that check their own account.
package examples_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestProgramsAreRight(t *testing.T) {
	dir, names := t.TempDir(), []string{"crawl", "hello"}
	build := []string{"build", "-o", dir + string(filepath.Separator)}
	for _, name := range names {
		build = append(build, "./"+name)
	}
	if out, err := exec.CommandContext(t.Context(), "go", build...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(filepath.Join(name, "main.go"))
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(source, []byte("\n")); n > 120 {
				t.Errorf("%d lines; an example has 120 at most", n)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			program := exec.CommandContext(ctx, filepath.Join(dir, name))
			program.Dir = t.TempDir()
			if out, err := program.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
