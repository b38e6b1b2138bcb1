// Command hosts crawls three hosts with two dispatchers over one store, as two processes would. Each host has a rate
// that both of them share, and is left alone for a while after a 404: without a hold on that verdict, it would be
// asked again at once. No page is fetched twice, because its URL is taken when it is emitted.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

const (
	rate  = 10.0                   // requests a second to one host
	pause = 300 * time.Millisecond // after a 404
)

// Page 0 leads to the others, and these lead back and to one that is missing.
var links = map[string]string{"0": "missing 1 2 3 4", "1": "0 2 missing", "2": "0", "3": "4 missing", "4": "0 1"}

// web is all the hosts: the first element of a path is the host.
type web struct {
	mu      sync.Mutex
	answers map[string][]time.Time // by host
	missed  map[string]time.Time
	pages   map[string]bool
	wrong   []string // fetched too soon, or again
}

func (w *web) ServeHTTP(resp http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	host, page, _ := strings.Cut(r.URL.Path[1:], "/")
	if time.Since(w.missed[host]) < pause || w.pages[r.URL.Path] {
		w.wrong = append(w.wrong, r.URL.Path)
	}
	w.pages[r.URL.Path] = true
	w.answers[host] = append(w.answers[host], time.Now())
	text, ok := links[page]
	if !ok {
		w.missed[host] = time.Now()
		resp.WriteHeader(http.StatusNotFound)
	}
	fmt.Fprint(resp, text)
}

// page is a message for a page; its host is the lane. A page is taken for as long as its message could come again.
func page(host, name string) pawl.Message {
	return pawl.Message{
		Topic: "fetch", Key: []byte(host), Body: []byte("/" + host + "/" + name),
		Unique: pawl.Unique{Key: host + "/" + name, For: 24 * time.Hour},
	}
}

func fetcher(base string) pawl.HandlerFunc {
	return func(_ context.Context, d *pawl.Delivery) error {
		resp, err := http.Get(base + string(d.Body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			d.Hold(pause)
			return pawl.Permanent(fmt.Errorf("the host answered %s", resp.Status))
		}
		text, err := io.ReadAll(resp.Body)
		for name := range strings.FieldsSeq(string(text)) {
			d.Emit(page(string(d.Key), name)) // one that was emitted before is not stored again
		}
		return err
	}
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	peer := &web{answers: map[string][]time.Time{}, missed: map[string]time.Time{}, pages: map[string]bool{}}
	server := httptest.NewServer(peer)
	defer server.Close()
	s, began := memory.New(memory.Config{}), time.Now()
	must(store.Send(context.Background(), s, page("a.example", "0"), page("b.example", "0"), page("c.example", "0")))
	var processes sync.WaitGroup
	for range 2 {
		perHost, err := dispatch.NewLimiter(dispatch.LimitConfig{
			Name: "hosts", By: func(d *pawl.Delivery) string { return string(d.Key) }, Rate: rate, Burst: 1, Pacer: s,
		})
		must(err)
		d, err := dispatch.New(s, dispatch.Config{UntilEmpty: true, Topics: []dispatch.Topic{{
			Name: "fetch", Handler: fetcher(server.URL), Concurrency: 8, Limits: []*dispatch.Limiter{perHost},
			Settings: store.Declaration{Order: store.OrderKey},
		}}})
		must(err)
		processes.Go(func() { must(d.Run(context.Background())) })
	}
	processes.Wait()
	if len(peer.wrong) > 0 || len(peer.pages) != 3*(len(links)+1) {
		log.Fatalf("fetched too soon or again: %q; %d pages", peer.wrong, len(peer.pages))
	}
	for host, answers := range peer.answers {
		n := len(answers)
		if took := answers[n-1].Sub(began); took.Seconds() < 0.9*float64(n-1)/rate {
			log.Fatalf("%s was asked %d times in %v", host, n, took)
		}
	}
	fmt.Printf("%d pages of 3 hosts fetched once each\n", len(peer.pages))
}
