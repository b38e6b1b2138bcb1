package cli

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/pawl-dev/pawl/internal/migrate"
	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

// carryOn lets a worker carry on with cut-overs and roll-backs whose processes were killed, until what it
// returns is called.
func (s *session) carryOn(ctx context.Context, opened store.Store, logger *slog.Logger) (stop func()) {
	if s.mirror() == "" {
		return func() {}
	}
	f := &migrate.Finisher{From: opened, Who: s.who(), Target: redact.URL(s.mirror()), Logger: logger,
		Open: func(ctx context.Context) (from, to store.Store, err error) {
			if from, err = open.Open(ctx, open.Config{URL: s.url(), Logger: logger}); err != nil {
				return nil, nil, err
			}
			to, err = open.Open(ctx, open.Config{URL: s.mirror(), AutoMigrate: s.autoMigrate, Logger: logger})
			if err != nil {
				return nil, nil, errors.Join(err, from.Close())
			}
			return from, to, nil
		}}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}
