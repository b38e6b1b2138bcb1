package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl/internal/cli/manual"
)

var update = flag.Bool("update", false, "write docs/cli anew")

// written is what `pawl docs` writes, by name.
func written(t *testing.T, form string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	var out, errs bytes.Buffer
	sys := System{In: strings.NewReader(""), Out: &out, Err: &errs, Getenv: func(string) string { return "" }}
	if code := Run(t.Context(), "v1", []string{"docs", form, dir}, sys); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	return files(t, dir)
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

// TestReferenceIsUpToDate holds docs/cli to the help of the commands.
func TestReferenceIsUpToDate(t *testing.T) {
	const dir = "../../docs/cli"
	want := written(t, "markdown")
	if *update {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range want {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := files(t, dir)
	for name, text := range want {
		if got[name] != text {
			t.Errorf("docs/cli/%s is not what the help says: go test ./internal/cli -update", name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("docs/cli/%s is about no command", name)
		}
	}
}

// TestReferenceIsComplete wants every command and flag in both forms.
func TestReferenceIsComplete(t *testing.T) {
	md, man := written(t, "markdown"), written(t, "man")
	if len(md) < 20 || len(man) != len(md) {
		t.Fatalf("%d pages of Markdown, %d man pages", len(md), len(man))
	}
	of := map[string]string{
		"Markdown": strings.NewReplacer("`", "", `\|`, "|").Replace(join(md)),
		"man":      strings.NewReplacer(`\-`, "-", `\fB`, "", `\fR`, "", `\&`, "").Replace(join(man)),
	}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Hidden || c.Name() == "help" {
			return
		}
		for form, text := range of {
			if !strings.Contains(text, c.CommandPath()) || !strings.Contains(text, c.Short) {
				t.Errorf("%s: nothing is said about %s", form, c.CommandPath())
			}
			for _, f := range append(manual.FlagsOf(c, false), manual.FlagsOf(c, true)...) {
				if !strings.Contains(text, f.Name) || !strings.Contains(text, strings.ReplaceAll(f.About, "`", "")) {
					t.Errorf("%s: nothing is said about %s %s", form, c.CommandPath(), f.Name)
				}
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newSession("v1", System{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{},
		Getenv: func(string) string { return "" }}).root())
}

func join(all map[string]string) string {
	var b strings.Builder
	for _, text := range all {
		b.WriteString(text)
	}
	return b.String()
}

// TestManPagesHoldNoStrayRequests: a line of a text that begins with a point would be
// a command to man.
func TestManPagesHoldNoStrayRequests(t *testing.T) {
	known := regexp.MustCompile(`^(\.(TH|SH|PP|EX|EE|TS|TE|nh)|'\\" t)( |$)`)
	for name, text := range written(t, "man") {
		for line := range strings.Lines(text) {
			if strings.ContainsAny(line[:1], ".'") && !known.MatchString(strings.TrimSpace(line)) {
				t.Errorf("%s: %q", name, line)
			}
		}
	}
}

// TestFlagsNameTheirValues: what stands for a value in the usage of a flag is one word, in capitals or the name of a
// type; not a command that its text mentions.
func TestFlagsNameTheirValues(t *testing.T) {
	value := regexp.MustCompile(`^([A-Z][A-Z_=…,0-9:/-]*|string|int|int16|int32|uint|float|duration|time|rate|facts|` +
		`strings|stringArray|size)?$`)
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if name, _ := pflag.UnquoteUsage(f); !value.MatchString(name) {
				t.Errorf("%s --%s %s", c.CommandPath(), f.Name, name)
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newSession("v1", System{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{},
		Getenv: func(string) string { return "" }}).root())
}

// TestHelpShowsGlobalFlagsOfUse: the help of a command shows the global flags that it takes, and every command still
// accepts all of them. Each name in the lists is that of a command.
func TestHelpShowsGlobalFlagsOfUse(t *testing.T) {
	run := func(args ...string) string {
		var out bytes.Buffer
		if code := Run(t.Context(), "v1", args, System{In: strings.NewReader(""), Out: &out, Err: &out,
			Getenv: func(string) string { return "" }}); code != 0 {
			t.Errorf("%q exits with %d: %s", args, code, out.String())
		}
		return out.String()
	}
	for command, want := range map[string]struct{ has, no string }{
		"version":     {"--output", "--store --mirror --config --dry-run --yes --auto-migrate"},
		"topics":      {"", "--store --dry-run --output"},
		"topics ls":   {"--store --output", "--dry-run --yes"},
		"topics rm":   {"--store --dry-run --yes", ""},
		"dead replay": {"--dry-run --yes", ""},
		"up":          {"--config --dry-run", "--yes"},
	} {
		help := run(append(strings.Fields(command), "--help")...)
		for f := range strings.FieldsSeq(want.has) {
			if !strings.Contains(help, " "+f) {
				t.Errorf("%s does not show %s", command, f)
			}
		}
		for f := range strings.FieldsSeq(want.no) {
			if strings.Contains(help, " "+f+" ") {
				t.Errorf("%s shows %s", command, f)
			}
		}
	}
	run("version", "--yes", "--dry-run", "--store", "memory:")
	paths, verbs := map[string]bool{}, map[string]bool{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		paths[c.CommandPath()], verbs[c.Name()] = true, true
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newSession("v1", System{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{},
		Getenv: func(string) string { return "" }}).root())
	for _, path := range append(storeless, asking...) {
		if !paths[path] {
			t.Errorf("there is no %q", path)
		}
	}
	for _, verb := range looking {
		if !verbs[verb] {
			t.Errorf("there is no verb %q", verb)
		}
	}
}
