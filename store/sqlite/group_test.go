package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// stalled holds the file's lock until release is called, so that calls gather.
func stalled(t *testing.T, path string) (release func()) {
	t.Helper()
	tx, err := application(t, path).Begin()
	must(t, err)
	return func() { must(t, tx.Rollback()) }
}

// gather has n calls wait for the lock: the writer has the first, the others are
// behind it.
func gather(t *testing.T, s *Store, n int, do func(i int)) *sync.WaitGroup {
	t.Helper()
	var wg sync.WaitGroup
	wg.Go(func() { do(0) })
	f, err := os.Open(s.cfg.Path + "-turn")
	must(t, err)
	defer func() { _ = f.Close() }()
	until(t, func() bool { // the writer says that it waits
		free := lockFile(f, exclusive)
		if free {
			unlockFile(f)
		}
		return !free
	})
	for i := range n - 1 {
		wg.Go(func() { do(i + 1) })
	}
	until(t, func() bool { return len(s.calls) == n-1 })
	return &wg
}

// TestCallsShareATransaction: what waits at the same time is written at once, and
// has the same time of the store.
func TestCallsShareATransaction(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path})
	release := stalled(t, path)
	const many = 50
	wg := gather(t, s, many, func(int) {
		if _, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t"})); err != nil {
			t.Error(err)
		}
	})
	release()
	wg.Wait()
	ds, err := s.Claim(t.Context(), []store.Want{{Topic: "t", Limit: many}}, store.Lease{For: time.Minute})
	must(t, err)
	times := map[time.Time]bool{}
	for i := range ds {
		times[ds[i].EnqueuedAt] = true
	}
	if len(ds) != many || len(times) != 1 {
		t.Errorf("%d messages in %d transactions; want %d in one", len(ds), len(times), many)
	}
}

// TestWhoGivesUpIsTakenOut: a call whose context ends before its turn does
// nothing; the others of its group do.
func TestWhoGivesUpIsTakenOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path})
	release := stalled(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	errs := make([]error, 10)
	var gone sync.WaitGroup
	gone.Add(len(errs) / 2)
	wg := gather(t, s, len(errs), func(i int) {
		of := t.Context()
		if i%2 == 0 {
			of = ctx
			defer gone.Done()
		}
		_, errs[i] = s.Append(of, store.NewBatch(pawl.Message{Topic: "t", Body: []byte{byte(i)}}))
	})
	cancel()
	gone.Wait()
	release()
	wg.Wait()
	for i, err := range errs {
		if i%2 == 0 && !errors.Is(err, context.Canceled) || i%2 == 1 && err != nil {
			t.Errorf("call %d: %v", i, err)
		}
	}
	ds, err := s.Claim(t.Context(), []store.Want{{Topic: "t", Limit: 10}}, store.Lease{For: time.Minute})
	must(t, err)
	for i := range ds {
		if ds[i].Body[0]%2 == 0 {
			t.Errorf("message %d was stored although its call was given up", ds[i].Body[0])
		}
	}
	if len(ds) != 5 {
		t.Errorf("%d messages; want 5", len(ds))
	}
}

// TestCloseAnswersWhoWaits: nobody is left waiting.
func TestCloseAnswersWhoWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path})
	release := stalled(t, path)
	defer release()
	wg := gather(t, s, 10, func(int) {
		if _, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t"})); err == nil {
			t.Error("an append succeeded although somebody else had the lock")
		}
	})
	must(t, s.Close())
	wg.Wait()
	if _, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t"})); !errors.Is(err, store.ErrClosed) {
		t.Error(err)
	}
}

// TestPickupWithinAProcess: who listens claims a lone message within milliseconds.
func TestPickupWithinAProcess(t *testing.T) {
	s := open(t, Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	woken, err := s.Listen(t.Context(), "t")
	must(t, err)
	var took []time.Duration
	for range 200 {
		began := time.Now()
		_, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "t"}))
		must(t, err)
		for n := 0; n == 0; {
			<-woken
			n = burn(t, s, "t", 1)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("appended, claimed and acked: half within %v, 99 of 100 within %v", took[100], took[197])
	if took[100] > 50*time.Millisecond { // unwoken, it would be five times that
		t.Errorf("half took more than %v", took[100])
	}
}
