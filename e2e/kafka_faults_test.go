//go:build unix

package e2e

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// kafkaStore keeps the messages in topics of their own on the tests' broker.
func kafkaStore(options string) func(*incident) {
	return func(in *incident) {
		broker := os.Getenv("PAWL_TEST_KAFKA")
		if broker == "" {
			if strings.Contains(os.Getenv("PAWL_TEST_REQUIRE"), "kafka") {
				in.Fatal("PAWL_TEST_KAFKA is not set, and PAWL_TEST_REQUIRE asks for it")
			}
			in.Skip("PAWL_TEST_KAFKA is not set; dev/services run kafka -- go test …")
		}
		in.onKafka(broker, options)
	}
}

// makeNarrow creates a topic that takes only short records. pawl cannot do that: dead letters are no topic of work. It
// is created with the limit, because a limit that is set later holds only when the broker has read it.
func (in *incident) makeNarrow(topic string, bytes int) {
	in.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("PAWL_TEST_KAFKA")))
	if err != nil {
		in.Fatal(err)
	}
	defer client.Close()
	limit := map[string]*string{"max.message.bytes": new(strconv.Itoa(bytes))}
	if _, err := kadm.NewClient(client).CreateTopic(in.Context(), 4, 1, limit, in.prefix+topic); err != nil {
		in.Fatal(err)
	}
}

// expire lets the first partition of a topic begin at an offset, as retention does.
func (in *incident) expire(topic string, offset int64) {
	in.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Getenv("PAWL_TEST_KAFKA")))
	if err != nil {
		in.Fatal(err)
	}
	defer client.Close()
	to := kadm.Offsets{}
	to.Add(kadm.Offset{Topic: in.prefix + topic, At: offset, LeaderEpoch: -1})
	if _, err := kadm.NewClient(client).DeleteRecords(in.Context(), to); err != nil {
		in.Fatal(err)
	}
}

func (in *incident) onKafka(broker, options string) {
	own := fmt.Sprintf("e2e%08x", rand.Uint32())
	in.env = append(in.env, fmt.Sprintf("PAWL_STORE=kafka://%s?group=%s&prefix=%s.&%s", broker, own, own, options))
	in.prefix = own + "."
	in.fill["PARTITION"], in.fill["KEY"] = "0", "device-7"
}

// TestKafkaPage does what docs/kafka.md says.
func TestKafkaPage(t *testing.T) {
	in := newIncident(t, obeys)
	kafkaStore("")(in)
	page, tried := sections(t, "../docs/kafka.md"), 0
	for _, title := range []string{"Start", "Topics", "Operations"} {
		in.carry(page[title], false)
		tried += len(page[title])
	}
	if tried < 3 {
		t.Errorf("only %d pieces of code were found on the page", tried)
	}
}

// exports waits until the sum of series with a name is as much as that.
func exports(in *incident, name string, least int) {
	in.Helper()
	in.until(fmt.Sprintf(`curl -sS %s/metrics | awk '/^%s/ {n += $2} END {if (n >= %d) print "enough"}'`, in.address,
		name, least), "enough")
}

