package crawl

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// marked keeps, as marks in the scope of a run, which sites its seeds led to.
type marked struct {
	marks store.Shared // nil: nothing is kept
	scope string

	mu      sync.Mutex
	version int64     // of the mark of changes
	looked  time.Time // when that was last read
}

// remember loads what earlier processes of the run learned, and keeps what this one does.
func (c *crawler) remember(ctx context.Context, p parts, log *slog.Logger) (err error) {
	marks := p.marks
	c.outdated = func(ctx context.Context) bool {
		now, err := load(ctx, p, c.name)
		return err != nil || now == nil || now.ID != c.run
	}
	if dir := c.options.Cache; dir != "" && dir != noCache {
		if c.fetch.cache, err = newCache(dir, c.options.MaxBytes); err != nil {
			return &pipeline.Error{Code: pipeline.ExitForbidden, What: "cannot keep pages in " + dir, Err: err,
				Next: "name another folder with --cache, or keep none: --cache off"}
		}
	}
	c.fetch.cookies.keep(marks, c.run, log)
	if err := c.marked.load(ctx, marks, c.run, c.scope); err != nil {
		return err
	}
	return c.recount(ctx, p, true)
}

const adoptedKey = "adopted/"

// load adds the sites that earlier processes adopted.
func (m *marked) load(ctx context.Context, marks store.Shared, run string, s *scope) error {
	m.marks, m.scope = marks, scopeOf(run)
	for mark, err := range marks.ListMarks(ctx, m.scope, adoptedKey) {
		if err != nil {
			return fmt.Errorf("read what seeds led to: %w", err)
		}
		if u, err := url.Parse(string(mark.Value)); err == nil {
			s.add(u)
		}
	}
	return nil
}

// adopt makes what a seed redirects to a seed, too.
func (m *marked) adopt(ctx context.Context, s *scope, to *url.URL) error {
	s.add(to)
	if m.marks == nil {
		return nil
	}
	_, err := m.marks.PutMarks(ctx, pawl.Mark{Scope: m.scope, Key: adoptedKey + site(to), Value: []byte(to.String()),
		If: pawl.AnyVersion})
	return err
}
