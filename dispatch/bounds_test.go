package dispatch_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// What a message says of its retries counts also where its handler is given up, or writes to its copy of the headers.
func TestBoundsOfAMessageCountWhateverItsHandlerDoes(t *testing.T) {
	stuck := func(*pawl.Delivery) error {
		time.Sleep(time.Minute)
		return nil
	}
	for name, do := range map[string]func(*pawl.Delivery) error{
		"given up": stuck,
		"no headers": func(d *pawl.Delivery) error {
			d.Headers = nil
			return errors.New("no")
		},
		"other headers": func(d *pawl.Delivery) error {
			d.RetryUpTo(100)
			return errors.New("no")
		},
		"written to": func(d *pawl.Delivery) error {
			delete(d.Headers, pawl.HeaderAttempts)
			d.Headers[pawl.HeaderRetryFor] = "10h"
			return errors.New("no")
		},
		"other headers, then given up": func(d *pawl.Delivery) error {
			delete(d.Headers, pawl.HeaderAttempts)
			return stuck(d)
		},
	} {
		for _, batch := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(r *rig) {
					m := numbered("a", 1)
					m[0].RetryUpTo(2)
					r.append(m...)
					var calls atomic.Int64
					c := one(1, func(_ context.Context, d *pawl.Delivery) error {
						calls.Add(1)
						return do(d)
					})
					if h := c.Topics[0].Handler; batch {
						c.Topics[0].Handler = nil
						c.Topics[0].Batch = pawl.BatchHandlerFunc(func(ctx context.Context, ds []*pawl.Delivery) []error {
							return []error{h.Handle(ctx, ds[0])}
						})
					}
					c.Topics[0].Settings.Deadline = 10 * time.Second
					r.run(c)
					time.Sleep(time.Hour)
					equal(r, calls.Load(), int64(2))
					equal(r, r.stats("a").Dead, int64(1))
				})
			})
		}
	}
}

// The reason of a handler that was given up names the bound that ended it.
func TestReasonOfAHandlerThatIsGivenUp(t *testing.T) {
	for limit, want := range map[time.Duration]string{
		0: "before the topic's deadline of 10s", 3 * time.Second: "by the time limit of the message of 3s",
	} {
		bubble(t, func(r *rig) {
			m := numbered("a", 1)
			m[0].RetryUpTo(1)
			if limit > 0 {
				m[0].LimitTime(limit)
			}
			r.append(m...)
			c := one(1, func(context.Context, *pawl.Delivery) error {
				time.Sleep(time.Minute)
				return nil
			})
			c.Topics[0].Settings.Deadline = 10 * time.Second
			r.run(c)
			time.Sleep(time.Hour)
			got, err := r.mem.Get(t.Context(), "a-0")
			if err != nil || !strings.Contains(got.Reason, want) {
				t.Errorf("%q, %v, want %q", got.Reason, err, want)
			}
		})
	}
}

// In a batch that the time limit of one message ends, the reason of the others says so.
func TestReasonInABatchThatATimeLimitEnds(t *testing.T) {
	bubble(t, func(r *rig) {
		m := numbered("a", 3)
		m[1].LimitTime(time.Second)
		m[2].LimitTime(5 * time.Second)
		for i := range m {
			m[i].RetryUpTo(1)
		}
		r.append(m...)
		c := one(1, nil)
		c.Topics[0].Handler = nil
		c.Topics[0].Batch = pawl.BatchHandlerFunc(func(ctx context.Context, ds []*pawl.Delivery) []error {
			<-ctx.Done()
			return slices.Repeat([]error{context.Cause(ctx)}, len(ds))
		})
		c.Topics[0].Settings.Deadline = 10 * time.Second
		r.run(c)
		time.Sleep(time.Minute)
		for id, want := range map[string]string{"a-0": "by the time limit of a message in its batch of 1s",
			"a-1": "by the time limit of the message of 1s", "a-2": "by the time limit of a message in its batch of 1s"} {
			got, err := r.mem.Get(t.Context(), id)
			if err != nil || !strings.Contains(got.Reason, want) {
				t.Errorf("%s: %q, %v, want %q", id, got.Reason, err, want)
			}
		}
	})
}
