package storetest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Rejects fails t unless the suite rejects a store that is broken on purpose:
// every named sentence must fail on it. Without names, some sentence must.
func Rejects(t *testing.T, h Harness, sentences ...string) {
	t.Helper()
	failed := Failing(t, h, sentences...)
	for _, name := range sentences {
		if !slices.Contains(failed, name) {
			t.Errorf("sentence %s does not reject the broken store", name)
		}
	}
	if len(failed) == 0 {
		t.Error("no sentence rejects the broken store")
	}
}

// Failing runs the named sentences, or all without names, each on a fresh store,
// and returns the names of those that fail. It does not fail t; it logs why each
// of them failed. Sentences that the store refuses are left out.
func Failing(t *testing.T, h Harness, sentences ...string) []string {
	t.Helper()
	b := h.describe(t)
	var failed []string
	for _, s := range Sentences() {
		named := len(sentences) == 0 || slices.Contains(sentences, s.Name)
		if named && s.refusal(b) == "" && s.failsOn(t, h) {
			failed = append(failed, s.Name)
		}
	}
	return failed
}

// failsOn runs one sentence on a fresh store and reports whether it failed.
func (s *Sentence) failsOn(t *testing.T, h Harness) bool {
	r := &recorder{TB: t}
	r.run(func() {
		test := newT(r, h.Open(r))
		test.timeout = time.Second
		s.Test(test)
	})
	if r.failed {
		t.Logf("%s: %s", s.Name, r.why)
	}
	return r.failed
}

// recorder is a test that may fail without failing the test that runs it.
type recorder struct {
	testing.TB // of whom only TempDir, Name and such are used

	mu       sync.Mutex
	failed   bool
	why      string // the first failure
	cleanups []func()
}

// run runs a test to its end, whether it returns, gives up or panics.
func (r *recorder) run(test func()) {
	r.apart(test)
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		r.apart(last)
	}
}

// apart calls f in a goroutine that FailNow may end.
func (r *recorder) apart(f func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				r.Errorf("panic: %v", p)
			}
		}()
		f()
	})
	wg.Wait()
}

func (r *recorder) fail(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.failed {
		r.failed, r.why = true, strings.TrimSpace(why)
	}
}

// The methods of testing.TB that report.

func (r *recorder) Helper()                      {}
func (r *recorder) Log(...any)                   {}
func (r *recorder) Logf(string, ...any)          {}
func (r *recorder) Fail()                        { r.fail("failed") }
func (r *recorder) Error(args ...any)            { r.fail(fmt.Sprintln(args...)) }
func (r *recorder) Errorf(f string, args ...any) { r.fail(fmt.Sprintf(f, args...)) }
func (r *recorder) FailNow()                     { r.Fail(); runtime.Goexit() }
func (r *recorder) Fatal(args ...any)            { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(f string, args ...any) { r.Errorf(f, args...); runtime.Goexit() }

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}
