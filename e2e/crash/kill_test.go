//go:build linux

package crash

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/e2e/worker/journal"
)

// TestOneKill kills one of two busy workers once. What it had in hand is carried out
// within a lease and 15 s, and the other one goes on as before.
func TestOneKill(t *testing.T) {
	besideUnless(t, strict(), 24)
	onEachStore(t, oneKill)
}

func oneKill(t *testing.T, s *site) {
	t.Parallel()
	const slots, lease, calm, after = 150, 5 * time.Second, 6 * time.Second, 14 * time.Second
	topic := strings.ReplaceAll(t.Name(), "/", ".")
	var lines strings.Builder
	for n := range 2*slots*int((calm+after)/time.Second) + slots {
		fmt.Fprintf(&lines, `{"id":"%s.%d","body":"{}"}`+"\n", topic, n)
	}
	s.mustWith(t, strings.NewReader(lines.String()), "send", topic, "--jsonl")
	folders := [2]string{}
	nodes := [2]*family{}
	for i := range nodes {
		folders[i] = filepath.Join(t.TempDir(), fmt.Sprint(i))
		if err := os.Mkdir(folders[i], 0o700); err != nil {
			t.Fatal(err)
		}
		nodes[i] = launch(t, s.env(), nil, nil, "work", topic,
			"--pipe", pipeCommand(folders[i], "-work", "1s", "-parallel", fmt.Sprint(slots)),
			"--concurrency", fmt.Sprint(slots), "--lease", lease.String())
		defer nodes[i].killAll()
	}
	time.Sleep(calm)
	kill := journal.Now()
	nodes[0].killAll()
	<-nodes[0].exited
	time.Sleep(after)
	end := journal.Now()
	nodes[1].killAll()
	<-nodes[1].exited

	dead, alive := ended(t, folders[0]), ended(t, folders[1])
	taken := started(t, folders[0])
	last, missing := time.Duration(0), 0
	for id := range taken {
		if _, over := dead[id]; over {
			continue // its ack may have been lost, and nobody has to do it again
		}
		if at, over := alive[id]; over {
			last = max(last, at-kill)
		} else {
			missing++
		}
	}
	rate := func(from, to time.Duration) float64 {
		n := 0
		for _, at := range alive {
			if at >= from && at < to {
				n++
			}
		}
		return float64(n) / (to - from).Seconds()
	}
	before, since := rate(kill-calm/2, kill), rate(kill+time.Second, end-time.Second)
	if missing > 0 {
		t.Errorf("%d of what the dead worker had in hand is not done after %v", missing, after)
	}
	if last > lease+15*time.Second {
		t.Errorf("the last of what the dead worker had in hand is done %v after the kill", last)
	}
	if since < 0.85*before {
		t.Errorf("the other worker did %.0f/s before and %.0f/s after the kill", before, since)
	}
	t.Logf("1 kill of 2 workers with %d slots: the last of %d in hand is done after %v, lease %v; the other worker does %.0f/s before and %.0f/s after",
		slots, len(taken)-len(dead), last.Round(100*time.Millisecond), lease, before, since)
}

// started is when messages were first begun by the workers of a folder.
func started(t *testing.T, folder string) map[string]time.Duration {
	return first(t, folder, journal.Start)
}

// ended is when messages were first done by them.
func ended(t *testing.T, folder string) map[string]time.Duration {
	return first(t, folder, journal.End)
}

func first(t *testing.T, folder, what string) map[string]time.Duration {
	t.Helper()
	lines, err := journal.ReadAll(folder)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]time.Duration{}
	for _, l := range lines {
		if at, there := found[l.ID]; l.What == what && (!there || l.At < at) {
			found[l.ID] = l.At
		}
	}
	return found
}
