//go:build unix

package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"
)

// fault is the trouble that a page is about.
type fault struct {
	config string
	down   bool            // the daemon is not started before
	store  func(*incident) // another one than SQLite
	cause  func(*incident)
	mend   func(*incident) // what the page leaves to the reader
	mendAt string          // with how the step begins before which it is done; empty: after the last one
	// unproved is why the alert cannot be shown to fire by what the daemon exports.
	unproved string
}

const (
	obeys   = "topics: {mail: {handler: exec, command: sh ./handle.sh, concurrency: 4}}\n"
	patient = "topics: {mail: {handler: exec, command: sh ./handle.sh, concurrency: 4,\n" +
		"  retry: {for: 1h, backoff: {base: 10ms, max: 1s}}}}\n"
	good = "cat > /dev/null\n"
	// limited has a limit called api, which stands before it.
	limited = "topics: {mail: {handler: exec, command: sh ./handle.sh, concurrency: 4, limits: [api]}}\n"
)

// depth waits until the daemon has counted what it carries out.
func depth(in *incident, state string, least int) {
	in.Helper()
	in.until(
		fmt.Sprintf(
			`curl -sS %s/metrics | awk '/^pawl_queue_messages.state="%s",topic="mail"/ {if ($2 >= %d) print "enough"}'`,
			in.address, state, least), "enough")
}

// behaves has the handler do what it does from now on.
func behaves(script string) func(*incident) {
	return func(in *incident) { in.Helper(); in.write("handle.sh", script) }
}

// faults by page.
func faults() map[string]fault {
	all := map[string]fault{
		"PawlDown": {config: obeys, cause: func(in *incident) {
			behaves(good)(in)
			in.send(3, "mail")
			in.must("daemon kill KILL; daemon gone")
		}},
		"PawlTopicUnserved": {
			config: "drain: 100ms\ntopics: {mail: {handler: exec, command: sleep 60, concurrency: 1}, other: {handler: exec, command: 'true'}}\n",
			cause: func(in *incident) {
				in.send(3, "mail")
				depth(in, "waiting", 1)
				in.calm = in.scrape()
				in.must("daemon kill TERM; daemon gone")
				in.write("pawl.yaml", "topics: {other: {handler: exec, command: 'true'}}\n")
				in.start()
			},
			mend: func(in *incident) {
				in.must("daemon kill TERM; daemon gone")
				in.write("pawl.yaml", obeys)
				in.start()
				depth(in, "waiting", 0)
			},
		},
		"PawlBacklogOld": {
			config: "topics: {mail: {handler: exec, command: sleep 0.5, concurrency: 1}}\n",
			cause: func(in *incident) {
				in.send(60, "mail")
				depth(in, "waiting", 20)
			},
			unproved: "five minutes of age take five minutes",
		},
		"PawlDeadLetters": {config: obeys, cause: func(in *incident) {
			behaves(good)(in)
			in.must("pawl send mail first -q")
			depth(in, "dead", 0)
			in.calm = in.scrape()
			behaves("echo no such host >&2; exit 65\n")(in)
			in.send(8, "mail")
			depth(in, "dead", 8)
		}, mendAt: "1.", mend: behaves(good)},
		"PawlRetryStorm": {config: obeys, cause: func(in *incident) {
			behaves("echo no such host >&2; exit 75\n")(in)
			in.fill["KIND"] = "Command"
			in.send(8, "mail")
			depth(in, "delayed", 8)
		}, mendAt: "4.", mend: behaves(good)},
		"PawlRetriedOften": {
			config: patient, cause: func(in *incident) {
				behaves("echo no such host >&2; exit 75\n")(in)
				in.fill["KIND"] = "Command"
				in.send(3, "mail")
				in.until(fmt.Sprintf(
					`curl -sS %s/metrics | awk '/^pawl_deliveries_retried_often_total/ {if ($2 > 0) print "often"}'`,
					in.address), "often")
			}, mendAt: "4.", mend: behaves(good),
		},
		"PawlCriticalFailure": {
			config: obeys +
				"policy: {overrides: [{match: {kind: Command}, retry: false, dead_letter: always, alert: critical}]}\n",
			cause: func(in *incident) {
				in.fill["KIND"] = "Command"
				behaves("echo the vault is open >&2; exit 1\n")(in)
				in.send(3, "mail")
				depth(in, "dead", 3)
			}, mendAt: "1.", mend: behaves(good),
		},
		"PawlConfigNotReloaded": {config: obeys, cause: func(in *incident) {
			in.write("pawl.yaml", strings.Replace(obeys, "concurrency", "concurency", 1))
		}, mendAt: "2.", mend: func(in *incident) {
			in.write("pawl.yaml", obeys)
		}},
	}
	for _, more := range []map[string]fault{standingStill(), brokenPrograms(), brokenServers(), brokenTopics(),
		refusals(), late(), crashes(), unseen(), telegram(), wecom(), projecting(),
		crawling()} {
		maps.Copy(all, more)
	}
	return all
}

