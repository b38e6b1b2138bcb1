//go:build linux

package crash

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/e2e/worker/journal"
)

// TestKafkaKeys: 1,000 keys of 100 messages each, carried out by handlers that take
// as long as chance wants, fail and give up, and a message in their midst that
// kills its process. Nothing is lost, and every key is in order.
func TestKafkaKeys(t *testing.T) {
	beside(t, 105)
	const keys, messages, poison = 1000, 100_000, 2000
	c := newCrew(t, &plan{
		site: kafkaSite(t, "&session=6s&heartbeat=500ms&partitions=8"), dir: t.TempDir(), topic: "orders",
		concurrency: 4, parallel: 32,
		lease: 3 * time.Second, work: 4 * time.Millisecond,
		odds: []string{"-odds-slow", "20", "-odds-retry", "200", "-odds-release", "50", "-odds-dead", "20"},
	})
	// All messages are there at once, and handlers take all the time that the machine
	// has: a commit waits for its turn, the first one of a process for its join, too.
	c.book.slack = busySlack
	var lines strings.Builder
	for n := range messages {
		lines.WriteString(c.book.line(keys, map[bool]string{true: "kill-parent"}[n == poison]))
	}
	began := time.Now()
	c.join()
	over := make(chan struct{})
	var keeper sync.WaitGroup
	keeper.Go(func() { c.keep(2, over) })
	r := c.plan.site.mustWith(t, strings.NewReader(lines.String()), "send", c.plan.topic, "--jsonl")
	if n, err := parseCounted(r.stdout); err != nil || n.Appended != messages {
		t.Errorf("%d messages sent: %v", messages, r)
	}
	c.drained(3 * time.Minute)
	close(over)
	keeper.Wait()
	took := time.Since(began).Round(100 * time.Millisecond)
	f := c.finish(fmt.Sprintf("%d keys, all within %v, %d processes killed by a message", keys, took,
		len(c.lives)-2))
	if id := fmt.Sprintf("m%06d", poison); !c.book.dead[id] || f.counts["dead without a verdict"] != 1 {
		t.Errorf("%s is no dead letter, or not the only one that no handler gave up: %v", id, f.counts)
	}
	if kills := len(c.lives) - 2; kills < 3 {
		t.Errorf("the poison is dead after %d kills, which is no three lonely ones", kills)
	}
}

// keep sees to it that there are so many members, until over is closed.
func (c *crew) keep(members int, over <-chan struct{}) {
	for {
		for len(c.at) < members {
			c.join()
		}
		select {
		case <-over:
			return
		case <-time.After(10 * time.Millisecond):
		}
		for i := len(c.at) - 1; i >= 0; i-- {
			if !c.at[i].alive() {
				c.at[i].killAll() // its programs
				c.remove(i).ended = journal.Now()
			}
		}
	}
}
