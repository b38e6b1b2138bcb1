//go:build linux

package crash

import (
	"fmt"
	"testing"
	"time"
)

// TestKafkaMembers: every three seconds a process joins the group, leaves it, or is
// killed with kill -9, while a producer goes on. Nothing is lost, keys stay in
// order, and of finished work no more is repeated than what the killed had finished
// within a commit interval. Those who leave when they are asked to leave nothing
// behind. Killed ones are followed by new ones, and by the next kill, while the
// brokers still wait for them: the longest rebalances there are.
func TestKafkaMembers(t *testing.T) {
	beside(t, 29)
	c := newCrew(t, &plan{
		site: kafkaSite(t, "&session=6s&heartbeat=500ms&partitions=6"), dir: t.TempDir(), topic: "orders",
		concurrency: 4, parallel: 4,
		lease: 30 * time.Second, work: 10 * time.Millisecond,
	})
	c.join()
	c.join()
	producer := c.feed(200, 4*time.Millisecond)
	joins, leaves, kills := 2, 0, 0
	began := time.Now()
	for n := 0; time.Since(began) < plannedFor(t, 12*time.Second); n++ {
		time.Sleep(3 * time.Second)
		c.alive()
		switch {
		case n%4 == 0 || len(c.at) == 1:
			c.join()
			joins++
		case n%4 == 3:
			c.leave(c.rand.IntN(len(c.at)))
			leaves++
		default:
			c.kill(0) // the eldest: it has partitions
			kills++
			c.join()
			joins++
		}
	}
	producer.end()
	c.drained(max(time.Minute, 11*c.plan.lease))
	c.finish(fmt.Sprintf("%d processes joined, %d left, %d were killed", joins, leaves, kills))
}
