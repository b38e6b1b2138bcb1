//go:build unix

package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
)

// crawling are troubles of a pipeline of the kind crawl, beside a site that refuses everything at first: a page for
// good, and another one for now. That one answers only when the first has: else the crawl could end, and what is
// replayed after that is of the next one.
func crawling() map[string]fault {
	var well, answered atomic.Bool
	site := func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/robots.txt":
			w.WriteHeader(http.StatusNotFound)
		case well.Load() && (r.URL.Path == "/private" || answered.Load()):
			answered.Store(true)
			_, _ = fmt.Fprint(w, "<title>Open</title>")
		case r.URL.Path == "/private":
			w.WriteHeader(http.StatusForbidden)
		default:
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}
	return map[string]fault{
		"PawlCrawlStandsStill": {down: true, cause: func(in *incident) {
			s := httptest.NewServer(http.HandlerFunc(site))
			in.Cleanup(s.Close)
			in.fill["TOPIC"] = "shop.request"
			in.write("pawl.yaml", fmt.Sprintf("pipelines: {shop: {kind: crawl, allow_private: true, seeds: ['%s', '%s'],\n"+
				"fields: {price: {css: .price, required: true}}}}\n", s.URL+"/private", s.URL+"/busy"))
			in.start()
			for _, state := range []string{"dead", "delayed"} {
				counted := fmt.Sprintf(`'pawl_queue_messages{state="%s",topic="shop.request"} 1'`, state)
				in.until(metric(in, counted), state)
			}
		}, mendAt: "2.", mend: func(*incident) { well.Store(true) }},
	}
}
