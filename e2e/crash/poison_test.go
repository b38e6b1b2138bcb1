//go:build linux

package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/e2e/worker/journal"
)

// TestPoison puts messages among others whose handler kills Pawl itself. Each must
// end as a dead letter after four deaths in company and three alone, and none of its
// neighbours.
func TestPoison(t *testing.T) {
	beside(t, 50)
	onEachStore(t, func(t *testing.T, s *site) {
		for _, poisons := range []int{1, 5} {
			t.Run(fmt.Sprint(poisons), func(t *testing.T) {
				t.Parallel()
				poison(t, s, mix{normal: 500, poisons: poisons, slots: 4, work: 2 * time.Millisecond,
					lease: time.Second})
			})
		}
	})
}

// mix is messages of which some are poison, and who carries them out: two workers.
type mix struct {
	normal, poisons, slots int
	work, lease            time.Duration
}

// TestKillers is TestPoison with slow work and many slots, for the figures of ADR 14.
func TestKillers(t *testing.T) {
	if os.Getenv(envSoak) == "" {
		t.Skip("takes minutes; " + envSoak + " is not set")
	}
	onEachStore(t, func(t *testing.T, s *site) {
		for _, poisons := range []int{1, 3, 10} {
			t.Run(fmt.Sprint(poisons), func(t *testing.T) {
				t.Parallel()
				poison(t, s, mix{normal: 500, poisons: poisons, slots: 60, work: time.Second, lease: 5 * time.Second})
			})
		}
	})
}

func poison(t *testing.T, s *site, m mix) {
	topic := strings.ReplaceAll(t.Name(), "/", ".")
	lines, bad := mixture(seed(t), topic, m.normal, m.poisons)
	r := s.mustWith(t, strings.NewReader(lines), "send", topic, "--jsonl")
	if c, err := parseCounted(r.stdout); err != nil || c.Appended != m.normal+m.poisons {
		t.Fatalf("%d messages sent: %v", m.normal+m.poisons, r)
	}
	folder := t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	var nodes sync.WaitGroup
	defer nodes.Wait()
	defer stop()
	for range 2 {
		nodes.Go(func() {
			keepUp(ctx, t, s, "work", topic, "--pipe", pipeCommand(folder, "-work", m.work.String(),
				"-parallel", fmt.Sprint(max(m.slots/4, 1))),
				"--concurrency", fmt.Sprint(m.slots), "--lease", m.lease.String())
		})
	}
	began := time.Now()
	limit := time.Minute + 10*m.lease + time.Duration(m.poisons)*(30*time.Second+m.lease)
	if !within(limit, func() bool { time.Sleep(200 * time.Millisecond); return s.topic(t, topic).open() == 0 }) {
		t.Errorf("after %v there is still: %+v", patience(limit), s.topic(t, topic))
	}
	took := time.Since(began).Round(100 * time.Millisecond)
	stop()
	nodes.Wait()
	judgePoison(t, s, topic, folder, bad, took)
}

// mixture renders the messages, in an order by chance. Some share a key, poison
// with others, too: a lane goes on when its head is dead. Ids are unique in a store,
// not in a topic.
func mixture(r *rand.Rand, topic string, normal, poisons int) (lines string, bad map[string]bool) {
	bad = map[string]bool{}
	var all []string
	for n := range normal {
		key := ""
		if n%2 == 0 {
			key = fmt.Sprintf(`"key":"k%d",`, n%50)
		}
		all = append(all, fmt.Sprintf(`{"id":"%s.n%d",%s"body":"{}"}`, topic, n, key))
	}
	for n := range poisons {
		id := fmt.Sprintf("%s.poison%d", topic, n)
		bad[id] = true
		all = append(all, fmt.Sprintf(`{"id":%q,"key":"k%d","body":{"do":"kill-parent"}}`, id, 2*n))
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return strings.Join(all, "\n") + "\n", bad
}

// keepUp starts a command again whenever it ended.
func keepUp(ctx context.Context, t *testing.T, s *site, args ...string) {
	for ctx.Err() == nil {
		f := launch(t, s.env(), nil, nil, args...)
		select {
		case <-f.exited:
		case <-ctx.Done():
		}
		f.killAll()
		<-f.exited
	}
}

func judgePoison(t *testing.T, s *site, topic, folder string, bad map[string]bool, took time.Duration) {
	t.Helper()
	letters := s.dead(t, topic)
	found := map[string]bool{}
	for _, d := range letters {
		found[d.ID] = true
		if !bad[d.ID] {
			t.Errorf("a neighbour is dead: %+v", d)
		} else if d.Kind != "Rescue" {
			t.Errorf("%s is dead of %q (%s), want Rescue", d.ID, d.Kind, d.Reason)
		}
	}
	lines, err := journal.ReadAll(folder)
	if err != nil {
		t.Fatal(err)
	}
	for id := range bad {
		if !found[id] {
			t.Errorf("%s is not dead: %v\n%+v", id, s.run(t, nil, "messages", "show", id), about(lines, id))
		}
	}
	kills, worst, acked := map[string]int{}, 0, map[string]bool{}
	for _, l := range lines {
		switch {
		case l.What == journal.Dying:
			kills[l.ID]++
			worst = max(worst, kills[l.ID])
		case l.What == journal.End && l.Verdict == "ack":
			acked[l.ID] = true
		}
	}
	f := s.topic(t, topic)
	if f.Dead != int64(len(bad)) || f.AckedTotal != f.AppendedTotal-f.Dead || int64(len(acked)) != f.AckedTotal {
		t.Errorf("workers acked %d; %+v", len(acked), f)
	}
	for id, n := range kills {
		if n < 3 {
			t.Errorf("%s is dead after %d kills, which is no three alone", id, n)
		}
	}
	t.Logf("%d poison among %d: %d dead of kind Rescue, %d neighbours dead, %d acked, at most %d kills for one, all over after %v",
		len(bad), f.AppendedTotal, len(found), len(letters)-len(found)+neighbours(found, bad), f.AckedTotal,
		worst, took)
}

// about are the lines about one message.
func about(lines []journal.Line, id string) (found []journal.Line) {
	for _, l := range lines {
		if l.ID == id {
			found = append(found, l)
		}
	}
	return found
}

func neighbours(found, bad map[string]bool) (n int) {
	for id := range found {
		if !bad[id] {
			n++
		}
	}
	return n
}
