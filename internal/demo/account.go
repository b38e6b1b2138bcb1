package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/pawl-dev/pawl/pipeline/crawl"
	"github.com/pawl-dev/pawl/store"
)

// Summary is what a crawl came to. Discovered = Stored + Duplicate + Excluded +
// Dead, and every reachable page is among Stored or Dead.
type Summary struct {
	crawl.Summary
	Reachable int      `json:"reachable"`
	Missing   []string `json:"missing"` // reachable, and neither stored nor dead
	Twice     []string `json:"twice"`   // stored more than once
	Closes    bool     `json:"account_closes"`
}

// compare compares the file of pages and the dead letters with what the site has.
func (sum *Summary) compare(ctx context.Context, letters store.DeadLetters, s *site) error {
	sum.Missing, sum.Twice = []string{}, []string{}
	times := map[string]int{}
	f, err := os.Open(sum.Out)
	if err != nil {
		return fmt.Errorf("read the pages: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var p crawl.Record
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			return fmt.Errorf("read the pages: %w", err)
		}
		if times[p.URL]++; times[p.URL] == 2 {
			sum.Twice = append(sum.Twice, p.URL)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the pages: %w", err)
	}
	for d, err := range letters.Dead(ctx, store.DeadFilter{Topic: requests}) {
		if err != nil {
			return fmt.Errorf("read dead letters: %w", err)
		}
		var request struct{ URL string }
		if err := json.Unmarshal(d.Body, &request); err == nil {
			times[request.URL]++
		}
	}
	for _, p := range s.pages {
		if times[page(p.path)] == 0 {
			sum.Missing = append(sum.Missing, page(p.path))
		}
	}
	sum.Closes = len(sum.Missing) == 0 && len(sum.Twice) == 0 &&
		sum.Discovered == sum.Stored+sum.Duplicate+sum.Excluded+sum.Dead
	return nil
}

// Report writes the account for people, and what to do next. url is the store's.
func Report(w io.Writer, s Summary, url string) {
	verdict := "the pages add up: every reachable page is stored once or is a dead letter"
	if !s.Closes {
		verdict = "THE PAGES DO NOT ADD UP"
	}
	fmt.Fprintf(w, `
%s
  %6d pages are reachable
  %6d stored           %s
  %6d dead letters     pages that cannot be read, or always fail
  %6d links led to a page that was known already
  %6d requests, %d retries, %.1f MB in %.1f s
`, verdict, s.Reachable, s.Stored, s.Out, s.Dead, s.Duplicate, s.Requests, s.Retries, float64(s.Bytes)/1e6,
		s.ElapsedSeconds)
	for _, list := range []struct {
		what  string
		pages []string
	}{{"missing", s.Missing}, {"stored twice", s.Twice}} {
		for _, page := range list.pages {
			fmt.Fprintf(w, "  %s: %s\n", list.what, page)
		}
	}
	if s.Dead > 0 {
		fmt.Fprintf(w, `
look at what died, and why:
  pawl dead ls --store %[1]s
  pawl dead show ID --store %[1]s
give it another try (here the site will fail again):
  pawl dead replay --topic %[2]s --store %[1]s
`, url, requests)
	}
}
