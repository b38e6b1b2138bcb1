//go:build unix

package e2e

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// faulty is a daemon in which much goes wrong at once, a topic each.
const faulty = `listen: 127.0.0.1:0
api: { listen: "127.0.0.1:0" }
limits: { api: { rate: 1/h } }
topics:
  paused: { handler: exec, command: cat }
  dead: { handler: exec, command: "cat >/dev/null; echo no such host >&2; exit 65" }
  storm: { handler: exec, command: "cat >/dev/null; echo no such host >&2; exit 75" }
  throttled: { handler: exec, command: "cat >/dev/null; echo 429 Too Many Requests >&2; exit 69" }
  limited: { handler: exec, command: cat, limits: [api] }
  hot: { handler: exec, command: sleep 60, order: key, concurrency: 2 }
  late: { handler: exec, command: sleep 60, deadline: 10s, concurrency: 2 }
  full: { handler: exec, command: sleep 60, concurrency: 1, max_waiting: 2 }
`

// TestTheConsoleNamesFaults causes twelve faults, and wants a page of the runbook about each on the overview.
func TestTheConsoleNamesFaults(t *testing.T) {
	t.Parallel()
	in := newIncident(t, faulty)
	base := in.startConsole()
	in.must(`pawl work gone --exec cat >/dev/null 2>&1 & echo $! >work.pid`)
	in.must(`send() { for i in $(seq $2); do echo "{\"body\":\"$i\",\"key\":\"$3\"}"; done | sed 's/,"key":""//' | pawl send $1 --jsonl -q; }
		send paused 1; pawl topics pause paused --reason "the server moves" -q
		for topic in dead storm throttled limited; do send $topic 8; done
		send hot 60 k; send late 3; send full 1; sleep 1; send full 2; send nobody 1
		pawl topics set reports --max-waiting 2 -q; pawl schedules put poll --every 1s --topic reports -q`)
	in.until("pawl workers ls", "…gone…")
	in.must("kill -KILL $(cat work.pid)")
	in.write("pawl.yaml", strings.Replace(faulty, "max_waiting", "max_wating", 1))
	// The console asks the doctor once a minute, beginning with the first look at the overview.
	in.until(`pawl doctor -o json 2>/dev/null | grep -oE 'Pawl(Down|RetryStorm|Throttled|HotKey|ConfigNotReloaded|TopicUnserved)"' |
		sort -u | wc -l`, "6")
	wanted := []string{"PawlTopicPaused", "PawlDeadLetters", "PawlRetryStorm", "PawlThrottled", "PawlTopicStalled",
		"PawlHotKey", "PawlHandlersLate", "PawlBacklogOld", "PawlTopicUnserved", "PawlDown", "PawlConfigNotReloaded",
		"PawlScheduleStandsStill"}
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(time.Second) {
		page := overviewOf(t, base)
		wanted = slices.DeleteFunc(wanted, func(name string) bool { return strings.Contains(page, "/runbook/"+name+`"`) })
		if len(wanted) == 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the overview does not name %q; it says:\n%s", wanted,
				regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, " "))
		}
	}
}

// overviewOf is what the overview says that needs attention.
func overviewOf(t *testing.T, base string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = got.Body.Close() }()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), `<ul class="attention">`)
	list, _, _ = strings.Cut(list, "</ul>")
	return list
}
