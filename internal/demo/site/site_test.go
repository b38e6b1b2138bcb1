package site

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
)

func open(t testing.TB, opt Options) *Site {
	t.Helper()
	return New(opt)
}

// answer asks the handler directly.
func answer(s http.Handler, method, target string, header http.Header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	maps.Copy(r.Header, header)
	w := httptest.NewRecorder()
	func() {
		// A reset cannot be recorded; it is the end of the answer.
		defer func() {
			p := recover()
			if err, ok := p.(error); p == nil || ok && errors.Is(err, http.ErrAbortHandler) {
				return
			}
			panic(p)
		}()
		s.ServeHTTP(w, r)
	}()
	return w
}

// attributes returns the values of an attribute in a body.
func attributes(body, name string) []string {
	var values []string
	for _, part := range strings.Split(body, name+"=\"")[1:] {
		value, _, _ := strings.Cut(part, "\"")
		values = append(values, value)
	}
	return values
}

// TestPages shows that a larger site contains the smaller ones, however small.
func TestPages(t *testing.T) {
	larger := slices.Collect(open(t, Options{Pages: DefaultPages}).Paths())
	for _, pages := range []int{DefaultPages, 500, 100, 26, 2, 1} {
		got := slices.Collect(open(t, Options{Pages: pages}).Paths())
		if len(got) != pages || !slices.Equal(got, larger[:pages]) {
			t.Errorf("a site of %d pages has %d, or others than a larger one", pages, len(got))
		}
	}
}

// TestSameSite opens a site twice, and with another seed.
func TestSameSite(t *testing.T) {
	opt := Options{Pages: 400, Seed: 7, Faults: DefaultFaults()}
	a, b := open(t, opt), open(t, opt)
	opt.Seed = 8
	c := open(t, opt)
	if !slices.Equal(slices.Collect(a.Paths()), slices.Collect(b.Paths())) {
		t.Error("the pages differ")
	}
	if !maps.EqualFunc(plans(a), plans(b), slices.Equal) {
		t.Error("the plans differ")
	}
	if !slices.Equal(a.Broken(), b.Broken()) || !slices.Equal(a.Failing(), b.Failing()) {
		t.Error("what is broken or failing differs")
	}
	if maps.EqualFunc(plans(a), plans(c), slices.Equal) || slices.Equal(a.Broken(), c.Broken()) {
		t.Error("another seed changes nothing")
	}
	synctest.Test(t, func(t *testing.T) { // so that slow pages take no time
		for path := range a.Paths() {
			x, y := answer(a, "GET", path, nil), answer(b, "GET", path, nil)
			if x.Code != y.Code || x.Header().Get("ETag") != y.Header().Get("ETag") ||
				x.Body.String() != y.Body.String() {
				t.Errorf("%s differs", path)
			}
		}
	})
}

// plans returns the plan of every page that has one.
func plans(s *Site) map[string][]Fault {
	plans := make(map[string][]Fault)
	for path := range s.Paths() {
		if plan := s.Plan(path); len(plan) > 0 {
			plans[path] = plan
		}
	}
	return plans
}
