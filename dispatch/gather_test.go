package dispatch_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// trickle appends a message every five milliseconds.
func (r *rig) trickle(n int) {
	for i := range n {
		r.append(pawl.Message{Topic: "a", ID: fmt.Sprintf("t-%d", i)})
		time.Sleep(5 * time.Millisecond)
	}
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

// At 200 messages a second a bulk that does not wait has one message.
func TestBatchesWait(t *testing.T) {
	for _, c := range []struct {
		wait  time.Duration
		sizes []int
	}{
		{0, []int{1, 1, 1, 1}},
		{100 * time.Millisecond, []int{20, 20, 20, 20}}, // within a poll of it
		{10 * time.Second, []int{50, 50}},               // full before the wait is over
	} {
		bubble(t, func(r *rig) {
			var bulks diary
			config := batched(1, 50, func(_ context.Context, ds []*pawl.Delivery) []error {
				bulks.add("%d", len(ds))
				return make([]error, len(ds))
			})
			config.Topics[0].BatchWait = c.wait
			r.run(config)
			time.Sleep(time.Second)
			r.trickle(100)
			time.Sleep(time.Minute)
			equal(r, r.stats("a").Acked, int64(100))
			equal(r, r.stats("a").Rescues, int64(0))
			sizes := bulks.list()
			for i, want := range c.sizes {
				if i >= len(sizes) || number(sizes[i]) < want*9/10 || number(sizes[i]) > want*11/10 {
					r.Fatalf("waiting %v: bulks of %v; want them of about %v", c.wait, sizes, c.sizes)
				}
			}
		})
	}
}

// What waits for its batch is neither given back as too slow nor kept past a short deadline.
func TestBatchWaitIsBounded(t *testing.T) {
	for wait, deadline := range map[time.Duration]time.Duration{5 * time.Second: time.Hour,
		2500 * time.Millisecond: 10 * time.Second} {
		bubble(t, func(r *rig) {
			var began diary
			start := time.Now()
			config := batched(1, 50, func(_ context.Context, ds []*pawl.Delivery) []error {
				began.add("%v", time.Since(start).Round(100*time.Millisecond))
				return make([]error, len(ds))
			})
			config.Topics[0].BatchWait, config.Topics[0].Settings.Deadline = max(wait, 5*time.Second), deadline
			r.run(config)
			r.append(pawl.Message{Topic: "a"})
			time.Sleep(time.Minute)
			equal(r, began.list(), []string{wait.String()})
			equal(r, r.stats("a").Acked, int64(1))
		})
	}
}

// A batch that gathers is given back at a drain, and handed out when the wait is changed.
func TestBatchThatGathers(t *testing.T) {
	bubble(t, func(r *rig) {
		var sizes atomic.Int64
		config := batched(1, 50, func(_ context.Context, ds []*pawl.Delivery) []error {
			sizes.Add(int64(len(ds)))
			return make([]error, len(ds))
		})
		config.Topics[0].BatchWait = time.Minute
		r.run(config)
		r.append(numbered("a", 7)...)
		time.Sleep(time.Second)
		equal(r, sizes.Load(), int64(0))
		equal(r, r.d.SetBatch("a", 50, 2*time.Second), nil)
		time.Sleep(1100 * time.Millisecond)
		equal(r, sizes.Load(), int64(7))
		for _, wrong := range []error{r.d.SetBatch("b", 1, 0), r.d.SetBatch("a", -1, 0), r.d.SetBatch("a", 1, time.Hour)} {
			if wrong == nil {
				t.Error("a size or wait that no batch may have was taken")
			}
		}
		equal(r, r.d.SetBatch("a", 3, 0), nil)
		r.append(keyed("a", "l", 1)...)
		time.Sleep(time.Second)
		equal(r, sizes.Load(), int64(8))
		equal(r, r.d.SetBatch("a", 50, time.Minute), nil)
		r.append(keyed("a", "k", 3)...)
		time.Sleep(time.Second)
		r.stop()
		equal(r, r.ended(), nil)
		equal(r, sizes.Load(), int64(8))
		equal(r, r.stats("a").Waiting, int64(3))
	})
}
