package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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
	c.Flags().StringVar(&e.reason, "reason", "", "the reason, for the audit")
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
	whole, err := s.ids(ctx, id)
	if err != nil {
		return err
	}
	id = whole[0]
	if s.dryRun {
		return s.wouldEdit(c, ops, id, change)
	}
	changed, err := operate.EditLetter(ctx, ops, id, s.who(), how, e.reason, change)
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

// edits is how bodies are to be edited.
type edits struct {
	reason string // of dead edit
	patch  string
	editor bool
}

func (e *edits) add(fl *pflag.FlagSet) {
	fl.StringVar(&e.patch, "edit", "", "change bodies by this program of jq")
	fl.BoolVar(&e.editor, "editor", false, "edit the body of the one dead letter in $EDITOR")
}

// check refuses edits that cannot be carried out.
func (e *edits) check(ids []string) error {
	switch {
	case e.editor && e.patch != "":
		return usage("give one of them", "--edit and --editor cannot be combined")
	case e.editor && len(ids) != 1:
		return usage("name one id, or use --edit", "--editor is for one dead letter; %d ids are given", len(ids))
	case e.patch != "":
		if _, err := operate.ParsePatch(e.patch); err != nil {
			return usage("try it with jq first; a patch looks like '.to = \"x\"'",
				"--edit is not a valid jq program: %w", err)
		}
	}
	return nil
}

// editByHand lets the user edit a dead letter, which stays dead.
func (s *session) editByHand(ctx context.Context, ops *operate.Operations, id string) error {
	changed, err := operate.EditLetter(ctx, ops, id, s.who(), "by hand", "", func(body []byte) ([]byte, error) {
		return s.inEditor(ctx, body)
	})
	if err == nil && !changed {
		s.note("%s stays as it is", id)
	}
	return cannot(err, "edit dead letter %s", id)
}

// inEditor returns what the user makes of a body. What was JSON stays JSON.
func (s *session) inEditor(ctx context.Context, body []byte) ([]byte, error) {
	program := cmp.Or(s.Getenv("VISUAL"), s.Getenv("EDITOR"))
	if program == "" {
		return nil, usage("set EDITOR, such as EDITOR=vi, or use --edit",
			"there is neither VISUAL nor EDITOR in the environment")
	}
	dir, err := os.MkdirTemp("", "pawl-edit-")
	if err != nil {
		return nil, noTemporary(err, "the body cannot be given to an editor")
	}
	defer func() { _ = os.RemoveAll(dir) }()
	name := filepath.Join(dir, "body.txt")
	if json.Valid(body) {
		name = filepath.Join(dir, "body.json")
	}
	if err := os.WriteFile(name, body, 0o600); err != nil {
		return nil, noTemporary(err, "the body cannot be given to an editor")
	}
	c := exec.CommandContext(ctx, "sh", "-c", program+` "$1"`, "sh", name)
	c.Stdin, c.Stdout, c.Stderr = s.In, s.editorOut, s.editorOut
	if err := c.Run(); err != nil {
		return nil, &problem{code: exitUsage, what: "the editor failed, and nothing is changed",
			err:  fmt.Errorf("%s: %w", program, err),
			next: "set VISUAL or EDITOR to one that works here, or use --edit"}
	}
	edited, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if !bytes.HasSuffix(body, []byte("\n")) { // editors add one
		edited = bytes.TrimSuffix(edited, []byte("\n"))
	}
	if json.Valid(body) && !json.Valid(edited) {
		return nil, &problem{code: exitUsage, what: "the edited body is rejected",
			err: errors.New("the result is no longer valid JSON"), next: "edit it again"}
	}
	return edited, nil
}

// patched returns what a patch makes of a body.
func patched(ctx context.Context, patch string) (func([]byte) ([]byte, error), error) {
	apply, err := operate.ParsePatch(patch)
	if err != nil {
		return nil, err
	}
	return func(body []byte) ([]byte, error) {
		edited, err := apply(ctx, body)
		if err != nil {
			err = &problem{code: exitConflict, what: "the body cannot be edited", err: err,
				next: "look at it with `pawl dead show`, then use --editor or --body"}
		}
		return edited, err
	}, nil
}

// replaced returns the body that a file has, whatever it was; - is stdin.
func (s *session) replaced(file string) func([]byte) ([]byte, error) {
	return func([]byte) ([]byte, error) {
		var in io.Reader = s.In
		if file != "-" {
			f, err := os.Open(file)
			if err != nil {
				return nil, &problem{code: exitUsage, what: "cannot read the body", err: err, next: "correct --body"}
			}
			defer func() { _ = f.Close() }()
			in = f
		}
		return readBody(in)
	}
}
