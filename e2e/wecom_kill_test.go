//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestWecomSurvivesKills kills two daemons in turn while customers write. Every message is answered, in its
// order, once.
func TestWecomSurvivesKills(t *testing.T) {
	if os.Getenv("PAWL_SOAK") == "" {
		t.Skip("half a minute of kills; PAWL_SOAK=1 runs it")
	}
	t.Parallel()
	const kills, users, burst = 3, 10, 5 // WeCom takes five replies since a customer's last message
	in := newIncident(t, "")
	wecomSim("--fault send_delay=5")(in)
	// The answer repeats the text of the message, which is the only member of that name.
	in.write("answer.sh", `
sed 's/.*"content":"\([^"]*\)".*/{"replies":[{"msgtype":"text","text":{"content":"\1"}}]}/'
`)
	daemons := []*exec.Cmd{in.up(), in.up()}
	for k := range kills {
		in.must(fmt.Sprintf(`curl -fsS $(cat sim.address)/control/message `+
			`-d '{"user": "wm", "text": "round %d", "users": %d, "count": %d}'`, k, users, burst))
		time.Sleep(200 * time.Millisecond) // so that some are on their way
		_ = daemons[k%2].Process.Kill()
		_ = daemons[k%2].Wait()
		daemons[k%2] = in.up()
		in.awaitAnswers((k + 1) * users * burst)
	}
	for user, got := range in.answers() {
		var want []string
		for k := range kills {
			for n := range burst {
				want = append(want, fmt.Sprintf("round %d %d", k, n+1))
			}
		}
		if strings.Join(got, "; ") != strings.Join(want, "; ") {
			t.Errorf("%s got %q", user, got)
		}
	}
}

// answers are what the simulator was sent, by user.
func (in *incident) answers() map[string][]string {
	in.Helper()
	resp, err := http.Get("http://" + string(read(in.T, in.dir+"/sim.address")) + "/truth")
	if err != nil {
		in.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	var truth struct {
		Sent []struct {
			User string `json:"touser"`
			Body struct {
				Text struct {
					Content string `json:"content"`
				} `json:"text"`
			} `json:"body"`
		} `json:"sent"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&truth); err != nil {
		in.Fatal(err)
	}
	all := map[string][]string{}
	for _, one := range truth.Sent {
		all[one.User] = append(all[one.User], one.Body.Text.Content)
	}
	return all
}

func (in *incident) awaitAnswers(least int) {
	in.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		n := 0
		for _, got := range in.answers() {
			n += len(got)
		}
		if n >= least {
			return
		}
		if time.Now().After(end) {
			in.Fatalf("%d of %d messages were answered", n, least)
		}
	}
}
