package crawl

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// The board asks the store no more often than every boardEvery, and counts the hosts of the first boardListed requests
// that wait: a longer queue is not read, so hosts further back show fewer than they have. A terminal shows boardRows
// hosts, a line of JSON boardHosts.
const (
	boardEvery  = 2 * time.Second
	boardListed = 2000
	boardRows   = 12
	boardHosts  = 100
)

// status is how far a crawl is: what the board shows, and the line of JSON where there is no terminal. Waiting are the
// requests of all processes; the rest is what this one did.
type status struct {
	At             time.Time    `json:"at"`
	Pages          int64        `json:"pages"`
	PagesPerSecond float64      `json:"pages_per_second"`
	Requests       int64        `json:"requests"`
	InFlight       int64        `json:"in_flight"`
	Errors         int64        `json:"errors"`
	Waiting        int64        `json:"waiting"`
	Bytes          int64        `json:"bytes"`
	ElapsedSeconds float64      `json:"elapsed_seconds"`
	ETASeconds     *float64     `json:"eta_seconds,omitempty"` // for the requests that are known now
	KnownHosts     int          `json:"known_hosts"`
	Hosts          []hostStatus `json:"hosts"` // the busiest first
}

type hostStatus struct {
	Host      string    `json:"host"`
	Waiting   int64     `json:"waiting"`
	InFlight  int64     `json:"in_flight"`
	Errors    int64     `json:"errors"`
	HeldUntil time.Time `json:"held_until,omitzero"`
}

// board shows how a crawl goes on.
type board struct {
	ctx   context.Context
	c     *crawler
	parts parts
	began time.Time
	last  status
	ended atomic.Bool // the last state is to be shown, not one from before
}

// show shows the board until stop is called, and the last state then.
func (b *board) show(in *pipeline.Invocation) (stop func()) {
	shown := in.Board(b.lines, b.line)
	return func() {
		b.ended.Store(true)
		shown.Stop()
		if !in.Terminal && !in.Quiet {
			_, _ = fmt.Fprintln(in.Stderr, b.line())
		}
	}
}

func (b *board) look() *status {
	now, count := time.Now(), &b.c.count
	s := status{
		At: now.UTC(), ElapsedSeconds: now.Sub(b.began).Seconds(),
		Pages: count.pages.Load(), Requests: count.requests.Load(), InFlight: count.inFlight.Load(),
		Errors: count.failed.Load(), Bytes: count.bytes.Load(),
	}
	since := b.last.At
	if since.IsZero() {
		since = b.began
	}
	s.PagesPerSecond = float64(s.Pages-b.last.Pages) / max(now.Sub(since).Seconds(), 0.001)
	hosts := b.c.hosts.status(now)
	s.Waiting = b.waiting(hosts)
	left := s.Waiting
	if b.c.options.MaxPages > 0 {
		left = min(left, max(b.c.options.MaxPages-b.c.stored.Load(), 0))
	}
	if s.Pages > 0 {
		s.ETASeconds = new(float64(left) * s.ElapsedSeconds / float64(s.Pages))
	}
	s.KnownHosts, s.Hosts = len(hosts), busiest(hosts)
	b.last = s
	return &s
}

// waiting counts the requests that wait, and adds them to their hosts. What the store does not answer is not shown.
func (b *board) waiting(hosts map[string]*hostStatus) (n int64) {
	// The last state is shown after the end of a crawl that was interrupted, too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), time.Second)
	defer cancel()
	if stats, err := b.parts.topics.Stats(ctx, b.c.requestTopic()); err == nil && len(stats) > 0 {
		n = stats[0].Waiting + stats[0].Delayed
	}
	requests, ok := store.As[store.Inspector](b.parts.store)
	if !ok {
		return n
	}
	for r, err := range requests.List(ctx, store.Filter{Topic: b.c.requestTopic(), Limit: boardListed}) {
		if err != nil {
			break
		}
		if r.State == store.Leased {
			continue
		}
		id, _, _ := strings.Cut(string(r.Key), "#")
		if hosts[id] == nil {
			hosts[id] = &hostStatus{Host: id}
		}
		hosts[id].Waiting++
	}
	return n
}

// status is what is known of the hosts, by their names.
func (hs *hosts) status(now time.Time) map[string]*hostStatus {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	all := make(map[string]*hostStatus, len(hs.byID))
	for id, h := range hs.byID {
		s := &hostStatus{Host: id, InFlight: h.inFlight.Load(), Errors: h.failed.Load()}
		h.mu.Lock()
		if h.next.After(now) {
			s.HeldUntil = h.next.UTC()
		}
		h.mu.Unlock()
		all[id] = s
	}
	return all
}

func busiest(hosts map[string]*hostStatus) []hostStatus {
	list := make([]hostStatus, 0, len(hosts))
	for _, h := range hosts {
		list = append(list, *h)
	}
	slices.SortFunc(list, func(a, b hostStatus) int {
		busy := cmp.Compare(b.Waiting+b.InFlight, a.Waiting+a.InFlight)
		return cmp.Or(busy, cmp.Compare(b.Errors, a.Errors), cmp.Compare(a.Host, b.Host))
	})
	return list[:min(len(list), boardHosts)]
}

// lines are what a terminal shows.
func (b *board) lines() []string {
	s := &b.last
	if b.ended.Load() || time.Since(s.At) > boardEvery {
		s = b.look()
	}
	eta := "–"
	if s.ETASeconds != nil {
		eta = (time.Duration(*s.ETASeconds) * time.Second).String()
	}
	lines := []string{
		fmt.Sprintf("pages     %d stored   %.0f/s   %d waiting   ETA %s", s.Pages, s.PagesPerSecond, s.Waiting, eta),
		fmt.Sprintf("requests  %d   %d in flight   %d errors", s.Requests, s.InFlight, s.Errors),
		fmt.Sprintf("received  %.1f MB in %s", float64(s.Bytes)/1e6, time.Since(b.began).Round(time.Second)),
		fmt.Sprintf("%-40s %8s %9s %7s  %s", "host", "waiting", "in flight", "errors", "held until"),
	}
	for _, h := range s.Hosts[:min(len(s.Hosts), boardRows)] {
		held := ""
		if h.HeldUntil.After(time.Now()) {
			held = h.HeldUntil.Local().Format(time.TimeOnly)
		}
		lines = append(lines, fmt.Sprintf("%-40.40s %8d %9d %7d  %s", h.Host, h.Waiting, h.InFlight, h.Errors, held))
	}
	if more := s.KnownHosts - boardRows; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return lines
}

// line is the same where there is no terminal.
func (b *board) line() string {
	text, _ := json.Marshal(b.look()) // numbers and names always have a form
	return string(text)
}
