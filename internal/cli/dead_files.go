package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/lines"
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
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return usage("name a file in it", "%s is a folder", name)
	} else if err == nil && !s.yes {
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
		return nil, nil, noTemporary(err, "the dead letters to import cannot be buffered")
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
			s.note("would import %s", operate.Counted(good.Imported, "dead letter"))
		}
		return nil
	}
	return &problem{code: exitUsage, what: "nothing is imported: " + operate.Counted(n, "line is no dead letter", "lines are not dead letters"),
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
	m := operate.Importer{Letters: d, Into: s.opened, Progress: p.At,
		Bad: func(e *lines.Error) { s.note("skipped %v", e) }, Refused: func(id string, why error) {
			if len(refused) < 1000 {
				refused[id] = why
			}
		}}
	done, err := m.Run(ctx, r)
	p.End()
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
