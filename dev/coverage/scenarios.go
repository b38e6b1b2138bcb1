package main

// scenario is a failure that each store has to bear, and the tests that show it.
type scenario struct {
	name    string
	expects string
	metric  string // that shows it in production
	alert   string // or, where none can, what fails
	// tests are "FOLDER TEST", for each store, whose folder {folder} stands for. of has more of them for one store; of
	// a store in refused it says why it cannot show it.
	tests   []string
	of      map[string][]string
	refused map[string]string
}

// stores are the columns; those that are required have no hole.
var stores = []struct {
	name, folder string // in the report, and in store/
	required     bool
}{
	{"SQLite", "sqlite", true},
	{"PostgreSQL", "postgres", true},
	{"Kafka", "kafka", true},
	{"MariaDB", "mysql", false},
	{"Redis", "redis", false},
}

const engine = "store/{folder} TestEngine/"

var scenarios = []scenario{
	{name: "duplicate delivery", expects: "handled once by the fence; after the ack never again",
		metric: "pawl_deliveries_refused_total", alert: "PawlLeasesLost",
		tests: []string{"store/{folder} TestContract/contract/AckIsFinal",
			"store/{folder} TestContract/contract/SettleTwiceIsFenced"}},
	{name: "out of order", expects: "order per key kept, none lost", metric: "pawl_queue_top_key_ratio", alert: "CI",
		tests: []string{engine + "OrderPerKey"}},
	{name: "retries exhausted", expects: "a dead letter with headers and every attempt",
		metric: "policy_decisions_total", alert: "PawlDeadLetters", tests: []string{engine + "RetriesExhausted"}},
	{name: "poison message", expects: "a dead letter at once, with the reason", metric: "pawl_failures_total",
		alert: "PawlDeadLetters", tests: []string{engine + "PoisonIsFast", engine + "KillerIsIsolated"}},
	{name: "consumer crash", expects: "delivered again, ends once", metric: "pawl_queue_oldest_age_seconds",
		alert: "PawlDaemonCrashLoop", tests: []string{engine + "CrashIsRescued"},
		of: map[string][]string{"SQLite": {"e2e/crash TestOneKill/SQLite"},
			"PostgreSQL": {"e2e/crash TestOneKill/Postgres"}, "Kafka": {"e2e/crash TestKafkaKilled"}}},
	{name: "stuck consumer", expects: "taken back at the deadline; the late ack is fenced",
		metric: "pawl_handlers_zombie", alert: "PawlZombies", tests: []string{engine + "StuckIsTakenBack"}},
	{name: "several consumers compete", expects: "no message in two live leases, none lost",
		metric: "pawl_deliveries_refused_total", alert: "CI", tests: []string{engine + "PeersShareTheWork"}},
	{name: "sync: an older version is written late", expects: "refused: a version never falls",
		metric: "pawl_state_ignored_total", alert: "CI", tests: []string{"statesync TestWritersAndWatchers/{folder}"}},
	{name: "sync: snapshot and stream in any order", expects: "one result", metric: "pawl_store_calls_total",
		alert: "CI", tests: []string{"statesync TestAnyOrder", "statesync TestWritersAndWatchers/{folder}"}},
	{name: "sync: poisoned update", expects: "ignored and counted, the state stays", metric: "pawl_state_ignored_values",
		alert: "PawlStateIgnored", tests: []string{"statesync TestPoison/{folder}"}},
	{name: "stale schedule cache", expects: "read anew within its bound; no tick lost or doubled",
		metric: "pawl_schedules_overdue_seconds", alert: "PawlScheduleStandsStill",
		of: map[string][]string{"SQLite": {"e2e/crash TestSchedulesOverKills/SQLite"},
			"PostgreSQL": {"e2e/crash TestSchedulesOverKills/Postgres"}},
		refused: map[string]string{"Kafka": "it keeps no schedules: they need unique keys and a lookup by id"}},
	{name: "backend restart", expects: "workers recover by themselves, nothing lost",
		metric: "pawl_store_failing_seconds", alert: "PawlStoreErrors", tests: []string{engine + "ReopenedGoesOn"},
		of: map[string][]string{"PostgreSQL": {"e2e/crash TestServerGone/restarted", "e2e/crash TestServerGone/killed"},
			"Kafka": {"e2e/crash TestKafkaBrokerKilled"}}},
	{name: "network fault", expects: "workers recover by themselves, nothing lost",
		metric: "pawl_store_failing_seconds", alert: "PawlStoreErrors",
		of: map[string][]string{"PostgreSQL": {"e2e/crash TestServerGone/paused"},
			"Kafka": {"e2e/crash TestKafkaConnectionCut"}},
		refused: map[string]string{"SQLite": "it has no network"}},
}

// consistency are the promises with a bound between processes, for the stores that are brokers.
var consistency = []scenario{
	{name: "append → first delivery", expects: "5 s", metric: "pawl_queue_wait_seconds", alert: "PawlBacklogOld",
		tests: []string{engine + "PickupIsQuick", engine + "PeerIsWoken"}},
	{name: "dead letter written → readable", expects: "60 s", metric: "pawl_kafka_dead_letters_waiting",
		alert: "PawlKafkaDeadLettersUnwritten", tests: []string{engine + "RetriesExhausted"}},
	{name: "state sync, stream", expects: "30 s", metric: "pawl_store_calls_total", alert: "CI",
		tests: []string{"statesync TestWritersAndWatchers/{folder}"}},
	{name: "state sync, refresh", expects: "30 s", metric: "pawl_store_calls_total", alert: "CI",
		tests: []string{"statesync TestAnyOrder", "statesync TestWritersAndWatchers/{folder}"}},
	{name: "pause → every worker", expects: "10 s", metric: "pawl_topic_paused", alert: "PawlTopicPaused",
		tests: []string{engine + "PauseHolds"}},
}
