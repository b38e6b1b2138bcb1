package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// docs is `pawl docs`, which writes what docs/cli and the man pages are made of. It is
// hidden: people read the result.
func (s *session) docs() *cobra.Command {
	c := noun("docs", "Write the reference of these commands",
		`Writes the reference of the command line, made from the help of the commands.`,
		&cobra.Command{
			Use: "man DIR", Short: "Write man pages", Args: count(1, 1, "a folder"),
			Long:    "Writes a man page for each command to a folder, which is created if it does not exist.",
			Example: `  pawl docs man bin/man/man1`,
			RunE: func(c *cobra.Command, args []string) error {
				return s.writePages(c, args[0], func(p *page) (string, string) {
					return p.name() + ".1", p.man(s.version)
				})
			},
		},
		&cobra.Command{
			Use: "markdown DIR", Short: "Write Markdown", Args: count(1, 1, "a folder"),
			Long:    "Writes a page of Markdown for each command to a folder, which is created if it does not exist.",
			Example: `  pawl docs markdown docs/cli`,
			RunE: func(c *cobra.Command, args []string) error {
				return s.writePages(c, args[0], func(p *page) (string, string) { return p.file(), p.markdown() })
			},
		})
	c.Hidden = true
	return c
}

// page is what there is to say about a command and its verbs.
type page struct {
	*cobra.Command
	others []*page // of the root: the pages of its commands
}

// pagesOf are the pages of all commands that people see, the root's first.
func pagesOf(root *cobra.Command) []*page {
	first := &page{Command: root}
	for _, c := range root.Commands() {
		if !c.Hidden && c.Name() != "help" {
			first.others = append(first.others, &page{Command: c})
		}
	}
	return append([]*page{first}, first.others...)
}

// writePages writes a file for each page.
func (s *session) writePages(c *cobra.Command, dir string, form func(*page) (name, text string)) error {
	pages := pagesOf(c.Root())
	err := os.MkdirAll(dir, 0o755)
	for _, p := range pages {
		if name, text := form(p); err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
		}
	}
	if err != nil {
		return &problem{what: "cannot write the reference", err: err, next: "name a folder that you may write to"}
	}
	s.note("%s in %s", counted(len(pages), "page"), dir)
	return nil
}

// name is that of the man page: pawl, pawl-dead.
func (p *page) name() string { return strings.ReplaceAll(p.CommandPath(), " ", "-") }

// verbs are the commands on the page besides its own: those below it, each before
// what is below it in turn.
func (p *page) verbs() (all []*cobra.Command) {
	if !p.HasParent() {
		return nil
	}
	for _, c := range p.Commands() {
		if !c.Hidden {
			all = append(append(all, c), (&page{Command: c}).verbs()...)
		}
	}
	return all
}

// defaultAs, as the annotation of a flag, is its default in words: where that depends
// on the machine, pages must not.
const defaultAs = "pawl-default"

// option is a flag in the form of the pages.
type option struct{ name, about string }

// flagsOf are those of a command alone, or (global) those of all commands.
func flagsOf(c *cobra.Command, global bool) (all []option) {
	set := c.NonInheritedFlags()
	if global {
		set = c.Root().PersistentFlags()
	}
	set.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		value, about := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if value != "" {
			name += " " + value
		}
		def := f.DefValue
		if words := f.Annotations[defaultAs]; len(words) > 0 {
			def = words[0]
		}
		switch def {
		case "", "0", "0s", "false", "[]", "-1":
		default:
			about += fmt.Sprintf(" (default: %s)", def)
		}
		all = append(all, option{name, about})
	})
	return all
}

// synopsis is how a command is typed.
func synopsis(c *cobra.Command) string {
	if c.HasSubCommands() && c.HasParent() {
		return c.CommandPath() + " VERB"
	}
	if !c.HasParent() {
		return "pawl COMMAND"
	}
	return strings.TrimSuffix(c.UseLine(), " [flags]")
}

// examples are what can be typed, a line each.
func examples(c *cobra.Command) (lines []string) {
	for line := range strings.Lines(c.Example) {
		lines = append(lines, strings.TrimRight(strings.TrimPrefix(line, "  "), "\n"))
	}
	return lines
}

// paragraphs cuts a text; those that are a table or a piece of code are kept as they are.
func paragraphs(text string, plain, asIs func(string)) {
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(part, "  ") || strings.Contains(part, "\n  ") {
			asIs(part)
		} else {
			plain(part)
		}
	}
}

// pageLink is a link from one page of Markdown to another.
var pageLink = regexp.MustCompile(`\[([^]]*)\]\([a-z-]+\.md\)`)

// man is the page for man(1): that in Markdown, with a title and without links.
func (p *page) man(version string) string {
	_, text, _ := strings.Cut(p.markdown(), "\n") // without the comment
	text = strings.ReplaceAll(pageLink.ReplaceAllString(text, "$1"), flagsLink, "pawl(1)")
	return string(md2man.Render(fmt.Appendf(nil, "%% %q \"1\" \"\" \"pawl %s\" \"Pawl\"\n\n# NAME\n\n%s - %s\n\n%s",
		strings.ToUpper(p.name()), version, p.name(), p.Short, text)))
}

// flagsLink leads to what all commands have in common.
const flagsLink = "[README.md](README.md#flags-of-all-commands)"

// file is the name of the page in Markdown.
func (p *page) file() string {
	if !p.HasParent() {
		return "README.md"
	}
	return p.Name() + ".md"
}

// markdown is the page for docs/cli.
func (p *page) markdown() string {
	var b strings.Builder
	b.WriteString("<!-- made from the help of the commands: go test ./internal/cli -update -->\n")
	markdownOf(&b, p.Command, "#")
	if !p.HasParent() {
		b.WriteString("\n## Commands\n\n| command | |\n|---|---|\n")
		for _, o := range p.others {
			_, _ = fmt.Fprintf(&b, "| [%s](%s) | %s |\n", o.CommandPath(), o.file(), o.Short)
		}
		b.WriteString("\n## Flags of all commands\n\n")
		markdownFlags(&b, flagsOf(p.Command, true))
	}
	for _, c := range p.verbs() {
		b.WriteString("\n")
		markdownOf(&b, c, "##")
	}
	if p.HasParent() {
		b.WriteString("\nFlags of all commands are in " + flagsLink + ".\n")
	}
	return b.String()
}

// markdownOf is what there is to say about one command.
func markdownOf(b *strings.Builder, c *cobra.Command, level string) {
	_, _ = fmt.Fprintf(b, "%s %s\n\n%s.\n\n", level, c.CommandPath(), c.Short)
	if c.Runnable() {
		_, _ = fmt.Fprintf(b, "```text\n%s\n```\n\n", synopsis(c))
	}
	paragraphs(c.Long, func(text string) { _, _ = fmt.Fprintf(b, "%s\n\n", strings.ReplaceAll(text, "<", "&lt;")) },
		func(text string) { _, _ = fmt.Fprintf(b, "```text\n%s\n```\n\n", text) })
	if lines := examples(c); len(lines) > 0 {
		_, _ = fmt.Fprintf(b, "```sh\n%s\n```\n", strings.Join(lines, "\n"))
	}
	if flags := flagsOf(c, false); c.HasParent() && len(flags) > 0 {
		b.WriteString("\n")
		markdownFlags(b, flags)
	}
}

func markdownFlags(b *strings.Builder, flags []option) {
	b.WriteString("| flag | |\n|---|---|\n")
	for _, f := range flags {
		_, _ = fmt.Fprintf(b, "| `%s` | %s |\n", f.name, strings.ReplaceAll(f.about, "|", `\|`))
	}
}
