//go:build linux

package crash

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/e2e/worker/journal"
)

// TestUrgent appends messages of priority 100 to a topic with a long tail of bulk,
// and counts how many of the bulk are begun before them.
func TestUrgent(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *site) {
		for _, c := range []struct {
			concurrency int
			work        time.Duration
			bulk        int
		}{
			{1, 5 * time.Millisecond, 10_000}, {4, 5 * time.Millisecond, 10_000}, {1, 0, 50_000}, {4, 0, 50_000},
		} {
			t.Run(fmt.Sprintf("%dx%v", c.concurrency, c.work), func(t *testing.T) {
				urgent(t, s, c.concurrency, c.work, c.bulk)
			})
		}
	})
}

func urgent(t *testing.T, s *site, concurrency int, work time.Duration, bulk int) {
	topic := strings.ReplaceAll(t.Name(), "/", ".")
	producer := startResident(t, s)
	sent := 0
	send := func(more int) {
		for most := sent + more; sent < most; sent += 5_000 {
			if _, _, err := producer.send(topic, fmt.Sprint(topic, "-", sent), 0, 5_000, "-"); err != nil {
				t.Fatal(err)
			}
		}
	}
	send(bulk)
	folder := t.TempDir()
	f := launch(t, s.env(), nil, nil, "work", topic, "--pipe", pipeCommand(folder, "-work", work.String()),
		"--concurrency", fmt.Sprint(concurrency))
	eventually(t, 20*time.Second, "work begins", func() bool { return len(started(t, folder)) > 20*concurrency })
	const times = 5
	appended := map[string]time.Duration{}
	for n := range times {
		if work == 0 {
			send(bulk / times) // they are carried out faster than this test may look
		}
		id := fmt.Sprint("urgent-", topic, n)
		_, after, err := producer.send(topic, id, 100, 1, "-")
		if err != nil {
			t.Fatal(err)
		}
		appended[id] = after
		eventually(t, 20*time.Second, id+" is begun", func() bool { return begun(t, folder, id) })
	}
	left := s.topic(t, topic).open()
	f.killAll()
	all := started(t, folder)
	worst, slowest, behind := 0, time.Duration(0), math.MaxInt
	for id, after := range appended {
		before, later := 0, int(left)
		for other, at := range all {
			switch {
			case strings.HasPrefix(other, "urgent"):
			case at > all[id]:
				later++
			case at > after:
				before++
			}
		}
		worst, slowest, behind = max(worst, before), max(slowest, all[id]-after), min(behind, later)
	}
	t.Logf("priority 100 before %d of bulk, %d program(s), handler %v: at most %d begun before it, %v after its append had returned",
		behind, concurrency, work, worst, slowest.Round(10*time.Microsecond))
	// While the claim is on its way, each program may begin one more. With a handler
	// that does nothing, that is a matter of time rather than of number.
	if worst > int(bound(float64(concurrency))) && (work > 0 || slowest > bound(20*time.Millisecond)) {
		t.Errorf("%d messages of the bulk were begun before one of priority 100", worst)
	}
	if behind < 100 {
		t.Errorf("only %d of the bulk came behind one of priority 100: that shows nothing", behind)
	}
}

// begun reports whether a message was begun. It decodes nothing: while the journals of 100,000 messages are decoded,
// programs that do nothing carry out all that is left.
func begun(t *testing.T, folder, id string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.journal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte(`"ID":"`+id+`"`)) {
			return true
		}
	}
	return false
}

// TestStarve lets more urgent messages come than can be carried out, and looks
// whether bulk gets its turn when it has waited for as long as a hundred points of
// priority are worth.
func TestStarve(t *testing.T) {
	onEachStore(t, func(t *testing.T, s *site) {
		const (
			topic  = "starve"
			ageing = 30 * time.Millisecond
			worth  = 100 * ageing
			bulk   = 20
			stream = 8 * time.Second
			tick   = 50 * time.Millisecond
			each   = 13 // 260/s; the program carries out 200/s at most
		)
		s.must(t, "topics", "set", topic, "--ageing", ageing.String())
		folder := t.TempDir()
		launch(t, s.env(), nil, nil, "work", topic, "--pipe", pipeCommand(folder), "--concurrency", "1")
		producer := startResident(t, s)
		const sleep = `{"do":"sleep","seconds":0.005}`
		send := func(id string, priority, n int) time.Duration {
			_, after, err := producer.send(topic, id, priority, n, sleep)
			if err != nil {
				t.Fatal(err)
			}
			return after
		}
		send("first", 100, 100)
		began := send("bulk", 0, bulk)
		for n := 0; journal.Now()-began < stream; n++ {
			time.Sleep(time.Until(time.Now().Add(tick))) // the rate of the stream
			send(fmt.Sprint("urgent", n), 100, each)
		}
		var waits []time.Duration
		for id, at := range started(t, folder) {
			if strings.HasPrefix(id, "bulk-") {
				waits = append(waits, at-began)
			}
		}
		behind := s.topic(t, topic).open()
		t.Logf("%d of bulk under a stream of priority 100 above capacity (%d were behind at its end), 100 points worth %v: begun %v to %v after their append",
			bulk, behind, worth, quantile(waits, 0), quantile(waits, 1))
		switch {
		case len(waits) < bulk:
			t.Errorf("%d of %d were never begun in %v", bulk-len(waits), bulk, stream)
		case slices.Max(waits) > worth+bound(worth):
			t.Errorf("the last one waited for %v; it was worth the highest priority after %v", slices.Max(waits), worth)
		case slices.Min(waits) < worth/2:
			t.Errorf("one was begun after %v already, in spite of a stream of higher priority", slices.Min(waits))
		case behind < 100:
			t.Errorf("only %d were behind at the end: the stream was no burden", behind)
		}
	})
}
