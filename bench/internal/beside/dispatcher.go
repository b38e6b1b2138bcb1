// Package beside runs what is measured from beside it: a dispatcher in this process, or a daemon.
package beside

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// Dispatcher runs a dispatcher over a store, as a program has it, until it is stopped. It tells of one that ends by itself.
func Dispatcher(ctx context.Context, s store.Store, c dispatch.Config,
	failed func(error)) (stop func(context.Context) error, err error) {
	d, err := dispatch.New(s, c)
	if err != nil {
		return nil, fmt.Errorf("make a dispatcher: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		err := d.Run(ctx)
		if ctx.Err() == nil {
			failed(fmt.Errorf("the dispatcher ended: %w", err))
		}
		ended <- err
	}()
	return func(context.Context) error {
		cancel()
		return <-ended
	}, nil
}
