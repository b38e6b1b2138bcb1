package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/demo"
	"github.com/pawl-dev/pawl/internal/serve"
	"github.com/pawl-dev/pawl/pipeline"
)

func (s *session) demo() *cobra.Command {
	c := demo.Config{Run: demo.Run{Pages: demo.DefaultPages, Seed: 1}}
	cmd := &cobra.Command{
		Use: "demo", Short: "Watch a crawl that loses nothing", Args: count(0, 0, "flags only"),
		Long: `Serves a site on a local port, with the faults of a real network, crawls it as pawl crawl
does, and compares the result with the site: every page that can be reached is stored
exactly once, or is a dead letter.

Its files are in a new folder, or in --dir. Kill it, even with kill -9, and continue
where it stopped with --resume.`,
		Example: `  pawl demo --pages 100
  pawl demo --pages 100 --dir crawl -o json
  pawl demo --dir crawl --resume`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if c.Pages < 1 {
				return usage("use a number from 1", "--pages is %d", c.Pages)
			}
			if c.Resume && c.Dir == "" {
				return usage("add --dir with the folder of the crawl", "--resume needs the folder of the crawl")
			}
			return s.runDemo(cmd.Context(), c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Dir, "dir", "", "keep the files in this `FOLDER` (default: a new one)")
	f.BoolVar(&c.Resume, "resume", false, "go on with the crawl in --dir")
	f.IntVar(&c.Pages, "pages", c.Pages, "how many pages the site has")
	f.Uint64Var(&c.Seed, "seed", c.Seed, "which pages fail, and how")
	return cmd
}

// runDemo crawls, and prints the account.
func (s *session) runDemo(ctx context.Context, c demo.Config) (err error) {
	if c.Dir == "" {
		c.Dir, err = os.MkdirTemp("", "pawl-demo-")
	} else {
		err = os.MkdirAll(c.Dir, 0o755)
	}
	if errors.Is(err, fs.ErrPermission) {
		return &problem{code: exitForbidden, what: "cannot make the folder of the demo", err: err,
			next: "use another --dir, in which this user may write"}
	}
	if err != nil {
		return cannot(err, "make the folder of the demo")
	}
	if s.storeURL == "" {
		s.storeURL = "sqlite:" + filepath.Join(c.Dir, "pawl.db")
	}
	s.demoBesideLog(c.Dir)
	if c.Store, err = s.openOrMake(ctx); err != nil {
		return err
	}
	// That pages fail is what the demo is about: the board counts it, and the
	// dead letters say why.
	c.Board, c.Logger = io.Discard, slog.New(slog.DiscardHandler)
	if !s.quiet {
		c.Board, c.Show = s.Err, s.board()
	}
	if link, end, err := serve.Show(c.Store); err == nil {
		defer end()
		s.note("the console of this run, as long as it lasts: %s", link)
	}
	sum, err := demo.Crawl(ctx, c)
	if err != nil {
		return demoError(err, c.Dir)
	}
	err = s.one(sum, func(w io.Writer) { demo.Report(w, sum, pipeline.ShellWord(s.redactor.Redact(s.url()))) })
	if err == nil && !sum.Closes {
		err = &problem{code: exitFound, what: "the pages do not add up",
			err:  fmt.Errorf("%d pages are missing, %d are there twice", len(sum.Missing), len(sum.Twice)),
			next: "keep " + c.Dir + " and report it"}
	}
	return err
}

// demoBesideLog puts the demo into a store beside a log, which keeps neither results nor what was seen.
func (s *session) demoBesideLog(dir string) {
	if strings.HasPrefix(s.url(), "kafka:") {
		s.storeURL = "sqlite:" + filepath.Join(dir, "pawl.db")
		s.note("a log cannot keep the results and the set of seen URLs: the crawl is in %s", s.storeURL)
	}
}

func demoError(err error, dir string) error {
	p := &problem{what: "cannot run the demo", err: err}
	switch {
	case errors.Is(err, demo.ErrUnfinished):
		p.code, p.what, p.next = exitUnfinished, "the crawl is not finished",
			fmt.Sprintf("go on with: pawl demo --resume --dir %s", dir)
	case errors.Is(err, demo.ErrStarted):
		p.code, p.next = exitConflict, "add --resume to go on with it, or use another --dir"
	}
	return p
}
