//go:build linux

package crash

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestKafkaLimitLowered: a broker that takes hardly any metadata with a commit.
// Offsets are committed without it, and after a kill nothing is lost: what is behind
// a message that is stuck is repeated.
func TestKafkaLimitLowered(t *testing.T) {
	beside(t, 58)
	kafkaBroker(t)
	v := ownService(t, "kafka", "PAWL_KAFKA_PROPERTIES=offset.metadata.max.bytes=16")
	c := newCrew(t, &plan{
		site: kafkaSiteAt(t, v.address("PAWL_TEST_KAFKA"), "&session=6s&heartbeat=500ms&partitions=1"),
		dir:  t.TempDir(), topic: "orders", concurrency: 2, parallel: 8,
		lease: 30 * time.Second, work: time.Millisecond, odds: []string{},
	})
	c.book.brokers = true // more than a commit interval is repeated
	const messages, stuck = 500, 100
	var lines strings.Builder
	for n := range messages {
		line := c.book.line(messages, map[bool]string{true: "sleep"}[n == stuck])
		lines.WriteString(strings.Replace(line, `"do":"sleep"`, `"do":"sleep","seconds":30`, 1))
	}
	c.plan.site.mustWith(t, strings.NewReader(lines.String()), "send", c.plan.topic, "--jsonl")
	c.join()
	eventually(t, 30*time.Second, "all but one are carried out", func() bool {
		time.Sleep(50 * time.Millisecond)
		return c.ended() == messages-1
	})
	time.Sleep(2 * commitInterval)
	if f := c.plan.site.topic(t, c.plan.topic); f.AckedTotal != stuck {
		t.Errorf("the offset of what is stuck is %d: %+v", stuck, f)
	}
	const setting = "offset.metadata.max.bytes"
	if r := c.plan.site.run(t, nil, "kafka", "health"); r.code != codeFound ||
		!strings.Contains(r.stdout, "16 bytes of metadata") || !strings.Contains(r.stdout, setting) {
		t.Errorf("pawl kafka health says nothing of it: %v", r)
	}
	if said := c.at[0].tail(1 << 20); strings.Count(said, setting) != 1 {
		t.Errorf("the worker is to say it once:\n%s", said)
	}
	c.kill(0)
	c.join()
	c.drained(time.Minute)
	f := c.finish(fmt.Sprintf("offset.metadata.max.bytes of 16, one killed while a message was stuck with %d behind it",
		messages-stuck-1))
	if n := f.counts["repeated after a kill"] + f.counts["repeated"]; n < messages-stuck-100 || n > messages-stuck {
		t.Errorf("%d were repeated, want about those behind what was stuck", n)
	}
}