// standingStill are topics of which nothing is begun.
func standingStill() map[string]fault {
	return map[string]fault{
		"PawlTopicStalled": {
			config: "limits: {api: {rate: 1/h}}\n" + limited,
			cause: func(in *incident) {
				behaves(good)(in)
				in.send(1, "mail")
				in.until("pawl topics ls mail -o json", `…"leased":0…"acked_total":1…`)
				in.until("curl -sS "+in.address+`/metrics | grep '^pawl_queue_messages.state="waiting",topic="mail"'`,
					"…} 0")
				in.calm = in.scrape()
				in.send(7, "mail")
				depth(in, "waiting", 1)
			},
			mendAt: "2.", mend: func(in *incident) {
				in.write("pawl.yaml", "limits: {api: {rate: 1000/s}}\n"+limited)
				drained(in)
			},
		},
		"PawlNoProgress": {
			config: "limits: {api: {rate: 1/h}}\n" + limited,
			cause: func(in *incident) {
				behaves(good)(in)
				in.send(7, "mail")
				in.until("pawl topics ls mail -o json", `…"leased":0…"acked_total":1…`)
				depth(in, "waiting", 1)
			},
			unproved: "it needs a history of half an hour, and a limit is no fault to it",
			mendAt:   "2.", mend: func(in *incident) {
				in.write("pawl.yaml", "limits: {api: {rate: 1000/s}}\n"+limited)
				drained(in)
			},
		},
		"PawlDeliverySlow": {
			config: "topics: {mail: {handler: exec, command: sleep 0.2, concurrency: 1, objective: 100ms}}\n",
			cause: func(in *incident) {
				in.send(20, "mail")
				in.until("curl -sS "+in.address+"/metrics | grep slow_total", `pawl_deliveries_slow_total{topic="mail"} …`)
			},
			unproved: "it needs a history of an hour",
		},
		"PawlNotReady": {
			config: "topics: {mail: {handler: pipe, command: sh ./handle.sh, concurrency: 1}}\n",
			cause: func(in *incident) {
				behaves("exit 1\n")(in)
				in.send(7, "mail")
				in.until("curl -sS "+in.address+"/readyz", "not ready…")
			},
			mendAt: "1.", mend: behaves(acksAll),
		},
		"PawlScheduleStandsStill": {config: obeys, cause: func(in *incident) {
			in.fill["TOPIC"], in.fill["SCHEDULE"] = "reports", "poll"
			in.must("pawl topics set reports --max-waiting 2")
			in.must("pawl schedules put poll --every 1s --topic reports -q")
			in.until(fmt.Sprintf(
				`curl -sS %s/metrics | awk '/^pawl_schedules_overdue_seconds/ {if ($2 > 31) print "late"}'`,
				in.address), "late")
		}},
		"PawlStateIgnored": {config: obeys +
			"policy: {overrides: [{match: {kind: Command}, alert: error}]}\n", cause: func(in *incident) {
			in.fill["TOPIC"], in.fill["NAME"] = "policy", "quiet"
			in.must(`pawl state put policy quiet '{"match": {"kind": "Command"}, "alert": "error"}' -q`)
			in.must(`pawl state put policy quiet '{"match": {"kind": "Command"}, "alert": "warn"}' -q`)
			in.until(fmt.Sprintf(
				`curl -sS %s/metrics | awk '/^pawl_state_ignored_values.state_topic="policy"/ {if ($2 == 1) print "one"}'`,
				in.address), "one")
		}},
		"PawlTopicPaused": {config: obeys, cause: func(in *incident) {
			behaves(good)(in)
			in.must("pawl send mail first -q")
			in.until("pawl topics ls mail -o json", `…"leased":0…"acked_total":1…`)
			in.calm = in.scrape()
			in.must("pawl topics pause mail --reason 'the server moves' && sleep 1.5")
			in.send(7, "mail")
			depth(in, "waiting", 7)
		}, mend: drained},
	}
}

