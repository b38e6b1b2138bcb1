package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// man is the page for man(1).
func (p *page) man(version string) string {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, ".TH %q 1 \"\" \"pawl %s\" \"Pawl\"\n.nh\n.ad l\n", strings.ToUpper(p.name()), roff(version))
	_, _ = fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", roff(p.name()), roff(p.Short))
	for i, c := range append([]*cobra.Command{p.Command}, p.verbs()...) {
		if i > 0 {
			b.WriteString(".br\n")
		}
		_, _ = fmt.Fprintf(&b, ".B %s\n", roff(synopsis(c)))
	}
	b.WriteString(".SH DESCRIPTION\n")
	manOf(&b, p.Command)
	for _, c := range p.verbs() {
		_, _ = fmt.Fprintf(&b, ".SH %q\n%s.\n.PP\n", strings.ToUpper(c.CommandPath()), roff(c.Short))
		manOf(&b, c)
	}
	if !p.HasParent() {
		b.WriteString(".SH COMMANDS\n")
		for _, o := range p.others {
			_, _ = fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(o.CommandPath()), roff(o.Short))
		}
	}
	b.WriteString(".SH \"GLOBAL OPTIONS\"\n")
	manFlags(&b, flagsOf(p.Command, true))
	b.WriteString(".SH \"SEE ALSO\"\n")
	_, _ = fmt.Fprintf(&b, "%s\n", roff(map[bool]string{true: "pawl(1)",
		false: "pawl help exit-codes, pawl help json, pawl help store-urls"}[p.HasParent()]))
	return b.String()
}

// manOf is what there is to say about one command.
func manOf(b *strings.Builder, c *cobra.Command) {
	paragraphs(c.Long, func(text string) { _, _ = fmt.Fprintf(b, "%s\n.PP\n", roff(text)) },
		func(text string) { _, _ = fmt.Fprintf(b, ".nf\n%s\n.fi\n.PP\n", roff(text)) })
	if flags := flagsOf(c, false); c.HasParent() && len(flags) > 0 {
		b.WriteString(".SS Options\n")
		manFlags(b, flags)
	}
	if lines := examples(c); len(lines) > 0 {
		_, _ = fmt.Fprintf(b, ".SS Examples\n.nf\n%s\n.fi\n", roff(strings.Join(lines, "\n")))
	}
}

func manFlags(b *strings.Builder, flags []option) {
	for _, f := range flags {
		_, _ = fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(f.name), roff(f.about))
	}
}

// roff escapes a text: backslashes, hyphens that are to be copied, and lines that
// would be commands.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "…", "...").Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") || strings.HasPrefix(l, "'") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
