package store_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/store"
)

func TestDoubled(t *testing.T) {
	for _, c := range []struct {
		n    int
		want time.Duration
	}{
		{0, 50 * time.Millisecond}, {1, 100 * time.Millisecond}, {6, 3200 * time.Millisecond},
		{7, 5 * time.Second}, {1 << 40, 5 * time.Second},
	} {
		if got := store.Doubled(50*time.Millisecond, 5*time.Second, c.n); got != c.want {
			t.Errorf("after %d: %v, want %v", c.n, got, c.want)
		}
	}
}

func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, why := time.Now(), errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		if err := store.Sleep(ctx, time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		cancel(why)
		if err := store.Sleep(ctx, time.Hour); !errors.Is(err, why) || time.Since(began) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