// refusals are those of a downstream that uses up no attempts.
func refusals() map[string]fault {
	return map[string]fault{
		"PawlAllGivenBack": {config: obeys, cause: func(in *incident) {
			behaves("echo 503 Service Unavailable >&2; exit 69\n")(in)
			in.send(8, "mail")
			in.until(
				fmt.Sprintf(
					`curl -sS %s/metrics | awk '/^pawl_deliveries_given_back_total.topic="mail"/ {if ($2 >= 8) print "enough"}'`,
					in.address), "enough")
			depth(in, "delayed", 1)
		}, mendAt: "3.", mend: behaves(good)},
	}
}

// unseen are faults that cannot be caused from outside: their pages are followed all
// the same.
func unseen() map[string]fault {
	return map[string]fault{
		"PawlZombies": {config: obeys, cause: func(in *incident) {
			behaves(good)(in)
			in.send(1, "mail")
		}, unproved: "a program can be killed; only a handler in Go, or in a dead disk's hands, does not return"},
		"PawlFiguresStale": {config: obeys, cause: func(in *incident) {
			behaves(good)(in)
			in.send(1, "mail")
			depth(in, "waiting", 0)
		}, unproved: "it is about the time of day, which a proof by promtool begins in 1970"},
		"PawlLogsDropped": {
			config: obeys + "logger: {outputs: [{type: console}, {type: file, path: /dev/full}]}\n",
			store:  needsFullDevice,
			cause: func(in *incident) {
				behaves("exit 65\n")(in)
				in.calm = in.scrape()
				in.send(9, "mail")
				in.until("curl -sS "+in.address+"/metrics | grep -E 'log_dropped_total.* ([9]|[1-9][0-9]+)$'",
					`reason="failed",sink="file"`)
			}},
		"PawlLogsLate": {
			config: obeys + "logger: {outputs: [{type: console}, {type: mq, backend: redis, brokers: ['127.0.0.1:1']}]}\n",
			cause:  behaves(good), unproved: "5,000 records take longer to write than a test may",
		},
		"PawlEventsDropped": {config: obeys + "events: {file: /dev/full}\n", store: needsFullDevice,
			cause: func(in *incident) {
				behaves(good)(in)
				in.calm = in.scrape()
				in.send(1, "mail")
				in.until("curl -sS "+in.address+"/metrics", "pawl_events_dropped_total")
			}},
	}
}

// drained waits until nothing is left to be done.
func drained(in *incident) {
	in.Helper()
	in.until("pawl topics ls mail -o json", `…"waiting":0,"delayed":0,"leased":0…`)
	in.until("curl -sS "+in.address+"/metrics", `pawl_queue_messages{state="waiting",topic="mail"} 0`)
}

