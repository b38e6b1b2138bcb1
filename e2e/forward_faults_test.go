//go:build unix

package e2e

import (
	"fmt"
	"strings"
)

// telegram are troubles of a pipeline of the kind forward, beside a simulator.
func telegram() map[string]fault {
	const late = "minutes of lateness take minutes"
	waits := func(in *incident) {
		in.fill["TOPIC"] = "tg.send"
		in.must("pawl forward rules add --from -1000000000001 --to 2001 --priority vip -q")
		write(in, 6)
		in.until("pawl pipelines ls -o json", `…"waiting":…`)
		in.until(metric(in, "forward_wait_seconds_count"), "high")
	}
	return map[string]fault{
		"PawlForwardUrgentLate": {store: simulated, cause: waits, unproved: late},
		"PawlForwardStarved":    {store: simulated, cause: waits, unproved: late},
		"PawlForwardLimitPinned": {store: slow, cause: func(in *incident) {
			var targets strings.Builder
			for i := range 9 {
				fmt.Fprintf(&targets, " --to %d", -1000000000002-i)
			}
			in.must("pawl forward rules add --from -1000000000001 -q" + targets.String())
			write(in, 5)
			in.until(metric(in, "forward_limit_pinned"), `…} 1`)
		}},
		"PawlForwardDeaf": {store: simulated, cause: func(in *incident) {
			in.until(metric(in, "forward_leader"), `…} 1`)
			in.calm = in.scrape()
			in.must("kill $(cat sim.pid)")
			in.until(metric(in, `'forward_poll_errors_total.*} [1-9]'`), "tg")
		}, mend: startSim},
	}
}

// slow is a bot that may send four messages a second.
func slow(in *incident) {
	in.Helper()
	simulate(in, "--limits off")
	limits := "limits: {all: 4/s, chat: 100/s, group: 100/s}, token"
	in.write("pawl.yaml", strings.Replace(string(read(in.T, in.dir+"/pawl.yaml")), "token", limits, 1))
}

// simulated starts a simulator, and has the daemon use it.
func simulated(in *incident) { in.Helper(); simulate(in, "") }

func simulate(in *incident, flags string) {
	in.Helper()
	address := freeAddress(in.T)
	in.write("sim.address", address)
	in.write("pawl.yaml", fmt.Sprintf(`pipelines: {tg: {kind: forward, token: "777:SIM", api_url: "http://%s"}}`+"\n",
		address))
	in.Cleanup(func() { in.sh("kill $(cat sim.pid)") })
	in.write("sim.flags", flags)
	startSim(in)
}

func startSim(in *incident) {
	in.Helper()
	in.must("pawl forward sim --listen $(cat sim.address) $(cat sim.flags) >sim.log 2>&1 & echo $! >sim.pid")
	in.until("curl -sS $(cat sim.address)/truth", `…"calls"…`)
}

// write writes messages in the first chat.
func write(in *incident, n int) {
	in.Helper()
	in.must(
		fmt.Sprintf(
			`curl -fsS $(cat sim.address)/control/message -d '{"chat": -1000000000001, "from": 2001, "text": "m", "count": %d}'`,
			n))
}

func metric(in *incident, name string) string {
	return strings.Join([]string{"curl -sS", in.address + "/metrics | grep ^" + name}, " ")
}
