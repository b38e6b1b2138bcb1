//go:build linux

package crash

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/e2e/worker/journal"
)

// kafkaSite is a store at the broker of dev/services that nobody else uses: topics
// and a group of its own. Options are those of the URL.
func kafkaSite(t *testing.T, options string) *site {
	t.Helper()
	return kafkaSiteAt(t, kafkaBroker(t), options)
}

// kafkaBroker is where the broker of dev/services is; without it the test is
// skipped.
func kafkaBroker(t *testing.T) string {
	t.Helper()
	broker := os.Getenv("PAWL_TEST_KAFKA")
	if broker == "" {
		if slices.Contains(strings.Split(os.Getenv("PAWL_TEST_REQUIRE"), ","), "kafka") {
			t.Fatal("PAWL_TEST_KAFKA is not set, and PAWL_TEST_REQUIRE asks for it")
		}
		t.Skip("PAWL_TEST_KAFKA is not set; dev/services run kafka -- go test …")
	}
	return broker
}

func kafkaSiteAt(t *testing.T, broker, options string) *site {
	t.Helper()
	name := fmt.Sprintf("crash%d-%d", os.Getpid(), time.Now().UnixNano())
	return &site{name: "kafka", dir: t.TempDir(), url: fmt.Sprintf("kafka://%s?group=%s&prefix=%s.%s", broker, name,
		name, options)}
}

// TestKafkaPoison: what kills its process is found through what was committed, by
// whoever gets the partition, and is a dead letter after three lonely tries. A
// member that died is missed after a session of six seconds, the least that a
// broker allows.
func TestKafkaPoison(t *testing.T) {
	beside(t, 60)
	for _, normal := range []int{500, 0} {
		t.Run(fmt.Sprintf("among %d", normal), func(t *testing.T) {
			t.Parallel()
			poison(t, kafkaSite(t, "&session=6s&heartbeat=500ms&partitions=4"),
				mix{normal: normal, poisons: 1, slots: 4, work: 2 * time.Millisecond, lease: time.Second})
		})
	}
}

// TestKafkaKilled: processes of a group are killed while they work, and started
// again. Nothing is lost, a key is carried out in its order, and what is repeated
// of finished work is what a second of it is, and what was in hand.
func TestKafkaKilled(t *testing.T) {
	beside(t, 28)
	const keys, rounds, topic = 50, 60, "orders"
	r := seed(t)
	s := kafkaSite(t, "&session=6s&heartbeat=500ms&partitions=6")
	var lines strings.Builder
	for n := range rounds {
		for k := range keys {
			fmt.Fprintf(&lines, `{"id":"k%d/%d","key":"k%d","body":"{}"}`+"\n", k, n, k)
		}
	}
	s.mustWith(t, strings.NewReader(lines.String()), "send", topic, "--jsonl")
	folder := t.TempDir()
	rise := func() *family {
		return launch(t, s.env(), nil, nil, "work", topic, "--pipe", pipeCommand(folder, "-work", "20ms",
			"-parallel", "4"), "--order", "key", "--concurrency", "8", "--lease", "5s")
	}
	nodes, kills := []*family{rise(), rise()}, 0
	for began := time.Now(); time.Since(began) < plannedFor(t, 12*time.Second); {
		time.Sleep(3 * time.Second)
		i := r.IntN(len(nodes))
		nodes[i].killAll()
		<-nodes[i].exited
		kills++
		nodes[i] = rise()
	}
	// What was in hand at the last deaths is tried alone, when they are ten leases old.
	done := within(90*time.Second, func() bool {
		time.Sleep(500 * time.Millisecond)
		return s.topic(t, topic).open() == 0
	})
	if !done {
		t.Errorf("not everything is carried out %v after the last kill: %+v", patience(90*time.Second), s.topic(t, topic))
		for _, ask := range [][]string{{"messages", "ls", "--limit", "20"}, {"kafka", "health"}, {"dead", "ls"}, {"doctor"}} {
			t.Logf("pawl %v: %v", ask, s.run(t, nil, ask...))
		}
		for _, n := range nodes {
			t.Logf("a process says: %s", n.tail(2000))
		}
	}
	for _, n := range nodes {
		n.killAll()
		<-n.exited
	}
	judgeKilled(t, folder, keys, rounds, kills)
}

// plannedFor is how long processes are harmed: usually so long, or as long as
// PAWL_SOAK asks for.
func plannedFor(t *testing.T, usually time.Duration) time.Duration {
	t.Helper()
	switch soak := os.Getenv(envSoak); soak {
	case "":
		return usually
	case "1":
		return 2 * time.Minute
	default:
		d, err := time.ParseDuration(soak)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

func judgeKilled(t *testing.T, folder string, keys, rounds, kills int) {
	t.Helper()
	lines, err := journal.ReadAll(folder)
	if err != nil {
		t.Fatal(err)
	}
	ends, starts := map[string]time.Duration{}, map[string][]time.Duration{}
	for _, l := range lines {
		switch l.What {
		case journal.Start:
			starts[l.ID] = append(starts[l.ID], l.At)
		case journal.End:
			if first, ok := ends[l.ID]; !ok || l.At < first {
				ends[l.ID] = l.At
			}
		}
	}
	lost, inverted, again := 0, 0, 0
	for k := range keys {
		for n := range rounds {
			id := fmt.Sprintf("k%d/%d", k, n)
			end, ok := ends[id]
			if !ok {
				lost++
				t.Errorf("%s is lost", id)
				continue
			}
			for _, at := range starts[id] {
				if at > end {
					again++ // it had been finished
				}
			}
			for _, at := range starts[fmt.Sprintf("k%d/%d", k, n+1)] {
				if at < end {
					inverted++
					t.Errorf("k%d/%d began before the end of the one before it", k, n+1)
				}
			}
		}
	}
	// A second's work of a process, eight at once of 20 ms: 400. What a busy machine
	// and a commit on its way make of that, is as much again.
	if limit := 800 * kills; again > limit {
		t.Errorf("%d finished ones were repeated after %d kills", again, kills)
	}
	t.Logf("%d messages over Kafka, %d kills: lost %d, out of order %d, finished and repeated %d", keys*rounds,
		kills, lost, inverted, again)
}
