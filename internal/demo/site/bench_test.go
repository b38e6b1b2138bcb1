package site

import (
	"net/http/httptest"
	"testing"
)

// BenchmarkOpen is the wait before the first page.
func BenchmarkOpen(b *testing.B) {
	root := goroot(b)
	for b.Loop() {
		if _, err := Open(root, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPage is an answer to a request once the package was read, for each
// page in turn.
func BenchmarkPage(b *testing.B) {
	s := open(b, Options{})
	visit := func(p *page) {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", p.path, nil))
		if w.Code != 200 {
			b.Fatalf("%s: %d", p.path, w.Code)
		}
	}
	for _, p := range s.catalogue.all {
		visit(p)
	}
	i := 0
	for b.Loop() {
		visit(s.catalogue.all[i%len(s.catalogue.all)])
		i++
	}
}

// BenchmarkBind reads all packages, one after the other.
func BenchmarkBind(b *testing.B) {
	s := open(b, Options{})
	for b.Loop() {
		bytes := 0
		for _, v := range s.catalogue.packages {
			sheets, err := bind(s.catalogue, v)
			if err != nil {
				b.Fatal(err)
			}
			for _, sheet := range sheets {
				bytes += len(sheet.main)
			}
		}
		b.ReportMetric(float64(bytes), "html-bytes")
	}
}
