package crawl

import (
	"errors"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestPaceOfAHost: a host that fails, or answers far later than it uses to, is asked less often, within bounds, until
// it is well again; a few bad answers change nothing.
func TestPaceOfAHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h host
		ask := func(n int, took time.Duration, err error) {
			for range n {
				time.Sleep(max(took, h.strained()))
				h.answered(took, err)
			}
		}
		wants := func(least, most time.Duration) {
			t.Helper()
			if got := h.strained(); got < least || got > most {
				t.Errorf("the pause is %v, not within %v and %v", got, least, most)
			}
		}
		const usual = 50 * time.Millisecond
		down := pawl.OfKind(KindTransfer, &statusError{500})
		ask(100, usual, nil)
		for range 20 { // a tenth of the pages is broken, and one is slow
			ask(9, usual, nil)
			ask(1, usual, down)
		}
		ask(1, 10*time.Second, nil)
		wants(0, 0)
		ask(10, 2*time.Second, nil)
		wants(400*time.Millisecond, maxPace)
		ask(10, usual, nil)
		wants(0, 0)
		ask(30, usual, down)
		wants(maxPace, maxPace)
		ask(1, usual, nil)
		wants(maxPace/2, maxPace/2)
		ask(10, usual, nil)
		wants(0, 0)
		ask(30, usual, pawl.Permanent(pawl.OfKind(KindStatus, &statusError{404})))
		ask(30, usual, pawl.OfKind(KindProxy, errors.New("refused")))
		ask(30, usual, pawl.OfKind(KindTransfer, errors.New("connection refused")))
		wants(0, 0)
		ask(6, silence, policy.With(pawl.OfKind(KindTransfer, errSilent), policy.Timeout))
		for range 20 { // answers of one moment count once
			h.answered(silence, down)
		}
		wants(leastPace, 4*leastPace)
	})
}

// TestCrawlDelayHasACap: a delay of 1000 seconds is obeyed as one of 30.
func TestCrawlDelayHasACap(t *testing.T) {
	w := newWeb(t, map[string]http.HandlerFunc{"/robots.txt": text("text/plain", "User-agent: *\nCrawl-delay: 1000\n")})
	u, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := Defaults()
	o.AllowPrivate = true
	r, err := newCrawler(Name, "", o, nil).robots(t.Context(), &host{}, u)
	if err != nil || r.Delay != maxDelay {
		t.Errorf("%v, %v", r, err)
	}
}

// TestThePaceIsShared: a process that knows of no strain keeps to the pauses of one that does.
func TestThePaceIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		marks := memory.New(memory.Config{})
		defer func() { _ = marks.Close() }()
		u := &url.URL{Scheme: "http", Host: "a.example", Path: "/"}
		turn := func(c *crawler, delay time.Duration) time.Duration {
			t.Helper()
			wait, err := c.reserve(t.Context(), c.hosts.at(u), u, delay, false)
			if err != nil {
				t.Fatal(err)
			}
			return wait
		}
		var two [2]*crawler
		for i := range two {
			two[i] = newCrawler(Name, "run", Defaults(), nil)
			two[i].marked.marks, two[i].marked.scope = marks, scopeOf("run")
			if wait := turn(two[i], 0); wait > 0 {
				t.Errorf("%v before anybody knows of a strain", wait)
			}
		}
		time.Sleep(lookEvery)
		two[0].hosts.at(u).pace.delay = maxPace
		if wait := turn(two[0], maxPace); wait > 0 {
			t.Errorf("the first waits for %v", wait)
		}
		if wait := turn(two[1], 0); wait < maxPace-time.Second {
			t.Errorf("the other waits for %v", wait)
		}
		time.Sleep(maxPace)
		if wait := turn(two[1], 0); wait > 0 {
			t.Errorf("the other waits for %v more", wait)
		}
	})
}
