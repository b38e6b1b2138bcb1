package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

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
		b.WriteString("\nFlags of all commands are in [README.md](README.md#flags-of-all-commands).\n")
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
