package serve

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/pawl-dev/pawl/internal/systemd"
	"github.com/pawl-dev/pawl/store"
)

// The pauses between tries to open a store that is not reachable, and how often it is
// said that it is not.
const (
	minAwait  = 100 * time.Millisecond
	maxAwait  = 5 * time.Second
	awaitSaid = 5 * time.Minute
)

// Await opens a store, and retries while it is not reachable: exiting would not help,
// and the service manager would give up restarting. Any other error ends it at once. It
// returns nil without an error if ctx ends before.
func Await(ctx context.Context, front *Front, getenv func(string) string, logger *slog.Logger,
	open func() (store.Store, error)) (store.Store, error) {
	began := time.Now()
	manager, _ := systemd.New(getenv, os.Getpid()) // without one nothing is announced; the daemon warns
	var said time.Time
	for pause := minAwait; ; pause = min(2*pause, maxAwait) {
		s, err := open()
		if err == nil {
			if !said.IsZero() {
				logger.Info("the store can be reached", "after", time.Since(began).Round(time.Millisecond))
			}
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		if !errors.Is(err, store.ErrUnavailable) {
			return nil, err
		}
		front.waiting(err)
		if said.IsZero() || time.Since(said) >= awaitSaid {
			said = time.Now()
			logger.Warn(
				"the store cannot be reached; it is tried again until it can; a changed `store:` in the file needs a restart",
				"error", err, "for", time.Since(began).Round(time.Second))
			manager.Waiting("the store cannot be reached")
		}
		if store.Sleep(ctx, pause) != nil {
			return nil, nil
		}
	}
}
