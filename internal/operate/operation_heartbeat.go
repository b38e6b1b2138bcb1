package operate

import (
	"context"
	"errors"
	"time"
)

// beating does something that may take long, and says meanwhile that somebody
// carries the operation out. The context of do ends when another process has
// taken it. Do only reads the operation.
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

// beat says so until ended is closed; its error is that another process has the
// operation. Any other is left to the next save, before anything is replayed, and
// so is what somebody asked for.
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
