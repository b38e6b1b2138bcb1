package kafka

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/plan"
)

// sleepers carry out the work of as many records, with nothing around it but a
// little calculation: what the machine and its timers leave of the possible.
func sleepers(busy time.Duration) reader {
	read := func(_ context.Context, at *target, l *ledger) error {
		var left atomic.Int64
		left.Store(l.want)
		l.began.Store(int64(time.Since(l.epoch)))
		var all sync.WaitGroup
		for range plan.KafkaAtOnce {
			all.Go(func() {
				for left.Add(-1) >= 0 {
					for began := time.Now(); time.Since(began) < busy; { //nolint:revive // that is the work
					}
					at.wait(at.takes)
					l.count(1)
				}
			})
		}
		all.Wait()
		return nil
	}
	return reader{read, fmt.Sprintf("%d goroutines that calculate for %v, sleep and count, no broker", plan.KafkaAtOnce,
		busy)}
}
