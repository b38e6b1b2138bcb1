package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) deadExport() *cobra.Command {
	var f deadFilter
	c := &cobra.Command{
		Use: "export [FILE|-]", Short: "Write dead letters to a file", Args: count(0, 1, "at most one file"),
		Long: `Writes dead letters as JSON, one a line, complete: with headers, attempts, reason and
time of death, as ` + "`pawl dead import`" + ` takes them. Flags select; without a file, or with
-, it writes to stdout. An existing file is replaced only with --yes. The dead letters
stay in the store. Resolved ones are among them, and stay resolved when they are
imported; with --resolved it writes only those.

A body that cannot be read back (its file is not in the folder of blobs, the URL of
the store lacks blobs= or codec=) is exported as the store has it; such dead letters
are named, and the exit code is 3.`,
		Example: `  pawl dead export dead.jsonl
  pawl dead export --topic mail --since 24h - | gzip > mail.jsonl.gz`,
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(); err != nil {
				return err
			}
			d, err := part[store.DeadLetters](c.Context(), s, "export dead letters")
			if err != nil {
				return err
			}
			filter := f.filter()
			if !f.resolved { // a copy has both
				filter.Resolved = nil
			}
			if len(args) == 0 || args[0] == "-" {
				done, err := exportTo(c.Context(), s.out, d, filter)
				if err = errors.Join(err, s.out.Flush()); err != nil {
					return cannot(err, "export dead letters")
				}
				s.note("%d exported", done.Exported)
				return done.incomplete()
			}
			return s.exportFile(c.Context(), args[0], d, filter)
		},
	}
	f.add(c.Flags(), "reason")
	return c
}

// exported is how many dead letters were exported, as JSON.
type exported struct {
	Exported int64 `json:"exported"`
	Sealed   int64 `json:"sealed,omitempty"` // of them, with the body as the store has it
	why      []error
}

// seal notes that the body of a letter is not what was sent.
func (e *exported) seal(id string, why error) {
	if e.Sealed++; len(e.why) < 5 {
		e.why = append(e.why, fmt.Errorf("%s: %w", id, why))
	}
}

// incomplete is the error of an export that lacks bodies; nil if it lacks none.
func (e *exported) incomplete() error {
	if e.Sealed == 0 {
		return nil
	}
	why := e.why
	if more := e.Sealed - int64(len(why)); more > 0 {
		why = append(why, fmt.Errorf("… and %d more, which bear %s", more, operate.EncodedHeader))
	}
	return &problem{code: exitPartly, what: fmt.Sprintf("of %d dead letters exported %d lack their body", e.Exported,
		e.Sealed), err: errors.Join(why...),
		next: "keep these dead letters, give blobs= (and codec=none) with the URL of the store or bring the folder back, and export again"}
}

// exportFile writes a file whole or not at all.
func (s *session) exportFile(ctx context.Context, name string, d store.DeadLetters, f store.DeadFilter) error {
	if _, err := os.Stat(name); err == nil && !s.yes {
		return &problem{code: exitConflict, what: "cannot export to " + name, err: errors.New("the file is there"),
			next: "name another one, or add --yes to replace it"}
	}
	var done exported
	err := pipeline.WriteFile(name, 0o600, func(w io.Writer) (err error) {
		done, err = exportTo(ctx, w, d, f)
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission):
		return &problem{code: exitUsage, what: "cannot export to " + name, err: err,
			next: "name a file in a folder that you may write to"}
	case err != nil:
		return cannot(err, "export dead letters to %s", name)
	}
	printed := s.one(done, func(w io.Writer) { fmt.Fprintf(w, "%d exported\n", done.Exported) })
	return errors.Join(printed, done.incomplete())
}

func exportTo(ctx context.Context, w io.Writer, d store.DeadLetters, f store.DeadFilter) (done exported, err error) {
	for r, err := range d.Dead(ctx, f) {
		if err != nil {
			return done, err
		}
		if why := operate.Sealed(&r.Message); why != nil {
			done.seal(r.ID, why)
		}
		b, err := marshal(operate.FormLetter(&r), "")
		if err != nil {
			return done, err
		}
		if _, err := w.Write(b); err != nil {
			return done, err
		}
		done.Exported++
	}
	return done, nil
}
