package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// board shows how the crawl goes.
type board struct {
	ctx    context.Context
	topics store.Topics
	site   *site
	began  time.Time
}

// look returns how many pages are stored, and the figures of requests.
func (b *board) look() (pages int64, t store.TopicStats) {
	stats, _ := b.topics.Stats(b.ctx, requests, results) // the next look may see more
	for _, of := range stats {
		if of.Name == requests {
			t = of
		} else {
			pages = of.Appended
		}
	}
	return pages, t
}

func (b *board) line() string {
	pages, t := b.look()
	return fmt.Sprintf("%5.1fs  %d of %d pages stored, %d to fetch, %d retried, %d dead", time.Since(b.began).Seconds(),
		pages, len(b.site.pages), t.Waiting+t.Delayed, t.Retried, t.Dead)
}

func (b *board) lines() []string {
	pages, t := b.look()
	return []string{
		bar(pages, int64(len(b.site.pages))) + fmt.Sprintf("  %.1fs", time.Since(b.began).Seconds()),
		fmt.Sprintf("%-13s%9s%9s%9s%9s%9s%9s", "topic", "waiting", "delayed", "leased", "acked", "retried", "dead"),
		fmt.Sprintf("%-13s%9d%9d%9d%9d%9d%9d", requests, t.Waiting, t.Delayed, t.Leased, t.Acked, t.Retried, t.Dead),
		fmt.Sprintf("the site answered %d requests", b.site.requests.Load()),
	}
}

func bar(n, of int64) string {
	const width = 40
	full := int(min(n, of) * width / max(of, 1))
	return fmt.Sprintf("[%s%s] %d of %d pages", strings.Repeat("=", full), strings.Repeat(" ", width-full), n, of)
}
