//go:build unix

package e2e

import "fmt"

// late are faults by which work is late, and of which more workers are no remedy.
func late() map[string]fault {
	return map[string]fault{
		"PawlHandlersLate": {
			config: "topics: {mail: {handler: exec, command: sh ./handle.sh, concurrency: 2, deadline: 10s}}\n",
			cause: func(in *incident) {
				behaves("sleep 60\n")(in)
				in.send(3, "mail")
				depth(in, "leased", 2)
			},
			mendAt: "3.", mend: behaves(good),
			unproved: "it is an average over minutes, and one scrape may come when no handler is late",
		},
		"PawlHotKey": {
			config: obeys,
			cause: func(in *incident) {
				behaves("while [ ! -e mended ]; do sleep 0.1; done\n")(in)
				in.must(
					`for i in $(seq 60); do echo "{\"id\":\"m$i\",\"key\":\"k\",\"body\":\"$i\"}"; done | pawl send mail --jsonl -q`)
				in.until("curl -sS "+in.address+"/metrics", `pawl_queue_top_key_ratio{topic="mail"} 1`)
			},
			mend: func(in *incident) {
				behaves(good)(in)
				in.write("mended", "")
			},
			unproved: "a minute of age takes a minute",
		},
		"PawlThrottled": {config: obeys, cause: func(in *incident) {
			behaves("echo 429 Too Many Requests >&2; exit 69\n")(in)
			in.send(8, "mail")
			in.until(
				fmt.Sprintf(
					`curl -sS %s/metrics | awk '/^pawl_deliveries_given_back_total.topic="mail"/ {if ($2 >= 8) print "enough"}'`,
					in.address), "enough")
			depth(in, "delayed", 5)
		}, mendAt: "3.", mend: behaves(good)},
	}
}

// acksAll is a program that acks every delivery.
const acksAll = `sed -u 's/.*"id":"\([^"]*\)".*"token":"\([^"]*\)".*/{"id":"\1","token":"\2","verdict":"ack"}/'` + "\n"

// crashes are faults of what ends again and again, and of a store that is not what it was.
func crashes() map[string]fault {
	return map[string]fault{
		"PawlProgramCrashLoop": {
			config: "topics: {mail: {handler: pipe, command: sh ./handle.sh, concurrency: 1}}\n",
			cause: func(in *incident) {
				behaves("read -r line; echo out of memory >&2; exit 3\n")(in)
				in.send(4, "mail")
				in.until(
					fmt.Sprintf(
						`curl -sS %s/metrics | awk '/^pawl_program_restarts_total.reason="crashed"/ {if ($2 >= 4) print "enough"}'`,
						in.address), "enough")
			},
			mendAt: "3.", mend: behaves(acksAll),
		},
		"PawlDaemonCrashLoop": {
			config: "topics: {mail: {handler: exec, command: kill -9 $PPID, concurrency: 1, lease: 1s}}\n",
			down:   true,
			cause: func(in *incident) {
				in.send(1, "mail")
				for range 2 { // it may be gone before it was seen to be ready
					_, _ = in.sh("daemon start --listen " + in.address)
					in.must("daemon gone")
				}
			},
			mendAt: "3.", mend: func(in *incident) { in.write("pawl.yaml", obeys); behaves(good)(in); in.start() },
			unproved: "one scrape shows one start",
		},
		"PawlStoreWentBack": {
			config: obeys,
			cause: func(in *incident) {
				behaves(good)(in)
				in.send(1, "mail")
				in.until("pawl topics ls mail -o json", `…"leased":0…"acked_total":1…`)
				in.until("pawl workers ls", "…alive mail…")
				in.must("pawl migrate down --to 0 --yes -q && pawl migrate up -q")
				in.until("curl -sS "+in.address+"/metrics", "pawl_store_went_back_total 1")
				in.send(2, "mail")
			},
		},
	}
}
