package operate

import (
	"context"
	"errors"
	"time"
)

// beating calls do, which may take long, and meanwhile reports that the operation is
// being carried out. The context of do ends when another process has taken the
// operation. Do only reads the operation.
func (r *Runner) beating(keep context.Context, do func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(keep)
	defer stop(nil)
	ended, lost := make(chan struct{}), make(chan error, 1)
	go func() {
		err := r.beat(keep, ended)
		stop(err)
		lost <- err
	}()
	err := do(ctx)
	close(ended)
	if taken := <-lost; taken != nil {
		return taken
	}
	return err
}

// beat sends these reports until ended is closed; its error is that another process has
// the operation. Other errors, and requests to stop, are left to the next save, which
// precedes any replay.
func (r *Runner) beat(keep context.Context, ended <-chan struct{}) error {
	for left := beatEvery - time.Since(r.put); ; left = beatEvery {
		timer := time.NewTimer(left)
		select {
		case <-ended:
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if err := r.save(keep); errors.Is(err, errTaken) {
			return err
		}
	}
}
