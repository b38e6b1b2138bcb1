package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/store"
)

// The next step is that of the fault itself, where it names one: the URL is right, its folder is not.
func TestNextStepIsThatOfTheFolderOfBlobs(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "letter"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for url, next := range map[string]string{
		"memory:?codec=zstd&blobs=" + dir: "next: name an empty folder, or put the file back",
		"nothing:":                        "next: give --store or PAWL_STORE",
	} {
		out := &bytes.Buffer{}
		code := Run(t.Context(), "test", []string{"send", "mail", "hello", "--store", url},
			System{In: &bytes.Buffer{}, Out: out, Err: out, Getenv: func(string) string { return "" }})
		if code != exitUsage || !strings.Contains(out.String(), next) {
			t.Errorf("%s: ended with %d, want %q\n%s", url, code, next, out)
		}
	}
}

// TestTroubleSaysWhatToDo while a command waits for its store: that was not said before it gave up.
func TestTroubleSaysWhatToDo(t *testing.T) {
	out := &bytes.Buffer{}
	s := &session{System: System{Err: out}, redactor: redact.New()}
	err := &store.Error{Op: "open", Code: store.ErrUnavailable, Hint: "open fewer connections"}
	for range 2 {
		s.trouble(cannot(err, "open the store"))
	}
	if said := out.String(); strings.Count(said, "\n") != 2 || !strings.Contains(said, "next: open fewer connections") {
		t.Error(said)
	}
}

// TestHintsWorkAsTheyStand: the commands of a hint are given the store or the configuration of the command itself,
// of which a password is masked.
func TestHintsWorkAsTheyStand(t *testing.T) {
	hint := "run `pawl topics ls`, or `pawl stores`, or pawl dead show ID; `pawl topics ls --help` has the flags"
	for _, c := range []struct{ store, config, want string }{
		{"", "", hint},
		{"", "x.yaml", "run `pawl --config x.yaml topics ls`, or `pawl stores`, or pawl --config x.yaml dead show ID; " +
			"`pawl topics ls --help` has the flags"},
		{"sqlite:x.db?a=b", "x.yaml",
			"run `pawl --config x.yaml --store 'sqlite:x.db?a=b' topics ls`, or `pawl stores`, " +
				"or pawl --config x.yaml --store 'sqlite:x.db?a=b' dead show ID; " +
				"`pawl topics ls --help` has the flags"},
		{"postgres://ann:secret@host/db", "", "run `pawl --store 'postgres://ann:***@host/db' topics ls`, or `pawl stores`, " +
			"or pawl --store 'postgres://ann:***@host/db' dead show ID; `pawl topics ls --help` has the flags"},
	} {
		s := &session{storeURL: c.store, configPath: c.config}
		if got := s.here(hint); got != c.want {
			t.Errorf("with store %q and configuration %q:\n%s\nwant\n%s", c.store, c.config, got, c.want)
		}
	}
}

// TestFlagsSayWhyTheyAreRefused in words of ours; what Go's own parsers say is not for users.
func TestFlagsSayWhyTheyAreRefused(t *testing.T) {
	for args, why := range map[string]string{
		"send mail x --priority 99999999999999999999":   `--priority: "99999999999999999999": value out of range`,
		"send mail x --priority five":                   `--priority: "five": invalid syntax`,
		"send mail x --delay 200000d":                   `--delay: "200000d" is too long: more than ten years`,
		"send mail x --retry-for 0s":                    "--retry-for and --timeout are more than 0",
		"send mail x --timeout 0s":                      "--retry-for and --timeout are more than 0",
		"send mail x --timeout -1s":                     `--timeout: "-1s" is negative`,
		"topics pause mail --for 9223372036854775807ns": `--for: "9223372036854775807ns" is too long: more than ten years`,
		"send mail x --delay -5s":                       `"appended": true`,
	} {
		out := &bytes.Buffer{}
		code := Run(t.Context(), "test", append(strings.Fields(args), "--store", "memory:", "-o", "json"),
			System{In: &bytes.Buffer{}, Out: out, Err: out, Getenv: func(string) string { return "" }})
		refused := code == exitUsage
		if refused == strings.HasPrefix(why, `"appended`) || !strings.Contains(out.String(), why) {
			t.Errorf("%s: ended with %d, want %q\n%s", args, code, why, out)
		}
	}
}
