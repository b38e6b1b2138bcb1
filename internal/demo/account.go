package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/pawl-dev/pawl/internal/demo/site"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// Summary is what a crawl came to. Discovered = Stored + Duplicate + Excluded +
// Dead, and every reachable page is among Stored or Dead.
type Summary struct {
	Discovered int64   `json:"discovered"`
	Stored     int64   `json:"stored"`
	Duplicate  int64   `json:"duplicate"`
	Excluded   int64   `json:"excluded"`
	Dead       int64   `json:"dead"`
	Requests   int64   `json:"requests"`
	Retries    int64   `json:"retries"`
	Bytes      int64   `json:"bytes"`
	Elapsed    float64 `json:"elapsed_seconds"`

	Reachable int      `json:"reachable"`
	Missing   []string `json:"missing"` // reachable, and neither stored nor dead
	Twice     []string `json:"twice"`   // stored more than once
	Out       string   `json:"out"`     // the file of pages
	Closes    bool     `json:"account_closes"`
}

// backend is what the demo needs of a store beyond the contract.
type backend interface {
	store.Looker
	store.DeadLetters
	store.Topics
}

// account makes up the account from the store, and writes the file of pages.
func account(ctx context.Context, b backend, s *site.Site, out string, elapsed time.Duration) (Summary, error) {
	sum := Summary{Reachable: s.Len(), Out: out, Elapsed: elapsed.Seconds(), Missing: []string{}, Twice: []string{}}
	times := map[string]int{}
	if err := export(ctx, b, out, func(r Record) {
		times[r.URL]++
		sum.Stored++
		sum.Bytes += int64(r.Bytes)
	}); err != nil {
		return sum, err
	}
	for url, n := range times {
		if n > 1 {
			sum.Twice = append(sum.Twice, url)
		}
	}
	if err := countDead(ctx, b, &sum, times); err != nil {
		return sum, err
	}
	for path := range s.Paths() {
		if times[page(path)] == 0 {
			sum.Missing = append(sum.Missing, page(path))
		}
	}
	return sum, count(ctx, b, &sum)
}

// countDead counts the pages that ended as dead letters, whatever the stage.
func countDead(ctx context.Context, b backend, sum *Summary, times map[string]int) error {
	for d, err := range b.Dead(ctx, store.DeadFilter{}) {
		if err != nil {
			return fmt.Errorf("read dead letters: %w", err)
		}
		switch d.Topic {
		case Fetch:
			times[string(d.Body)]++
		case Parse:
			times[d.Headers["url"]]++
		case Save:
			var r Record
			if err := json.Unmarshal(d.Body, &r); err == nil {
				times[r.URL]++
			}
		default:
			continue
		}
		sum.Dead++
	}
	return nil
}

// count takes the figures of the topics.
func count(ctx context.Context, b backend, sum *Summary) error {
	stats, err := b.Stats(ctx, Fetch, Parse, Save)
	if err != nil {
		return fmt.Errorf("read figures: %w", err)
	}
	for _, t := range stats {
		sum.Retries += t.Retried
		if t.Name == Fetch {
			sum.Requests = t.Acked + t.Retried + t.Dead
			sum.Duplicate = t.Duplicates
			sum.Discovered = t.Appended + t.Duplicates
		}
	}
	sum.Closes = len(sum.Missing) == 0 && len(sum.Twice) == 0 &&
		sum.Discovered == sum.Stored+sum.Duplicate+sum.Excluded+sum.Dead
	return nil
}

// export writes the results to a file, whole or not at all.
func export(ctx context.Context, b backend, out string, each func(Record)) error {
	err := pipeline.WriteFile(out, 0o644, func(w io.Writer) error {
		for m, err := range b.List(ctx, store.Filter{Topic: Pages}) {
			if err != nil {
				return err
			}
			var r Record
			if err := json.Unmarshal(m.Body, &r); err != nil {
				return fmt.Errorf("page %s: %w", m.ID, err)
			}
			each(r)
			_, _ = w.Write(append(m.Body, '\n')) // WriteFile reports it
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write pages: %w", err)
	}
	return nil
}
