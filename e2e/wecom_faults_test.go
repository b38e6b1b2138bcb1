//go:build unix

package e2e

import "fmt"

// wecom are troubles of a pipeline of the kind wecom, beside a simulator.
func wecom() map[string]fault {
	writes := func(n int) func(*incident) {
		return func(in *incident) {
			in.Helper()
			in.must(fmt.Sprintf(`curl -fsS $(cat sim.address)/control/message -d '{"user": "wm", "users": %d}'`, n))
			in.until("pawl wecom replies ls -o json", `…"state":"sent"…`)
		}
	}
	const late = "what it is about takes minutes"
	paused := func(in *incident) { in.until("pawl pipelines ls", "kefu wecom paused …") }
	mend := func(in *incident) { in.must(`curl -fsS $(cat sim.address)/control/fault -d '{"bad_secret": 0}'`) }
	return map[string]fault{
		"PawlWecomCursorOld":    {store: wecomSim(""), cause: writes(3), unproved: late},
		"PawlWecomCallbackSlow": {store: wecomSim(""), cause: writes(3), unproved: late},
		"PawlWecomToken": {store: wecomSim("--fault bad_secret=1"), cause: paused, mendAt: "2.", mend: mend,
			unproved: late},
		"PawlWecomBudget": {store: wecomSim(""), cause: func(in *incident) {
			writes(12)(in)
			in.until("pawl dead ls --kind WecomBudget", "…WecomBudget…")
		}, unproved: late},
	}
}

// wecomSim starts a simulator, and has the daemon use it. The handler answers with six replies.
func wecomSim(flags string) func(*incident) {
	return func(in *incident) {
		in.Helper()
		address, callback := freeAddress(in.T), freeAddress(in.T)
		in.write("sim.address", address)
		in.write("answer.sh", `
r='{"msgtype":"text","text":{"content":"thanks"}}'
echo "{\"replies\":[$r,$r,$r,$r,$r,$r]}"`+"\n")
		in.write("pawl.yaml", fmt.Sprintf(`pipelines: {kefu: {
  kind: wecom, corp_id: ww0123456789abcdef, secret: sim-secret, token: simtoken,
  encoding_aes_key: jWmYm7qr5nMoAUwZRjGtBxmz3KA1tkAj3ykkR6q2B2C,
  api_url: "http://%s", listen: "%s", handler: {exec: sh ./answer.sh}}}
`, address, callback))
		in.Cleanup(func() { in.sh("kill $(cat sim.pid)") })
		in.must(fmt.Sprintf("pawl wecom sim --listen %s --callback http://%s/wecom/callback %s "+
			">sim.log 2>&1 & echo $! >sim.pid", address, callback, flags))
		in.until("curl -sS $(cat sim.address)/truth", `…"said"…`)
	}
}
