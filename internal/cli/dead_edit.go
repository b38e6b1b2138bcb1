package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/operate"
)

// edited is a dead letter that was to be edited, as JSON.
type edited struct {
	ID      string `json:"id"`
	Changed bool   `json:"changed"`
}

func (s *session) deadEdit() *cobra.Command {
	var e edits
	var file string
	c := &cobra.Command{
		Use: "edit ID", Short: "Change the body of a dead letter", Args: count(1, 1, "one id"),
		Long: `Changes the body of a dead letter, which stays dead: by a patch, in $EDITOR, or to the
content of a file.

` + editHelp,
		Example: `  id=$(pawl send notes '{"to":"nobody"}'); pawl work notes --exec 'exit 65' --until-empty -q; pawl dead edit --edit '.to = "me"' $id
  echo '{"to":"me"}' | pawl dead edit --body - $(pawl dead ls -o jsonl | sed -n '1s/.*"id":"\([^"]*\)".*/\1/p')`,
		RunE: func(c *cobra.Command, args []string) error {
			ways := 0
			for _, flag := range []string{"edit", "editor", "body"} {
				if c.Flags().Changed(flag) {
					ways++
				}
			}
			if ways != 1 {
				return usage("give one of --edit, --editor and --body", "no change is given")
			}
			if err := e.check(args); err != nil {
				return err
			}
			return s.editOne(c, args[0], &e, file)
		},
	}
	e.add(c.Flags())
	c.Flags().StringVar(&file, "body", "", "the new body is that of this `FILE`; - is stdin")
	return c
}

func (s *session) editOne(c *cobra.Command, id string, e *edits, file string) error {
	ctx, how := c.Context(), e.patch
	change := func(body []byte) ([]byte, error) { return s.inEditor(ctx, body) }
	var err error
	switch {
	case e.patch != "":
		change, err = patched(ctx, e.patch)
	case file != "":
		change, how = s.replaced(file), "a new body"
	default:
		how = "by hand"
	}
	if err != nil {
		return err
	}
	ops, err := s.operations(ctx)
	if err != nil {
		return err
	}
	if s.dryRun {
		return s.wouldEdit(c, ops, id, change)
	}
	changed, err := operate.EditLetter(ctx, ops, id, s.who(), how, change)
	if err != nil {
		return cannot(err, "edit dead letter %s", id)
	}
	return s.one(edited{id, changed}, func(w io.Writer) {
		if changed {
			fmt.Fprintf(w, "%s is edited\n", id)
		} else {
			fmt.Fprintf(w, "%s stays as it is\n", id)
		}
	})
}

// wouldEdit prints the body as it would be.
func (s *session) wouldEdit(c *cobra.Command, ops *operate.Operations, id string,
	change func([]byte) ([]byte, error)) error {
	r, err := ops.Look.Get(c.Context(), id)
	if err != nil {
		return cannot(err, "edit dead letter %s", id)
	}
	if r.Body, err = change(r.Body); err != nil {
		return err
	}
	d := operate.FormDeadLetter(&r)
	return s.one(d, func(w io.Writer) { describeBody(w, &d.Message) })
}
