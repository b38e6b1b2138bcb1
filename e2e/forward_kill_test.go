//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// forwarded is what the simulator says of the messages that the bot sent.
type forwarded struct {
	Twice     int `json:"twice"`
	OverLimit int `json:"over_limit"`
	Messages  []struct {
		Chat     int64 `json:"chat"`
		Original int64 `json:"original"`
	} `json:"messages"`
}

// TestForwardSurvivesKills kills two daemons in turn while messages come. None is lost, none is out of order,
// and twice are at most those that were on their way.
func TestForwardSurvivesKills(t *testing.T) {
	t.Parallel()
	const kills, each, chats, slots = 4, 40, 5, 16
	in := newIncident(t, "")
	simulate(in, "--limits off --fault latency=5ms")
	in.write("pawl.yaml", strings.Replace(string(read(t, in.dir+"/pawl.yaml")), "token", "limits: off, token", 1))
	for i := range chats {
		in.must(fmt.Sprintf("pawl forward rules add --from %d --to %d -q", -1000000000001-i, -1000000000006-i))
	}
	daemons := []*exec.Cmd{in.up(), in.up()}
	for k := range kills {
		for i := range chats {
			in.must(
				fmt.Sprintf(
					`curl -fsS $(cat sim.address)/control/message -d '{"chat": %d, "from": 2001, "text": "m", "count": %d}'`,
					-1000000000001-i, each))
		}
		time.Sleep(300 * time.Millisecond) // so that some are on their way
		_ = daemons[k%2].Process.Kill()
		_ = daemons[k%2].Wait()
		daemons[k%2] = in.up()
	}
	var got forwarded
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		got = in.truth()
		if len(got.Messages)-got.Twice >= kills*each*chats {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d messages were sent", len(got.Messages)-got.Twice, kills*each*chats)
		}
	}
	if got.Twice > kills*slots {
		t.Errorf("%d messages were sent twice", got.Twice)
	}
	by := map[int64][]int64{}
	for _, m := range got.Messages {
		if !slices.Contains(by[m.Chat], m.Original) {
			by[m.Chat] = append(by[m.Chat], m.Original)
		}
	}
	for chat, ids := range by {
		if len(ids) != kills*each || !slices.IsSorted(ids) {
			t.Errorf("chat %d got %d messages; in order: %v", chat, len(ids), slices.IsSorted(ids))
		}
	}
}

// up starts a daemon beside others.
func (in *incident) up() *exec.Cmd {
	in.Helper()
	cmd := exec.Command("pawl", "up", "--listen", "127.0.0.1:0")
	cmd.Dir, cmd.Env = in.dir, in.env
	if err := cmd.Start(); err != nil {
		in.Fatal(err)
	}
	in.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

func (in *incident) truth() (got forwarded) {
	in.Helper()
	resp, err := http.Get("http://" + string(read(in.T, in.dir+"/sim.address")) + "/truth?messages=1")
	if err != nil {
		in.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		in.Fatal(err)
	}
	return got
}
