package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
)

func TestResize(t *testing.T) {
	bubble(t, func(r *rig) {
		for range 100 {
			r.append(pawl.Message{Topic: "a"})
		}
		hold := make(chan struct{})
		r.run(one(2, func(context.Context, *pawl.Delivery) error {
			<-hold
			return nil
		}))
		running := func() int {
			time.Sleep(time.Second)
			synctest.Wait()
			return r.d.Snapshot().Topics[0].Running
		}
		finish := func(n int) {
			for range n {
				hold <- struct{}{}
			}
		}
		equal(r, running(), 2)
		equal(r, r.d.Resize("a", 5), nil)
		equal(r, running(), 5)
		equal(r, r.d.Resize("a", 1), nil)
		equal(r, running(), 5) // what runs finishes
		finish(3)
		equal(r, running(), 2)
		finish(2)
		equal(r, running(), 1)
		finish(10)
		equal(r, running(), 1)
		equal(r, r.d.Resize("a", 3), nil)
		equal(r, running(), 3)
		for topic, n := range map[string]int{"a": 0, "b": 1} {
			if r.d.Resize(topic, n) == nil {
				t.Errorf("topic %s was resized to %d", topic, n)
			}
		}
		close(hold)
	})
}