// brokenTopics are faults around a Kafka cluster.
func brokenTopics() map[string]fault {
	all := map[string]fault{
		"PawlKafkaGateBacklog": {
			config: "topics: {mail: {handler: pipe, command: sed -u -f stuck.sed, concurrency: 8}}\n",
			store:  kafkaStore("partitions=1"),
			cause: func(in *incident) {
				in.write("stuck.sed", stuck)
				in.send(1200, "mail")
				exports(in, "pawl_kafka_commit_gate_backlog", 1199)
			},
			mendAt: "3.", mend: func(in *incident) {
				in.write("stuck.sed", strings.Replace(stuck, `"m1"`, `"nobody"`, 1))
				in.must("daemon kill TERM; daemon gone")
				in.start()
			},
		},
		"PawlKafkaLag": {
			config: obeys, store: kafkaStore("partitions=1"),
			cause: func(in *incident) {
				behaves("while [ ! -e mended ]; do sleep 0.1; done\n")(in)
				in.send(20, "mail")
				exports(in, "pawl_kafka_lag", 20)
			},
			mendAt: "3.", mend: func(in *incident) { in.write("mended", "") },
			unproved: "a lag that does not shrink takes minutes to tell",
		},
		"PawlKafkaLostToRetention": {
			config: obeys, store: kafkaStore("partitions=1"),
			cause: func(in *incident) {
				behaves(good)(in)
				in.send(4, "mail")
				exports(in, "pawl_deliveries_settled_total", 4)
				in.must("daemon kill TERM; daemon gone")
				in.send(20, "mail")
				in.expire("mail", 14)
				in.start()
				exports(in, "pawl_kafka_lost_to_retention_total", 10)
			},
		},
		"PawlKafkaRebalanceStorm": {config: obeys, store: kafkaStore("partitions=4"), cause: func(in *incident) {
			behaves(good)(in)
			in.send(4, "mail")
			exports(in, `pawl_kafka_rebalances_total.action="assigned"`, 1)
			exports(in, `pawl_deliveries_settled_total`, 4)
			in.calm = in.scrape()
			in.must(fmt.Sprintf(`pawl work mail --exec true -q & other=$!
				for i in $(seq 300); do # until it has partitions of the daemon's
					curl -sS %s/metrics | grep -q '^pawl_kafka_rebalances_total.action="revoked". [1-9]' && break
					sleep 0.2
				done
				kill $other; wait $other || true`, in.address))
			exports(in, `pawl_kafka_rebalances_total.action="revoked"`, 1)
		}},
	}
	for _, more := range []map[string]fault{unwelcome(), spilled()} {
		maps.Copy(all, more)
	}
	all["PawlKafkaCommitLag"] = fault{
		config: "topics: {mail: {handler: exec, command: sh ./handle.sh, concurrency: 4}}\n",
		store:  func(in *incident) { in.onKafka(ownService(in, "kafka", "PAWL_TEST_KAFKA"), "partitions=1") },
		cause: func(in *incident) {
			behaves("sleep 2\n")(in)
			in.send(4, "mail")
			exports(in, "pawl_handlers_running", 1)
			in.must("$PAWL_TEST_SERVICES pause kafka")
			exports(in, "pawl_kafka_commit_lag_seconds", 5)
		},
		mendAt: "1.", mend: func(in *incident) { in.must("$PAWL_TEST_SERVICES continue kafka") },
		unproved: "a minute of lag takes a minute",
	}
	return all
}

// stuck asks for its first message again and again, and acks the others.
const stuck = `s/^{"id":"m1",.*"token":"\([^"]*\)".*/{"id":"m1","token":"\1","verdict":"retry","reason":"not yet","after_seconds":600}/
t
s/^{"id":"\([^"]*\)".*"token":"\([^"]*\)".*/{"id":"\1","token":"\2","verdict":"ack"}/
`

// unwelcome are dead letters: too many, of one key, or such as nobody takes.
func unwelcome() map[string]fault {
	dies := "echo no such host >&2; exit 65\n"
	return map[string]fault{
		"PawlKafkaDeadLetters": {config: obeys, store: kafkaStore("partitions=4"), cause: func(in *incident) {
			behaves(dies)(in)
			in.send(14, "mail")
			exports(in, "pawl_kafka_dead_letters_total", 14)
			depth(in, "dead", 14)
		}, mendAt: "3.", mend: behaves(good)},
		"PawlKafkaDeadLettersOfOneKey": {config: obeys, store: kafkaStore("partitions=4"), cause: func(in *incident) {
			behaves(dies)(in)
			in.must(
				`for i in $(seq 12); do echo "{\"id\":\"m$i\",\"key\":\"device-7\",\"body\":\"$i\"}"; done | pawl send mail --jsonl -q; pawl send mail other --key device-8 -q`)
			exports(in, "pawl_kafka_dead_letters_total", 13)
			depth(in, "dead", 13)
		}, mendAt: "3.", mend: func(in *incident) {
			behaves(good)(in)
			in.must("pawl dead replay --topic mail --key device-8 --yes -q")
		}},
		"PawlKafkaDeadLettersUnwritten": {
			config: obeys,
			store: func(in *incident) {
				kafkaStore("no_create=true")(in)
				in.must("pawl kafka topics ensure mail --no-dead -q")
			},
			cause: func(in *incident) {
				behaves(dies)(in)
				in.send(3, "mail")
				exports(in, "pawl_kafka_dead_letters_waiting", 3)
			},
		},
		"PawlKafkaDeliveryFailures": {
			config: obeys,
			store: func(in *incident) {
				kafkaStore("")(in)
				in.must("pawl kafka topics ensure mail --partitions 4 --no-dead -q")
				in.makeNarrow("mail.dead", 100)
			},
			cause: func(in *incident) {
				behaves(dies)(in)
				in.send(3, "mail")
				exports(in, `pawl_kafka_produced_total.result="refused"`, 3)
			},
		},
	}
}

