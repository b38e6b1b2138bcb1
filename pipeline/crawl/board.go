package crawl

import (
	"fmt"
	"time"
)

// board is what is shown on a terminal while a crawl goes on.
func (c *crawler) board(began time.Time) func() []string {
	lastPages, lastAt, rate := int64(0), began, 0.0
	return func() []string {
		pages, now := c.count.pages.Load(), time.Now()
		if passed := now.Sub(lastAt).Seconds(); passed > 0.9 {
			rate = float64(pages-lastPages) / passed
			lastPages, lastAt = pages, now
		}
		return []string{
			fmt.Sprintf("pages     %d stored, %.0f/s", pages, rate),
			fmt.Sprintf("requests  %d, %d in flight, %d failed", c.count.requests.Load(), c.count.inFlight.Load(), c.count.failed.Load()),
			fmt.Sprintf("received  %.1f MB in %s", float64(c.count.bytes.Load())/1e6, now.Sub(began).Round(time.Second)),
		}
	}
}

// line is the same where there is no terminal.
func (c *crawler) line(began time.Time) func() string {
	return func() string {
		return fmt.Sprintf("crawl: %d pages, %d requests, %d failed, %d in flight, %s", c.count.pages.Load(), c.count.requests.Load(),
			c.count.failed.Load(), c.count.inFlight.Load(), time.Since(began).Round(time.Second))
	}
}
