package demo

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/demo/site"
	"github.com/pawl-dev/pawl/store"
)

// board shows how the crawl goes: redrawn in place on a terminal, otherwise a
// line now and then.
type board struct {
	w     io.Writer
	show  func(lines []string) // nil: there is no terminal
	site  *site.Site
	began time.Time
}

// run draws until ctx ends.
func (b *board) run(ctx context.Context, t store.Topics) {
	every := 3 * time.Second
	if b.show != nil {
		every = 200 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if stats, err := t.Stats(ctx, requests, results); err == nil {
				b.draw(stats)
			}
		}
	}
}

func (b *board) draw(stats []store.TopicStats) {
	var pages int64
	var t store.TopicStats // of requests
	for _, of := range stats {
		if of.Name == requests {
			t = of
		} else {
			pages = of.Appended
		}
	}
	if b.show == nil {
		fmt.Fprintf(b.w, "%5.1fs  %d of %d pages stored, %d to fetch, %d retried, %d dead\n",
			time.Since(b.began).Seconds(), pages, b.site.Len(), t.Waiting+t.Delayed, t.Retried, t.Dead)
		return
	}
	b.show([]string{
		bar(pages, int64(b.site.Len())) + fmt.Sprintf("  %.1fs", time.Since(b.began).Seconds()),
		fmt.Sprintf("%-13s%9s%9s%9s%9s%9s%9s", "topic", "waiting", "delayed", "leased", "acked", "retried", "dead"),
		fmt.Sprintf("%-13s%9d%9d%9d%9d%9d%9d", t.Name, t.Waiting, t.Delayed, t.Leased, t.Acked, t.Retried, t.Dead),
		fmt.Sprintf("the site answered %d requests, at most %d at once", b.site.Tally().Requests,
			b.site.MaxConcurrent()),
	})
}

func bar(n, of int64) string {
	const width = 40
	full := int(min(n, of) * width / max(of, 1))
	return fmt.Sprintf("[%s%s] %d of %d pages", strings.Repeat("=", full), strings.Repeat(" ", width-full), n, of)
}