// brokenPrograms are faults of what the daemon calls.
func brokenPrograms() map[string]fault {
	var refuses atomic.Bool
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if refuses.Load() {
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	return map[string]fault{
		"PawlLimitPinned": {
			config: "topics: {mail: {handler: http, url: '" + service.URL + "', concurrency: 8, adaptive: true}}\n",
			cause: func(in *incident) {
				in.Cleanup(service.Close)
				refuses.Store(true)
				in.fill["LIMIT"] = "mail"
				in.send(100, "mail")
				in.until("curl -sS "+in.address+"/metrics", `pawl_limit_window{limit="mail"} 0`)
			},
			mendAt: "3.", mend: func(*incident) { refuses.Store(false) },
		},
		"PawlLabelOverflow": {
			config: "topics: {mail: {handler: pipe, command: sed -u -f odd.sed, concurrency: 1}}\n",
			cause: func(in *incident) {
				in.write("odd.sed",
					`s/^{"id":"m\([0-9]*\)".*"token":"\([^"]*\)".*/{"id":"m\1","token":"\2","verdict":"dead","kind":"Odd\1","reason":"odd"}/`+
						"\n")
				in.send(130, "mail")
				depth(in, "dead", 130)
			},
			mend: func(in *incident) { in.must("daemon kill TERM; daemon gone"); in.start() },
		},
	}
}

// brokenServers are faults around a server.
func brokenServers() map[string]fault {
	served := "topics: {mail: {handler: exec, command: sh ./handle.sh, concurrency: 4, lease: 1s}}\n"
	return map[string]fault{
		"PawlLeasesLost": {config: served, store: sharedServer, cause: func(in *incident) {
			behaves("sleep 0.7\n")(in)
			in.send(60, "mail") // ten seconds to see some of them leased
			in.until("pawl topics ls mail -o json", `…"leased":4…`)
			in.must("daemon kill STOP; sleep 2; pawl work mail --exec true --until-empty -q; daemon kill CONT")
		}},
		"PawlStoreErrors": {config: served, store: ownServer, cause: func(in *incident) {
			behaves(good)(in)
			in.send(3, "mail")
			in.must("$PAWL_TEST_SERVICES kill postgres")
			in.until("curl -sS "+in.address+"/readyz", "the store has been failing for")
		}, mendAt: "1.", mend: func(in *incident) { in.must("$PAWL_TEST_SERVICES start postgres") }},
		"PawlStoreSlow": {config: served, store: ownServer, cause: func(in *incident) {
			behaves(good)(in)
			in.send(3, "mail")
			in.must("$PAWL_TEST_SERVICES pause postgres; sleep 2; $PAWL_TEST_SERVICES continue postgres")
		}},
	}
}

// needsFullDevice wants the file on which every write fails.
func needsFullDevice(in *incident) {
	if _, err := os.Stat("/dev/full"); err != nil {
		in.Skip("this system has no /dev/full to write events to")
	}
}

// sharedServer keeps the messages in a schema of their own on the tests' server.
func sharedServer(in *incident) {
	server := os.Getenv("PAWL_TEST_POSTGRES")
	if server == "" {
		if strings.Contains(os.Getenv("PAWL_TEST_REQUIRE"), "postgres") {
			in.Fatal("PAWL_TEST_POSTGRES is not set, and PAWL_TEST_REQUIRE asks for it")
		}
		in.Skip("PAWL_TEST_POSTGRES is not set; dev/services run -- go test …")
	}
	in.env = append(in.env, fmt.Sprintf("PAWL_STORE=%s&pawl_schema=e2e_%08x", server, rand.Uint32()))
	in.must("pawl migrate up -q")
	in.Cleanup(func() { _, _ = in.sh("daemon kill KILL; daemon gone; pawl migrate down --to 0 --yes -q") })
}

// ownServer brings up a server that may be broken.
func ownServer(in *incident) {
	in.env = append(in.env, "PAWL_STORE="+ownService(in, "postgres", "PAWL_TEST_POSTGRES"))
	in.must("pawl migrate up -q")
}

// ownService brings up a service that may be broken, and returns where it is: what
// dev/services says of it in a variable.
func ownService(in *incident, service, variable string) string {
	services := os.Getenv("PAWL_TEST_SERVICES")
	if services == "" {
		in.Skip("PAWL_TEST_SERVICES is not set; dev/services run -- go test …")
	}
	dir, err := os.MkdirTemp("", "pawl-incident-") // the server's user cannot enter the test's
	if err != nil {
		in.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		in.Fatal(err)
	}
	in.env = append(in.env, "PAWL_SERVICES_DIR="+dir)
	in.Cleanup(func() {
		_, _ = in.sh("daemon kill KILL; $PAWL_TEST_SERVICES clean")
		_ = os.RemoveAll(dir)
	})
	began := time.Now()
	in.must("$PAWL_TEST_SERVICES up " + service)
	cmd := exec.Command(services, "env")
	cmd.Env = in.env
	out, err := cmd.Output()
	if err != nil {
		in.Fatal(err)
	}
	_, where, _ := strings.Cut(string(out), variable+"='")
	where, _, _ = strings.Cut(where, "'")
	in.Logf("a server of its own took %v", time.Since(began).Round(time.Second))
	return where
}
