package site

import (
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestPlan counts the planned faults, for several seeds.
func TestPlan(t *testing.T) {
	rates := FaultRates{Throttled: 0.02, Erroring: 0.03, Slow: 0.01, Reset: 0.015, Truncated: 0.001, Broken: 5,
		Failing: 2}
	for seed := range uint64(3) {
		s := open(t, Options{Pages: 900, Seed: seed, Faults: rates})
		got := make(map[Fault]int) // pages, by their first fault
		twice := 0
		for path, plan := range plans(s) {
			got[plan[0]]++
			if len(plan) > 2 || len(plan) == 2 && (plan[0] == plan[1] || kindOf(plan[0]) != kindOf(plan[1])) {
				t.Errorf("seed %d: %s has the plan %v", seed, path, plan)
			}
			if len(plan) == 2 {
				twice++
			}
		}
		byKind := make(map[Fault]int)
		for f, n := range got {
			byKind[kindOf(f)] += n
		}
		want := map[Fault]int{FaultThrottled: 18, FaultUnavailable: 27, FaultSlow: 9, FaultReset: 14, FaultTruncated: 1}
		if !maps.Equal(byKind, want) {
			t.Errorf("seed %d: %v pages, want %v", seed, byKind, want)
		}
		if twice == 0 || got[FaultThrottledBy] == 0 || got[FaultInternal] == 0 {
			t.Errorf("seed %d: %d pages fail twice, of %v", seed, twice, got)
		}
		if len(s.Broken()) != 5 || len(s.Failing()) != 2 || len(s.Plan("/")) > 0 {
			t.Errorf("seed %d: broken %q, failing %q, the index %v", seed, s.Broken(), s.Failing(), s.Plan("/"))
		}
		for _, path := range s.Broken() {
			if slices.Contains(s.Failing(), path) || !s.byPath[path].leaf {
				t.Errorf("seed %d: %s may not be broken", seed, path)
			}
		}
	}
}

// kindOf folds the two forms of a fault into one.
func kindOf(f Fault) Fault {
	switch f {
	case FaultThrottledBy:
		return FaultThrottled
	case FaultInternal:
		return FaultUnavailable
	}
	return f
}

// A site of nothing but trouble still has its pages.
func TestFaultsOfSmallSites(t *testing.T) {
	for pages := range 12 {
		s := open(t, Options{Pages: pages + 1, Faults: FaultRates{Throttled: 0.5, Slow: 0.5, Broken: 100, Failing: 3}})
		leaves := 0
		for _, p := range s.pages {
			if p.leaf {
				leaves++
			}
		}
		if got := len(s.Broken()) + len(s.Failing()); got != leaves {
			t.Errorf("%d pages: %d broken or failing, want all %d leaves", pages, got, leaves)
		}
	}
}

// TestFaultsPass asks for each page that has a plan, over a real connection,
// until the plan is through, and once more.
func TestFaultsPass(t *testing.T) {
	s := open(t, Options{Pages: 300, Seed: 3, Faults: FaultRates{
		Throttled: 0.05, Erroring: 0.05, Slow: 0.01, Reset: 0.05, Truncated: 0.05, Failing: 2}})
	server := httptest.NewServer(s)
	defer server.Close()
	var want Tally
	for path, plan := range plans(s) {
		for i, fault := range plan {
			if err := meets(server, path, fault); err != nil {
				t.Errorf("%s, request %d: %v", path, i+1, err)
			}
			want.count(fault)
		}
		if err := meets(server, path, 0); err != nil {
			t.Errorf("%s after its plan %v: %v", path, plan, err)
		}
		want.Good++
		want.Requests += int64(len(plan)) + 1
		if got := s.Requests(path); got != len(plan)+1 {
			t.Errorf("%s: %d requests, want %d", path, got, len(plan)+1)
		}
	}
	for _, path := range s.Failing() {
		for range 4 {
			if err := meets(server, path, FaultInternal); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			want.Failing++
			want.Requests++
		}
	}
	if got := s.Tally(); got != want {
		t.Errorf("tally %+v, want %+v", got, want)
	}
}

func (t *Tally) count(f Fault) {
	switch f {
	case FaultThrottled, FaultThrottledBy:
		t.Throttled++
	case FaultUnavailable, FaultInternal:
		t.Errors++
	case FaultSlow:
		t.Slow++
	case FaultReset:
		t.Resets++
	case FaultTruncated:
		t.Truncated++
	}
}

// meets asks for a page and returns an error unless it meets the fault, or
// none if that is 0.
func meets(server *httptest.Server, path string, fault Fault) error {
	sent := time.Now()
	r, err := server.Client().Get(server.URL + path)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	took := time.Since(sent)
	body, err := io.ReadAll(r.Body)
	ok := false
	switch fault {
	case 0:
		ok = r.StatusCode == 200 && err == nil && int64(len(body)) == r.ContentLength && r.Header.Get("ETag") != ""
	case FaultThrottled:
		ok = r.StatusCode == 429 && r.Header.Get("Retry-After") == "1"
	case FaultThrottledBy:
		by, notDate := http.ParseTime(r.Header.Get("Retry-After"))
		ok = r.StatusCode == 429 && notDate == nil && by.After(sent) && by.Before(sent.Add(took+2*time.Second))
	case FaultUnavailable:
		ok = r.StatusCode == 503
	case FaultInternal:
		ok = r.StatusCode == 500
	case FaultSlow:
		ok = r.StatusCode == 200 && err == nil && took >= slowestLeast
	case FaultReset:
		ok = r.StatusCode == 200 && errors.Is(err, syscall.ECONNRESET) && int64(len(body)) == r.ContentLength/2
	case FaultTruncated:
		ok = r.StatusCode == 200 && errors.Is(err, io.ErrUnexpectedEOF) && int64(len(body)) == r.ContentLength/2
	}
	if !ok {
		return errors.New("want " + fault.String() + ", got " + strconv.Itoa(r.StatusCode) + " after " + took.String() +
			", " + r.Header.Get("Retry-After") + ", " + strconv.Itoa(len(body)) + " bytes")
	}
	return nil
}

// TestSlow measures the delays on a clock that stands still otherwise.
func TestSlow(t *testing.T) {
	s := open(t, Options{Pages: 200, Faults: FaultRates{Slow: 1}})
	synctest.Test(t, func(t *testing.T) {
		shortest, longest := time.Duration(math.MaxInt64), time.Duration(0)
		for path := range plans(s) {
			start := time.Now()
			if w := answer(s, "GET", path, nil); w.Code != 200 {
				t.Fatalf("%s: %d", path, w.Code)
			}
			took := time.Since(start)
			shortest, longest = min(shortest, took), max(longest, took)
			start = time.Now()
			answer(s, "GET", path, nil)
			if again := time.Since(start); again > 0 {
				t.Errorf("%s took %v the second time", path, again)
			}
		}
		if shortest < slowestLeast || longest > slowestMost || longest-shortest < (slowestMost-slowestLeast)/2 {
			t.Errorf("from %v to %v, want the range from %v to %v", shortest, longest, slowestLeast, slowestMost)
		}
	})
	if got, want := s.Tally(), (Tally{Requests: 398, Good: 199, Slow: 199}); got != want {
		t.Errorf("tally %+v, want %+v", got, want)
	}
}

// TestSlowGivesUp takes the client away from a page that is late.
func TestSlowGivesUp(t *testing.T) {
	s := open(t, Options{Pages: 2, Faults: FaultRates{Slow: 1}})
	synctest.Test(t, func(t *testing.T) {
		for path := range plans(s) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			start := time.Now()
			s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, "GET", path, nil))
			if took := time.Since(start); took != 20*time.Millisecond {
				t.Errorf("%s was worked on for %v, with nobody there after 20ms", path, took)
			}
			cancel()
		}
	})
	if got, want := s.Tally(), (Tally{Requests: 1, Slow: 1}); got != want {
		t.Errorf("tally %+v, want %+v", got, want)
	}
}
