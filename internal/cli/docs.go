package cli

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/cli/manual"
	"github.com/pawl-dev/pawl/internal/operate"
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
				return s.writePages(c, args[0], func(p *manual.Page) (string, string) {
					return p.Name() + ".1", p.Man(s.version)
				})
			},
		},
		&cobra.Command{
			Use: "markdown DIR", Short: "Write Markdown", Args: count(1, 1, "a folder"),
			Long:    "Writes a page of Markdown for each command to a folder, which is created if it does not exist.",
			Example: `  pawl docs markdown docs/cli`,
			RunE: func(c *cobra.Command, args []string) error {
				return s.writePages(c, args[0], func(p *manual.Page) (string, string) { return p.File(), p.Markdown() })
			},
		})
	c.Hidden = true
	return c
}

// writePages writes a file for each page.
func (s *session) writePages(c *cobra.Command, dir string, form func(*manual.Page) (name, text string)) error {
	pages := manual.Pages(c.Root())
	err := os.MkdirAll(dir, 0o755)
	for _, p := range pages {
		if name, text := form(p); err == nil {
			err = os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)
		}
	}
	if err != nil {
		return &problem{what: "cannot write the reference", err: err, next: "name a folder that you may write to"}
	}
	s.note("%s in %s", operate.Counted(len(pages), "page"), dir)
	return nil
}
