package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/postgres"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// pageBar is how long a page may take at the server.
const pageBar = 200 * time.Millisecond

// BenchmarkPages makes each page of a store with 100,000 waiting messages and a tenth as many dead letters;
// PAWL_PAGES is another number, and PAWL_PAGES_POSTGRES the URL of an empty database that is filled in place of a file.
// With PAWL_BARS a page that takes longer than the bar fails.
func BenchmarkPages(b *testing.B) {
	waiting := 100_000
	if text := os.Getenv("PAWL_PAGES"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			b.Fatal(err)
		}
		waiting = n
	}
	var s store.Store
	var err error
	if url := os.Getenv("PAWL_PAGES_POSTGRES"); url != "" {
		s, err = postgres.Open(b.Context(), postgres.Config{URL: url, AutoMigrate: true})
	} else {
		s, err = sqlite.Open(b.Context(), sqlite.Config{Path: filepath.Join(b.TempDir(), "pages.db")})
	}
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	one := fillStore(b, s, waiting)
	k, err := New(Config{Store: s, BasePath: "/console",
		Auth: func(*http.Request) (string, string) { return "ada", api.Admin }})
	if err != nil {
		b.Fatal(err)
	}
	defer k.Close()
	paths := []string{"/messages/" + one, "/topics/mail", "/messages?topic=mail&state=waiting", "/messages?q=customer-7",
		"/dead?topic=mail"}
	for _, p := range pages() {
		if p.method == "" && !strings.Contains(p.path, "{") && p.path != "/dead/export" {
			paths = append(paths, p.path)
		}
	}
	for _, path := range paths {
		b.Run(strings.Trim(path, "/"), func(b *testing.B) {
			show := func() *httptest.ResponseRecorder {
				w := httptest.NewRecorder()
				k.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/console"+path, nil))
				return w
			}
			began := time.Now()
			for strings.Contains(show().Body.String(), "data-soon") && time.Since(began) < time.Minute {
				time.Sleep(10 * time.Millisecond)
			}
			settled := time.Since(began)
			for b.Loop() {
				w := show()
				if w.Code != http.StatusOK && w.Code != http.StatusNotFound { // a program without its part shows that
					b.Fatalf("%s: %d\n%s", path, w.Code, w.Body)
				}
			}
			took := b.Elapsed() / time.Duration(b.N)
			b.ReportMetric(float64(took.Microseconds())/1000, "ms/page")
			b.ReportMetric(float64(settled.Microseconds())/1000, "ms/settled")
			if os.Getenv("PAWL_BARS") != "" && took > pageBar {
				b.Errorf("%s takes %v, more than %v", path, took, pageBar)
			}
		})
	}
}

// fillStore fills a store with waiting messages and dead letters, and returns the id of a dead one.
func fillStore(b *testing.B, s store.Store, waiting int) (dead string) {
	b.Helper()
	send := func(n int) {
		for from := 0; from < n; from += 1000 {
			var all []pawl.Message
			for i := from; i < min(from+1000, n); i++ {
				all = append(all, pawl.Message{Topic: "mail", Key: fmt.Appendf(nil, "customer-%d", i%1000),
					Body:    fmt.Appendf(nil, `{"to":"customer-%d@example.com","n":%d}`, i%1000, i),
					Headers: map[string]string{"tenant": "acme"}})
			}
			if _, err := s.Append(b.Context(), store.NewBatch(all...)); err != nil {
				b.Fatal(err)
			}
		}
	}
	send(waiting / 10)
	for left := waiting / 10; left > 0; {
		got, err := s.Claim(b.Context(), []store.Want{{Topic: "mail", Limit: 1000}},
			store.Lease{For: time.Minute, Owner: "w"})
		if err != nil || len(got) == 0 {
			b.Fatalf("%d are left to die: %v", left, err)
		}
		var verdicts []store.Settlement
		for i := range got {
			dead = got[i].ID
			verdicts = append(verdicts, store.Settlement{Token: got[i].Token, ID: dead, Verdict: store.Dead,
				Failure: store.Failure{Kind: "Mailbox", Error: fmt.Sprintf("mailbox of %c is full", 'a'+i%20)}})
		}
		if _, err := s.Settle(b.Context(), store.NewBatch(verdicts...)); err != nil {
			b.Fatal(err)
		}
		left -= len(got)
	}
	send(waiting)
	return dead
}
