// Package manual writes the reference of a command line, as Markdown and as man pages, from the help of its
// commands.
package manual

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Page is what there is to say about a command and its verbs.
type Page struct {
	*cobra.Command
	others []*Page // of the root: the pages of its commands
}

// Pages are the pages of all commands that people see, the root's first.
func Pages(root *cobra.Command) []*Page {
	first := &Page{Command: root}
	for _, c := range root.Commands() {
		if !c.Hidden && c.Name() != "help" {
			first.others = append(first.others, &Page{Command: c})
		}
	}
	return append([]*Page{first}, first.others...)
}

// Name is that of the man page: pawl, pawl-dead.
func (p *Page) Name() string { return strings.ReplaceAll(p.CommandPath(), " ", "-") }

// Verbs are the commands on the page besides its own: those below it, each before
// what is below it in turn.
func (p *Page) Verbs() (all []*cobra.Command) {
	if !p.HasParent() {
		return nil
	}
	for _, c := range p.Commands() {
		if !c.Hidden {
			all = append(append(all, c), (&Page{Command: c}).Verbs()...)
		}
	}
	return all
}

// DefaultAs, as the annotation of a flag, is its default in words: where that depends
// on the machine, pages must not.
const DefaultAs = "pawl-default"

// Option is a flag in the form of the pages.
type Option struct{ Name, About string }

// FlagsOf are those of a command alone, or (global) those of all commands.
func FlagsOf(c *cobra.Command, global bool) (all []Option) {
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
		if words := f.Annotations[DefaultAs]; len(words) > 0 {
			def = words[0]
		}
		switch def {
		case "", "0", "0s", "false", "[]", "-1":
		default:
			about += fmt.Sprintf(" (default: %s)", def)
		}
		all = append(all, Option{name, about})
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

// Man is the page for man(1): that in Markdown, with a title and without links.
func (p *Page) Man(version string) string {
	_, text, _ := strings.Cut(p.Markdown(), "\n") // without the comment
	text = strings.ReplaceAll(pageLink.ReplaceAllString(text, "$1"), flagsLink, "pawl(1)")
	return string(md2man.Render(fmt.Appendf(nil, "%% %q \"1\" \"\" \"pawl %s\" \"Pawl\"\n\n# NAME\n\n%s - %s\n\n%s",
		strings.ToUpper(p.Name()), version, p.Name(), p.Short, text)))
}

// flagsLink leads to what all commands have in common.
const flagsLink = "[README.md](README.md#flags-of-all-commands)"

// File is the name of the page in Markdown.
func (p *Page) File() string {
	if !p.HasParent() {
		return "README.md"
	}
	return p.Command.Name() + ".md"
}

// Markdown is the page for docs/cli.
func (p *Page) Markdown() string {
	var b strings.Builder
	b.WriteString("<!-- made from the help of the commands: go test ./internal/cli -update -->\n")
	markdownOf(&b, p.Command, "#")
	if !p.HasParent() {
		b.WriteString("\n## Commands\n\n| command | |\n|---|---|\n")
		for _, o := range p.others {
			_, _ = fmt.Fprintf(&b, "| [%s](%s) | %s |\n", o.CommandPath(), o.File(), o.Short)
		}
		b.WriteString("\n## Flags of all commands\n\n")
		markdownFlags(&b, FlagsOf(p.Command, true))
	}
	for _, c := range p.Verbs() {
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
	if flags := FlagsOf(c, false); c.HasParent() && len(flags) > 0 {
		b.WriteString("\n")
		markdownFlags(b, flags)
	}
}

func markdownFlags(b *strings.Builder, flags []Option) {
	b.WriteString("| flag | |\n|---|---|\n")
	for _, f := range flags {
		_, _ = fmt.Fprintf(b, "| `%s` | %s |\n", f.Name, strings.ReplaceAll(f.About, "|", `\|`))
	}
}
