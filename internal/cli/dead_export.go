package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/app"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) deadExport() *cobra.Command {
	var f deadFilter
	c := &cobra.Command{
		Use: "export [FILE|-]", Short: "Write dead letters to a file", Args: count(0, 1, "at most one file"),
		Long: `Writes dead letters as JSON, one a line, complete: with headers, attempts, reason
and time of death, as ` + "`pawl dead import`" + ` takes them. Flags select; without a file, or
with -, it writes to stdout. A file that is there is replaced with --yes only. The
dead letters stay.`,
		Example: `  pawl dead export dead.jsonl
  pawl dead export --topic mail --since 24h - | gzip > mail.jsonl.gz`,
		RunE: func(c *cobra.Command, args []string) error {
			if f.limit < 0 {
				return usage("use 0 for no limit", "--limit is %d", f.limit)
			}
			d, err := part[store.DeadLetters](c.Context(), s, "export dead letters")
			if err != nil {
				return err
			}
			if len(args) == 0 || args[0] == "-" {
				n, err := exportTo(c.Context(), s.out, d, f.filter())
				if err = errors.Join(err, s.out.Flush()); err != nil {
					return cannot(err, "export dead letters")
				}
				s.note("%d exported", n)
				return nil
			}
			return s.exportFile(c.Context(), args[0], d, f.filter())
		},
	}
	f.add(c.Flags(), "reason")
	return c
}

// exported is how many dead letters were exported, as JSON.
type exported struct {
	Exported int64 `json:"exported"`
}

// exportFile writes a file whole or not at all.
func (s *session) exportFile(ctx context.Context, name string, d store.DeadLetters, f store.DeadFilter) error {
	if _, err := os.Stat(name); err == nil && !s.yes {
		return &problem{code: exitConflict, what: "cannot export to " + name, err: errors.New("the file is there"), next: "name another one, or add --yes to replace it"}
	}
	temporary := name + ".part"
	file, err := os.OpenFile(temporary, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return &problem{code: exitUsage, what: "cannot export to " + name, err: err, next: "name a file in a folder that you may write to"}
	}
	w := bufio.NewWriterSize(file, 256<<10)
	n, err := exportTo(ctx, w, d, f)
	if err = errors.Join(err, w.Flush(), file.Sync(), file.Close()); err == nil {
		err = os.Rename(temporary, name)
	}
	if err != nil {
		_ = os.Remove(temporary)
		return cannot(err, "export dead letters to %s", name)
	}
	return s.one(exported{n}, func(w io.Writer) { fmt.Fprintf(w, "%d exported\n", n) })
}

func exportTo(ctx context.Context, w io.Writer, d store.DeadLetters, f store.DeadFilter) (n int64, err error) {
	for r, err := range d.Dead(ctx, f) {
		if err != nil {
			return n, err
		}
		b, err := marshal(app.FormLetter(&r), "")
		if err != nil {
			return n, err
		}
		if _, err := w.Write(b); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
