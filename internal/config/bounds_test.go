package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/internal/config"
)

// TestHostileFilesAreRefused: none of these may take time or memory that grows faster than the file.
func TestHostileFilesAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"braces":         {strings.Repeat("{a: ", 20_000), "nested more than"},
		"brackets":       {"topics: " + strings.Repeat("[", 400_000), "nested more than"},
		"a brace a line": {strings.Repeat("{a:\n", 5_000), "nested more than"},
		"dashes":         {strings.Repeat("- ", 20_000), "nested more than"},
		"indentation":    {"topics:\n" + strings.Repeat(" ", 5000) + "a: {}\n", "nested more than"},
		"many lines":     {strings.Repeat("a: 1\n", 50_000), "more than 20000 lines"},
		"large":          {strings.Repeat("# comment\n", 200_000), "larger than 1 MiB"},
		"many faults":    {"limits:\n" + strings.Repeat("  a: 1\n", 5_000), "only the first"},
		"many values": {"limits:\n" + strings.Repeat("  a: &a {rate: 1/s, burst: 1, concurrency: 1, adaptive: 1}\n",
			1) + manyLimits(5_000), "more than 20000 values"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load(config.Source{Path: "pawl.yaml", Text: []byte(c.text)})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.200v; want %q", err, c.want)
			}
		})
	}
}

func manyLimits(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  l%d: *a\n", i)
	}
	return b.String()
}

func TestASecretIsReadFromARegularFileOnly(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/dev/zero", fifo} {
		_, err := config.Load(config.Source{Path: "pawl.yaml",
			Text: []byte("store: 'postgres://u:${file:" + path + "}@h/d'")})
		if err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
	large := filepath.Join(t.TempDir(), "large")
	if err := os.WriteFile(large, []byte(strings.Repeat("x", 70<<10)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(config.Source{Path: "pawl.yaml",
		Text: []byte("store: 'postgres://u:${file:" + large + "}@h/d'")}); err == nil ||
		!strings.Contains(err.Error(), "holds more than") {
		t.Errorf("a large file: %v", err)
	}
}
