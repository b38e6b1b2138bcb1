//go:build linux

package crash

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestKafkaAway: the broker is killed while a producer writes messages of a thousand
// keys, and is away for a while. What it does not take waits in the fallback store,
// and is brought back without a hand, in the order of every key; nothing that comes
// later overtakes it.
func TestKafkaAway(t *testing.T) {
	beside(t, 60)
	kafkaBroker(t)
	const keys, partitions, topic = 1000, 4, "orders"
	v := ownService(t, "kafka")
	beside := "sqlite:" + filepath.Join(t.TempDir(), "spill.db")
	c := newCrew(t, &plan{site: kafkaSiteAt(t, v.address("PAWL_TEST_KAFKA"),
		fmt.Sprintf("&partitions=%d&patience=2s&fallback=%s", partitions, beside)), topic: topic})
	spilled := func() int64 {
		return (&site{name: "sqlite", url: beside}).topic(t, "spill."+topic).open()
	}
	producer := c.feed(keys, time.Millisecond)
	time.Sleep(3 * time.Second)
	v.do("kill", "kafka")
	time.Sleep(plannedFor(t, 12*time.Second))
	most := spilled()
	if most == 0 {
		t.Error("nothing is in the fallback store")
	}
	v.do("start", "kafka")
	producer.pace <- 5 * time.Millisecond // else slow cores may never catch up
	back := time.Now()
	if !within(time.Minute, func() bool { time.Sleep(300 * time.Millisecond); return spilled() == 0 }) {
		t.Fatalf("%v after the broker's return %d messages are still in the fallback store; the producer says: %s",
			time.Since(back).Round(time.Second), spilled(), producer.send.tail(2000))
	}
	took := time.Since(back)
	time.Sleep(time.Second) // what comes now goes to the topic
	producer.end()

	place, twice, inverted := map[string]int{}, 0, 0
	for p := range partitions {
		r := c.plan.site.must(t, "kafka", "peek", topic, "--partition", fmt.Sprint(p), "--offset", "0",
			"-n", fmt.Sprint(2*c.book.count), "-o", "jsonl")
		for n, line := range strings.Split(strings.TrimSpace(r.stdout), "\n") {
			var m struct{ ID string }
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			if place[m.ID] > 0 {
				twice++
				continue
			}
			place[m.ID] = n + 1
		}
	}
	for key, ids := range c.book.keys {
		last := 0
		for _, id := range ids {
			if place[id] == 0 {
				t.Errorf("%s of %s is lost", id, key)
			}
			if place[id] < last {
				inverted++
				t.Errorf("%s of %s was overtaken", id, key)
			}
			last = max(last, place[id])
		}
	}
	if dead := c.plan.site.dead(t, topic); len(dead) > 0 {
		t.Errorf("%d messages are dead letters", len(dead))
	}
	t.Logf("the broker away while %d messages of %d keys came: at the end of it %d were in the fallback store, none %v after its return; lost %d, overtaken %d, twice %d",
		c.book.count, keys, most, took.Round(100*time.Millisecond), c.book.count-len(place), inverted, twice)
}
