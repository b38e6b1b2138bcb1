package store

import (
	"context"
	"time"
)

// Doubled is how long to wait before a failed call is repeated: first × 2ⁿ, but at most
// limit.
func Doubled(first, limit time.Duration, n int) time.Duration {
	for ; n > 0 && first < limit; n-- {
		first *= 2
	}
	return min(first, limit)
}

// Sleep waits for d, or returns why ctx ended before.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
