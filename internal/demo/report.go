package demo

import (
	"fmt"
	"io"
)

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
