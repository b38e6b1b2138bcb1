package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/lines"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) deadImport() *cobra.Command {
	var skipBad bool
	c := &cobra.Command{
		Use: "import FILE|-", Short: "Store dead letters that were exported", Args: count(1, 1, "a file, or -"),
		Long: `Stores dead letters from the lines of an export, as they were: with their ids,
attempts, reason and time of death. Every line is checked first: if a line is not a
dead letter, all such lines are named and nothing is stored, unless --skip-bad skips
them.

A dead letter whose id already exists is refused; the others are stored, and the exit
code is 3. So an interrupted import can be repeated.`,
		Example: `  pawl dead export dead.jsonl && pawl dead discard --all --yes && pawl dead import dead.jsonl`,
		RunE: func(c *cobra.Command, args []string) error {
			file, done, err := s.readable(args[0])
			if err != nil {
				return err
			}
			defer done()
			if !skipBad || s.dryRun {
				if err := s.checkLetters(c.Context(), file, skipBad); err != nil || s.dryRun {
					return err
				}
				if _, err := file.Seek(0, io.SeekStart); err != nil {
					return cannot(err, "read %s again", args[0])
				}
			}
			return s.importLetters(c.Context(), file, args[0])
		},
	}
	c.Flags().BoolVar(&skipBad, "skip-bad", false, "skip lines that are not dead letters")
	return c
}

// readable is a file that can be read twice; stdin is copied into one.
func (s *session) readable(name string) (file *os.File, done func(), err error) {
	if name != "-" {
		file, err = os.Open(name)
		if err != nil {
			return nil, nil, &problem{code: exitUsage, what: "cannot import " + name, err: err,
				next: "correct the name"}
		}
		return file, func() { _ = file.Close() }, nil
	}
	file, err = os.CreateTemp("", "pawl-import-")
	if err != nil {
		return nil, nil, cannot(err, "buffer the dead letters to import")
	}
	done = func() { _ = file.Close(); _ = os.Remove(file.Name()) }
	if _, err = io.Copy(file, s.In); err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		done()
		return nil, nil, cannot(err, "buffer the dead letters to import")
	}
	return file, done, nil
}

// checkLetters names all lines that are no dead letter.
func (s *session) checkLetters(ctx context.Context, r io.Reader, skipBad bool) error {
	var bad []error
	n := 0
	check := operate.Importer{Refused: func(string, error) {}, Bad: func(e *lines.Error) {
		if n++; n <= 20 {
			bad = append(bad, e)
		}
	}}
	good, err := check.Run(ctx, r)
	switch {
	case err != nil:
		return cannot(err, "read the dead letters to import")
	case n > 20:
		bad = append(bad, fmt.Errorf("… and %d more", n-20))
	case n == 0 || skipBad:
		if s.dryRun {
			s.note("would import %d dead letters", good.Imported)
		}
		return nil
	}
	return &problem{code: exitUsage, what: fmt.Sprintf("nothing is imported: %d lines are not dead letters", n),
		err:  errors.Join(bad...),
		next: "correct them, or add --skip-bad"}
}

func (s *session) importLetters(ctx context.Context, r io.Reader, name string) error {
	d, err := partOrMake[store.DeadLetters](ctx, s, "import dead letters")
	if err != nil {
		return err
	}
	refused := map[string]error{}
	p := s.progress("dead letters")
	m := operate.Importer{Letters: d, Into: s.opened, Progress: p.at,
		Bad: func(e *lines.Error) { s.note("skipped %v", e) }, Refused: func(id string, why error) {
			if len(refused) < 1000 {
				refused[id] = why
			}
		}}
	done, err := m.Run(ctx, r)
	p.end()
	printed := s.one(done, func(w io.Writer) {
		fmt.Fprintf(w, "%d imported, %d refused\n", done.Imported, done.Refused)
	})
	noted := s.audit(ctx, operate.AuditEntry{Action: "import", Target: name, Count: done.Imported + done.Refused,
		Result: operate.AuditResult{Done: done.Imported, Refused: done.Refused}})
	if err != nil {
		err = &problem{code: exitUnfinished, what: fmt.Sprintf("not everything is imported: %d are", done.Imported),
			err: err, next: "run it again: what has been imported is not imported twice"}
	} else {
		err = refusedError("imported", done.Imported, done.Refused, refused)
		if p, ok := errors.AsType[*problem](err); ok && len(refused) == 0 {
			p.err, p.next = errors.New("they are not dead letters"),
				"correct the lines that were skipped, and import the file again"
		}
	}
	return errors.Join(printed, noted, err)
}
