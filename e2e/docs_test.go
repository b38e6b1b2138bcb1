//go:build unix

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// block is a piece of code on a page, with the last line of text before it and the first one of that paragraph.
type block struct{ before, paragraph, language, code string }

// sections cuts a page at its headings.
func sections(t *testing.T, page string) map[string][]block {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]block{}
	for _, section := range strings.Split(string(text), "\n## ")[1:] {
		title, text, _ := strings.Cut(section, "\n")
		before, paragraph, begins, inside := "", "", true, false
		for line := range strings.Lines(text) {
			last := len(all[title]) - 1
			switch language, fence := strings.CutPrefix(line, "```"); {
			case fence && inside:
				inside = false
			case fence:
				inside = true
				all[title] = append(all[title], block{before: before, paragraph: paragraph,
					language: strings.TrimSpace(language)})
				before, paragraph, begins = "", "", true
			case inside:
				all[title][last].code += line
			case strings.TrimSpace(line) == "":
				begins = true
			default:
				before = strings.TrimSpace(line)
				if begins {
					paragraph, begins = before, false
				}
			}
		}
	}
	return all
}

var fileName = regexp.MustCompile("^`([a-z.]+)`:$")

// TestWorkersPage does what docs/workers.md says: it writes the files, runs what is
// to run in a terminal of its own, types the rest, and wants to see what is printed.
func TestWorkersPage(t *testing.T) {
	tried := 0
	for title, bs := range sections(t, "../docs/workers.md") {
		t.Run(title, func(t *testing.T) {
			dir := t.TempDir()
			for i, b := range bs {
				file := fileName.FindStringSubmatch(b.before)
				switch {
				case file != nil:
					if err := os.WriteFile(filepath.Join(dir, file[1]), []byte(b.code), 0o644); err != nil {
						t.Fatal(err)
					}
				case b.language == "text":
					see(t, dir, bs[i-1].code, b.code)
				case strings.HasPrefix(b.before, "In a terminal of its own"):
					aside(t, dir, b.code)
				case b.language == "sh" && (i+1 == len(bs) || bs[i+1].language != "text"):
					if out, err := shell(t, dir, b.code).CombinedOutput(); err != nil {
						t.Errorf("%s\n%v\n%s", b.code, err, out)
					}
				}
			}
		})
		tried += len(bs)
	}
	if tried < 15 {
		t.Errorf("only %d pieces of code were found on the page", tried)
	}
}

// shell is a command that runs code of a page in a folder.
func shell(t *testing.T, dir, code string) *exec.Cmd {
	t.Helper()
	cmd := script(t, "set -e\n"+code)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PAWL_LISTEN=127.0.0.1:0")
	return cmd
}

// aside runs a command until the test is over.
func aside(t *testing.T, dir, code string) {
	t.Helper()
	var out bytes.Buffer
	cmd := shell(t, dir, code)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s\n%s", code, out.String())
		}
	})
}

// see runs a command until it prints what it should.
func see(t *testing.T, dir, code, want string) {
	t.Helper()
	var out []byte
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if out, _ = shell(t, dir, code).Output(); string(out) == want {
			return
		}
	}
	t.Errorf("%s\nprints %q, want %q", code, out, want)
}
