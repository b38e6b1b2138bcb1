package observe

import "github.com/prometheus/client_golang/prometheus"

// Every metric of the runtime is described in this file: its name, what it
// counts, and its labels. Names are part of the interface: dashboards and alert
// rules are checked against them.

// Labels. Their values name code and configuration, never data: no ids, no
// keys, no addresses.
const (
	labelTopic    = "topic"
	labelOp       = "op"
	labelResult   = "result"
	labelVerdict  = "verdict"
	labelReason   = "reason"
	labelState    = "state"
	labelDomain   = "domain"
	labelType     = "type"
	labelPhase    = "phase"
	labelKind     = "kind"
	labelAction   = "action"
	labelAlert    = "alert"
	labelDegrade  = "degrade"
	labelConsumer = "consumer"
	labelLabel    = "label"
	labelLimit    = "limit"

	labelPartition = "partition"
)

// limits is how many values a label may have. What comes beyond is "other".
var limits = map[string]int{
	labelTopic: 200, labelOp: 20, labelResult: 5, labelVerdict: 10, labelReason: 20, labelState: 10, labelDomain: 10,
	labelType: 100, labelPhase: 10, labelKind: 100, labelAction: 10, labelAlert: 10, labelDegrade: 5, labelConsumer: 20,
	labelLabel: 20,
	labelLimit: 100, labelPartition: 200,
}

// Upper bounds of histograms, in seconds.
var (
	quickBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	workBuckets  = []float64{.0001, .001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}
	waitBuckets  = []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}
)

type description struct {
	name   string
	help   string
	labels []string
}

func (d description) desc() *prometheus.Desc {
	return prometheus.NewDesc(d.name, d.help, d.labels, nil)
}

// Counters.
var (
	storeCalls = description{"pawl_store_calls_total",
		"Calls of the store, by operation and by result: ok or error.", []string{labelOp, labelResult}}
	storeItems = description{"pawl_store_items_total",
		"Messages, tokens or verdicts that calls of the store were about.", []string{labelOp}}
	claimed = description{"pawl_deliveries_claimed_total",
		"Deliveries that were claimed: attempts that began or were given back.", []string{labelTopic}}
	settled = description{"pawl_deliveries_settled_total",
		"Deliveries that ended, by verdict: ack, retry, dead or release.", []string{labelTopic, labelVerdict}}
	slow = description{"pawl_deliveries_slow_total",
		"First attempts that were acked later, after they were visible, than the objective of their topic. Only of topics that have one.",
		[]string{labelTopic}}
	givenBack = description{"pawl_deliveries_given_back_total",
		"Deliveries that a handler gave back: exit code 69, or 429 and 503 with Retry-After. What Pawl gives back itself is only in pawl_deliveries_settled_total.",
		[]string{labelTopic}}
	refused = description{"pawl_deliveries_refused_total",
		"Verdicts that changed nothing, or were not tried because the lease had ended: lease_lost or invalid.",
		[]string{labelTopic, labelReason}}
	decisions = description{"policy_decisions_total",
		"Decisions about failures: what was being done, the kind of failure, the decision and its alert level.",
		[]string{labelDomain, labelType, labelPhase, labelKind, labelAction, labelAlert}}
	failures = description{"pawl_failures_total",
		"Failures of deliveries, by kind.", []string{labelTopic, labelKind}}
	retriedOften = description{"pawl_deliveries_retried_often_total",
		"Retries of deliveries that have failed ten times or more.", []string{labelTopic}}
	wentBack = description{"pawl_store_went_back_total",
		"How often the store had lost what this process had been told was stored: it is an older copy.", nil}
	degraded = description{"pawl_failures_ignored_total",
		"Failures after which the work continued, by what it fell back to: skip-item, carry-on, stop-task or none.",
		[]string{labelTopic, labelDegrade}}
	events = description{"pawl_events_total",
		"Events, by what happened.", []string{labelDomain, labelType, labelPhase}}
	eventsDropped = description{"pawl_events_dropped_total",
		"Events that a consumer did not get: full, failed, panicked or closed.", []string{labelConsumer, labelReason}}
	eventsRefused = description{"pawl_events_refused_total",
		"Events that the bus refused: unknown or closed.", []string{labelReason}}
	overflow = description{"pawl_metrics_label_overflow_total",
		"Values of a label that were counted as \"other\", because there were too many.", []string{labelLabel}}
)

// Gauges.
var (
	running = description{"pawl_handlers_running",
		"Handlers that run now.", []string{labelTopic}}
	slots = description{"pawl_handler_slots",
		"Handlers that may run at once.", []string{labelTopic}}
	zombies = description{"pawl_handlers_zombie",
		"Handlers that outlived their deadline or lease and have not returned.", []string{labelTopic}}
	local = description{"pawl_deliveries_waiting",
		"Deliveries that this process has claimed and not started.", []string{labelTopic}}
	eventsLag = description{"pawl_events_lag",
		"Events that wait for a consumer.", []string{labelConsumer}}
	depth = description{"pawl_queue_messages",
		"Messages in the store by state: waiting, delayed, leased or dead. Counted on a slow clock, not on a scrape.",
		[]string{labelTopic, labelState}}
	depthAt = description{"pawl_queue_counted_timestamp_seconds",
		"When the messages of a topic were last counted. What is older than a minute is left out of pawl_queue_messages and pawl_queue_oldest_age_seconds. At first: when counting began.",
		[]string{labelTopic}}
	ready = description{"pawl_ready",
		"1 while the process does its work, 0 while /readyz says why it does not.", nil}
	failing = description{"pawl_store_failing_seconds",
		"For how long every call of the store has failed; 0 while calls succeed.", nil}
	paused = description{"pawl_topic_paused",
		"1 while a topic is paused, else 0.", []string{labelTopic}}
	topKey = description{"pawl_queue_top_key_ratio",
		"How many of the 100 messages that wait first in a topic are of one key, as a share. 0 unless 10 wait, and the oldest has been waiting for 10 seconds. Counted on a slow clock, not on a scrape.",
		[]string{labelTopic}}
	reloadOK = description{"pawl_config_last_reload_successful",
		"1 if the newest configuration file is in effect, 0 if it has faults and the previous one is.", nil}
	reloadAt = description{"pawl_config_last_reload_success_timestamp_seconds",
		"When a configuration last came into effect.", nil}
	oldest = description{"pawl_queue_oldest_age_seconds",
		"For how long the oldest waiting message has been visible. Measured on a slow clock, not on a scrape.",
		[]string{labelTopic}}
)

// Histograms.
var (
	storeTime = description{"pawl_store_call_duration_seconds",
		"Duration of calls of the store.", []string{labelOp}}
	queueWait = description{"pawl_queue_wait_seconds",
		"From visible to claimed, of first attempts.", []string{labelTopic}}
	attemptTime = description{"pawl_attempt_duration_seconds",
		"Duration of a handler; of a batch, the share of one delivery.", []string{labelTopic}}
	deliveryTime = description{"pawl_delivery_seconds",
		"From visible to acked, of first attempts.", []string{labelTopic}}
)