// spilled are messages whose topic is not there: they go to the fallback store.
func spilled() map[string]fault {
	away := func(n int) fault {
		return fault{
			config: obeys, store: kafkaStore("no_create=true&fallback=sqlite:spill.db"),
			cause: func(in *incident) {
				behaves(good)(in)
				in.send(n, "mail")
				exports(in, "pawl_spill_pending_messages", n)
			},
		}
	}
	share := away(3)
	share.unproved = "a daemon sends nothing by itself, and pawl send exports nothing: it is for programs that do both"
	lost, dead := away(3), away(3)
	lost.unproved = "a daemon sends nothing by itself, and pawl send exports nothing: it is for programs that do both"
	dead.unproved = "ten tries in vain take minutes"
	return map[string]fault{"PawlSpillLost": lost, "PawlSpillDead": dead, "PawlSpillActive": away(3),
		"PawlSpillPending": away(1100), "PawlSpillShare": share}
}

// TestStoreOptionsPage does what docs/store-options.md says.
func TestStoreOptionsPage(t *testing.T) {
	in := newIncident(t, obeys)
	kafkaStore("")(in)
	url := strings.TrimPrefix(in.env[len(in.env)-1], "PAWL_STORE=")
	in.fill["kafka://localhost:9092[?]fallback"] = url + "fallback"
	page, tried := sections(t, "../docs/store-options.md"), 0
	for _, title := range []string{"Fallback", "Codec"} {
		in.carry(page[title], false)
		tried += len(page[title])
	}
	if tried < 3 {
		t.Errorf("only %d pieces of code were found on the page", tried)
	}
}

// TestSchedulesBesideKafka keeps schedules for a Kafka as docs/schedules.md says, and as the refusal there points out.
func TestSchedulesBesideKafka(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/schedules.md")
	if err != nil {
		t.Fatal(err)
	}
	_, stores, _ := strings.Cut(string(text), "## Stores")
	_, file, _ := strings.Cut(stores, "```yaml\n")
	file, _, _ = strings.Cut(file, "```")
	dir := t.TempDir()
	file = strings.Replace(file, `cron: "30 2 * * *"`, "every: 1s", 1)
	if err := os.WriteFile(dir+"/clock.yaml", []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command("sh", "-c", `trap 'kill $! && wait' EXIT
		pawl --store "$REPORTS_STORE" schedules put nightly --every 1s --topic reports 2>&1; echo "code $?"
		pawl up --config clock.yaml --listen off &
		for n in $(seq 60); do
			pawl --store "$REPORTS_STORE" peek reports -o jsonl 2>/dev/null >sent && [ -s sent ] && break; sleep 0.3
		done
		cat sent; pawl --store sqlite:clock.db schedules history nightly -o jsonl`)
	c.Dir, c.Env = dir, append(os.Environ(), "REPORTS_STORE="+kafkaURL(t))
	out, err := c.Output()
	for _, want := range []string{"docs/schedules.md, Stores", "code 2", `"body":"the report of the night"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("it does not print %s: %v\n%s", want, err, out)
		}
	}
	id := regexp.MustCompile(`"id":"([^"]*)","topic":"reports","key":"schedule/nightly"`).FindSubmatch(out)
	if id == nil || !strings.Contains(string(out), `"message_id":"`+string(id[1])) {
		t.Errorf("what was sent on has not the id of the tick's message: %s", out)
	}
}
