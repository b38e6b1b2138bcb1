// Command hosts crawls the hosts of a domain with two dispatchers over one store, as two processes would. The domain
// has a rate that both of them share, and a host is left alone for a while after a 404: without a hold on that verdict,
// it would be asked again at once. No page is fetched twice, because its URL is taken when it is emitted.
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
	hosts, rate = 6, 10.0                // requests a second to all of them
	pause       = 300 * time.Millisecond // after a 404
)

// Page 0 leads to the others, and these lead back and to one that is missing.
var links = map[string]string{"0": "missing 1 2 3 4", "1": "0 2 missing", "2": "0", "3": "4 missing", "4": "0 1"}

// web is all the hosts: the first element of a path is the host.
type web struct {
	mu      sync.Mutex
	missed  map[string]time.Time // by host
	pages   map[string]bool
	wrong   []string // fetched too soon, or again
	answers int
}

func (w *web) ServeHTTP(resp http.ResponseWriter, r *http.Request) {
	time.Sleep(time.Second / 10)
	w.mu.Lock()
	defer w.mu.Unlock()
	host, page, _ := strings.Cut(r.URL.Path[1:], "/")
	if time.Since(w.missed[host]) < pause || w.pages[r.URL.Path] {
		w.wrong = append(w.wrong, r.URL.Path)
	}
	w.pages[r.URL.Path] = true
	w.answers++
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
	peer := &web{missed: map[string]time.Time{}, pages: map[string]bool{}}
	server := httptest.NewServer(peer)
	defer server.Close()
	s, began := memory.New(memory.Config{}), time.Now()
	for i := range hosts {
		must(store.Send(context.Background(), s, page(fmt.Sprintf("h%d.example", i), "0")))
	}
	var processes sync.WaitGroup
	for range 2 {
		perDomain, err := dispatch.NewLimiter(dispatch.LimitConfig{
			Name: "domains", By: func(*pawl.Delivery) string { return "example" }, Rate: rate, Burst: 1, Shared: s,
		})
		must(err)
		d, err := dispatch.New(s, dispatch.Config{UntilEmpty: true, Topics: []dispatch.Topic{{
			Name: "fetch", Handler: fetcher(server.URL), Concurrency: 3, Limits: []*dispatch.Limiter{perDomain},
			Settings: store.Declaration{Order: store.OrderKey},
		}}})
		must(err)
		processes.Go(func() { must(d.Run(context.Background())) })
	}
	processes.Wait()
	if len(peer.wrong) > 0 || len(peer.pages) != hosts*(len(links)+1) {
		log.Fatalf("fetched too soon or again: %q; %d pages", peer.wrong, len(peer.pages))
	}
	if took := time.Since(began); took.Seconds() < float64(peer.answers-1)/rate {
		log.Fatalf("the domain was asked %d times in %v", peer.answers, took)
	}
	fmt.Printf("%d pages of %d hosts fetched once each\n", len(peer.pages), hosts)
}
