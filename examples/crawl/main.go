// Command crawl crawls a shop with a module written in Go: it reads what no selector can, and follows links that are in
// no page. The shop refuses some requests for a second, and fails others; every product is in products.jsonl once.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/pipeline/crawl"
	"github.com/pawl-dev/pawl/store/sqlite"
)

const products = 40

// shop lists its products by an API, ten at a time. Its pages have prices in an attribute that a script would read.
type shop struct {
	mu    sync.Mutex
	asked map[string]int
	until time.Time // it wants to be left alone
	hasty int       // requests before that
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[r.URL.Path]++
	if time.Now().Before(s.until) {
		s.hasty++
	}
	var n int
	switch {
	case r.URL.Path == "/robots.txt":
		http.NotFound(w, r)
	case r.URL.Path == "/api":
		_, _ = fmt.Sscan(r.URL.Query().Get("from"), &n)
		_ = json.NewEncoder(w).Encode(map[string]int{"from": n, "to": min(n+10, products), "of": products})
	case s.asked[r.URL.Path] == 1 && strings.HasSuffix(r.URL.Path, "7"):
		http.Error(w, "try again", http.StatusInternalServerError)
	case s.asked[r.URL.Path] == 1 && r.URL.Path == "/product/12":
		s.until = time.Now().Add(time.Second)
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	default:
		_, _ = fmt.Sscanf(r.URL.Path, "/product/%d", &n)
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<title>Product %d</title><div data-price='{"cents": %d}'></div>`, n, n*100+99)
	}
}

// parse is the module: the API leads to products and to its next page, and products have a price.
func parse(_ context.Context, p *crawl.Page) error {
	if p.URL.Path == "/api" {
		var list struct{ From, To, Of int }
		if err := json.Unmarshal(p.Body, &list); err != nil {
			return err
		}
		for n := list.From; n < list.To; n++ {
			if err := p.Follow(fmt.Sprintf("/product/%d", n)); err != nil {
				return err
			}
		}
		if list.To < list.Of {
			return p.Next(fmt.Sprintf("/api?from=%d", list.To))
		}
		return nil
	}
	_, rest, _ := strings.Cut(string(p.Body), "data-price='")
	text, _, _ := strings.Cut(rest, "'")
	var price struct{ Cents int }
	if err := json.Unmarshal([]byte(text), &price); err != nil {
		return fmt.Errorf("the price of %s: %w", p.URL, err) // a dead letter
	}
	p.Fields["price"] = fmt.Sprintf("%d.%02d", price.Cents/100, price.Cents%100)
	return nil
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	peer := &shop{asked: map[string]int{}}
	server := httptest.NewServer(peer)
	defer server.Close()
	dir, err := os.MkdirTemp("", "crawl")
	must(err)
	defer os.RemoveAll(dir)
	s, err := sqlite.Open(context.Background(), sqlite.Config{Path: filepath.Join(dir, "crawl.db")})
	must(err)
	defer s.Close()
	m := crawl.Module{Name: "shop", Out: "products.jsonl", Options: crawl.Defaults(server.URL + "/api"), Parse: parse}
	m.AllowPrivate, m.Cache, m.PerHost = true, "off", 1 // one at a time: none is on its way when the shop answers 429
	sums, err := crawl.Run(context.Background(), s, nil, m)
	must(err)
	text, err := os.ReadFile(m.Out)
	must(err)
	for n := range products {
		if price := fmt.Sprintf(`"fields":{"price":"%d.99"}`, n); strings.Count(string(text), price) != 1 {
			log.Fatalf("product %d is not there once", n)
		}
	}
	if sum := sums[0]; sum.Stored != products+products/10 || sum.Dead > 0 || peer.hasty > 0 {
		log.Fatalf("%+v, %d requests while the shop wanted none", sum, peer.hasty)
	}
	fmt.Printf("%d products in %s\n", products, m.Out)
}
