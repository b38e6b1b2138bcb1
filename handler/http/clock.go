package http

import (
	"context"
	"time"
)

// clock bounds a request and its reply. It stands still while we keep the service
// waiting. It is for one goroutine.
type clock struct {
	ctx   context.Context // ends with [context.DeadlineExceeded] as its cause
	end   context.CancelCauseFunc
	timer *time.Timer // nil: no bound
	until time.Time
}

// startClock begins a bound; 0 is none. The caller closes it.
func startClock(ctx context.Context, bound time.Duration) *clock {
	c := &clock{}
	c.ctx, c.end = context.WithCancelCause(ctx)
	if bound > 0 {
		c.until = time.Now().Add(bound)
		c.timer = time.AfterFunc(bound, func() { c.end(context.DeadlineExceeded) })
	}
	return c
}

// deadline is when the bound, or the context around it, ends; zero: neither does.
func (c *clock) deadline() time.Time {
	outer, bounded := c.ctx.Deadline()
	if !bounded || c.timer != nil && c.until.Before(outer) {
		return c.until
	}
	return outer
}

// without does what does not count.
func (c *clock) without(do func() error) error {
	if c.timer == nil || !c.timer.Stop() {
		return do()
	}
	left := time.Until(c.until)
	defer func() {
		c.until = time.Now().Add(left)
		c.timer.Reset(left)
	}()
	return do()
}

// over reports whether the bound has passed.
func (c *clock) over() bool { return context.Cause(c.ctx) == context.DeadlineExceeded }

func (c *clock) close() {
	if c.timer != nil {
		c.timer.Stop()
	}
	c.end(nil)
}
