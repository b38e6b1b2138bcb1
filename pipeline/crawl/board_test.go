package crawl

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// TestBoard: the board tells totals, and of each host what waits, what failed and until when it is left alone; a
// terminal shows the same as the line of JSON.
func TestBoard(t *testing.T) {
	held := newWeb(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
	}})
	open := newWeb(t, map[string]http.HandlerFunc{"/": text("text/html", links("/broken"))})
	s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	p, err := find(s)
	if err != nil {
		t.Fatal(err)
	}
	o := Defaults()
	o.Seeds, o.AllowPrivate, o.Cache = []string{held.URL, open.URL, open.URL + "/second"}, true, noCache
	seeds, err := o.check()
	if err != nil {
		t.Fatal(err)
	}
	r, err := begin(t.Context(), p, Name, seeds, &o, false)
	if err != nil {
		t.Fatal(err)
	}
	c := newCrawler(Name, r.ID, o, seeds)
	for _, u := range seeds[:2] {
		_ = c.Handle(t.Context(), &pawl.Delivery{Message: c.visit(u, request{})}) // what becomes of it is counted
	}
	b := &board{ctx: t.Context(), c: c, parts: p, began: time.Now().Add(-time.Second)}
	var got status
	if err := json.Unmarshal([]byte(b.line()), &got); err != nil {
		t.Fatal(err)
	}
	if got.Pages != 1 || got.Errors != 1 || got.Waiting != 3 || got.KnownHosts != 2 ||
		got.ETASeconds == nil || got.PagesPerSecond <= 0 {
		t.Errorf("totals: %+v", got)
	}
	hosts := map[string]hostStatus{}
	for _, h := range got.Hosts {
		hosts[h.Host] = h
	}
	if h := hosts[site(seeds[0])]; h.Waiting != 1 || h.Errors != 1 || time.Until(h.HeldUntil) < 50*time.Minute {
		t.Errorf("the host that wants to be left alone: %+v", h)
	}
	if h := hosts[site(seeds[1])]; h.Waiting != 2 || h.Errors != 0 || !h.HeldUntil.IsZero() {
		t.Errorf("the other host: %+v", h)
	}
	shown := strings.Join(b.lines(), "\n")
	until := hosts[site(seeds[0])].HeldUntil.Local().Format(time.TimeOnly)
	for _, want := range []string{"1 stored", "3 waiting", site(seeds[0]), until} {
		if !strings.Contains(shown, want) {
			t.Errorf("a terminal does not show %q:\n%s", want, shown)
		}
	}
}
