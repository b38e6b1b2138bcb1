package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
)

func acquire(t testing.TB, l *dispatch.Limiter, key string) func(error) {
	t.Helper()
	done, err := l.Acquire(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// Who waits begins when a call ends, in the order in which they came, key by key.
func TestAcquireWaitsInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, dispatch.LimitConfig{Concurrency: 1})
		var seen diary
		first, other := acquire(t, l, "a"), acquire(t, l, "b")
		for i := range 4 {
			time.Sleep(time.Second)
			go func() {
				done := acquire(t, l, "a")
				seen.add("%d", i)
				done(nil)
			}()
		}
		synctest.Wait()
		if got := seen.list(); len(got) > 0 {
			t.Fatalf("%q began beside the first", got)
		}
		other(nil)
		first(nil)
		first(nil) // once is enough
		synctest.Wait()
		if got := fmt.Sprint(seen.list()); got != "[0 1 2 3]" {
			t.Fatalf("they began in the order %s", got)
		}
		if s := l.Snapshot(); s.Running != 0 || s.HeldBack < 1 || s.HeldBack > 4 { // as many as had to wait again
			t.Fatalf("snapshot %+v", s)
		}
	})
}

func TestAcquireKeepsTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := limiter(t, dispatch.LimitConfig{Rate: 2, Burst: 1}), time.Now()
		for range 5 {
			acquire(t, l, "")(nil)
		}
		if took := time.Since(began); took != 2*time.Second {
			t.Fatalf("five calls at two a second took %v", took)
		}
	})
}

func TestAcquireEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, dispatch.LimitConfig{Concurrency: 1})
		done := acquire(t, l, "")
		ctx, cancel := context.WithCancelCause(t.Context())
		got := make(chan error, 2)
		for range 2 { // one asks, one stands behind it
			go func() {
				_, err := l.Acquire(ctx, "")
				got <- err
			}()
		}
		synctest.Wait()
		cancel(pawl.ErrDrain)
		for range 2 {
			if err := <-got; !errors.Is(err, pawl.ErrDrain) {
				t.Fatalf("error %v", err)
			}
		}
		done(nil)
		acquire(t, l, "")(nil)
	})
}

// What done is told moves an adaptive limit, once per flight.
func TestAcquireTellsTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limiter(t, dispatch.LimitConfig{Adaptive: 50, AIMD: &dispatch.AIMD{Start: 8}})
		var flight []func(error)
		for range 8 {
			flight = append(flight, acquire(t, l, ""))
		}
		if s := l.Snapshot(); s.Window != 8 || s.Running != 8 {
			t.Fatalf("snapshot %+v", s)
		}
		time.Sleep(time.Second)
		for _, done := range flight {
			done(pawl.Throttled(errBroken, 0))
		}
		if s := l.Snapshot(); s.Window != 4 || s.Running != 0 {
			t.Fatalf("snapshot %+v; want a window that was halved once", s)
		}
	})
}

func TestAIMDIsChecked(t *testing.T) {
	for _, c := range []dispatch.LimitConfig{
		{Name: "a", AIMD: &dispatch.AIMD{}},
		{Name: "a", Adaptive: 5, AIMD: &dispatch.AIMD{Factor: 1}},
		{Name: "a", Adaptive: 5, AIMD: &dispatch.AIMD{Start: -1}},
		{Name: "a", Adaptive: 5, AIMD: &dispatch.AIMD{}, Size: func() float64 { return 1 }},
	} {
		if _, err := dispatch.NewLimiter(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
