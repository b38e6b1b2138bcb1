package config

import (
	"net"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// The handlers of a topic.
const (
	Exec = "exec"
	Pipe = "pipe"
	HTTP = "http"
)

// What has a limit of its own; else it is "header:" and the name of one.
const (
	ByAll   = "all"
	ByKey   = "key"
	ByTopic = "topic"
)

// MaxConcurrency is the most that a topic may carry out at once.
const MaxConcurrency = 10_000

// nounURL is what a text is called that is a URL.
const nounURL = "URL"

// Off as an address to listen at is none.
const Off = "off"

// format is the file: the one place where its keys are written down.
func format(of *Source) shape {
	kinds := of.Kinds
	urlOfStore := shape{kind: text, noun: nounURL, sensitive: true, check: of.checkStore}
	s := shape{kind: object, fields: []field{
		{name: "store", doc: "Where messages are kept; `pawl help store-urls` has the forms.", def: "sqlite:pawl.db",
			env: "PAWL_STORE", flag: "store",
			shape: urlOfStore},
		{name: "mirror",
			doc:    "The store to which topics move; `pawl traffic` says which of them, and when. docs/traffic.md explains how.",
			defDoc: "none",
			env:    "PAWL_MIRROR", flag: "mirror", shape: urlOfStore},
		{name: "auto_migrate", doc: "Bring the schema of a store on a server up to date at the start.", def: "false",
			flag: "auto-migrate", shape: shape{kind: boolean}},
		{name: "node", doc: "The name of this machine in leases and attempts; the process's number is added.",
			env:  "PAWL_NODE",
			fill: hostname, defDoc: "the host's name", shape: shape{kind: text, noun: "name", check: checkNode}},
		{name: "listen",
			doc: "Where /livez, /readyz, /healthz and /metrics are served; `off` is nowhere, port 0 any free one.",
			def: "127.0.0.1:9102", env: "PAWL_LISTEN", flag: "listen",
			shape: shape{kind: text, noun: "host:port, or off", check: checkListen}},
		{name: "allow_remote",
			doc: "Allow `listen` to name an address that other machines reach. There is no authentication.",
			def: "false", shape: shape{kind: boolean}},
		{name: "drain", doc: "How long running work may take to finish after the first SIGTERM.", def: "30s",
			shape: span(time.Millisecond, 24*time.Hour)},
		{name: "logger", doc: "Which records are logged, and where; docs/logging.md explains it.", shape: loggerShape()},
		{name: "events", doc: "Where events go, in addition to metrics, log and `/events`.",
			shape: shape{kind: object, fields: []field{
				{name: "file",
					doc:    "A file to which every event is appended, as a line of JSON with a number in sequence: gaps show.",
					defDoc: "none",
					shape:  shape{kind: text, noun: "path", check: checkFilled}},
			}}},
		{name: "limits", doc: "The limits of downstreams, by name. Topics name the downstreams that they depend on.",
			shape: shape{kind: table, of: limitShape(), checkKey: pawl.ValidTopic, noun: "mapping by name"}},
		{name: "topics", doc: "The topics that are processed, and their handlers.",
			shape: shape{kind: table, of: topicShape(), checkKey: pipeline.CheckTopic, noun: "mapping by topic"}},
		{name: "policy", doc: "What happens after failures.", shape: shape{kind: object, fields: []field{
			{name: "overrides",
				doc:   "Changes to the matrix that `pawl policy ls` shows. They may only tighten: louder, slower, a dead letter sooner.",
				live:  true,
				shape: shape{kind: list, of: overrideShape()}},
		}}},
		apiField(),
		tracesField(),
		pipelinesField(of),
		{name: "schedules", doc: "Messages to send at set times, by the name of the schedule; docs/schedules.md explains them.",
			live:  true,
			shape: shape{kind: table, of: scheduleShape(), checkKey: pawl.ValidTopic, noun: "mapping by name"}},
		consoleField(&urlOfStore),
	}}
	for _, k := range kinds {
		for i := range k.Top {
			s.fields = append(s.fields, of.sectionField(&k.Top[i]))
		}
	}
	return s
}

// topicShape is what can be said about a topic.
func topicShape() *shape {
	programs := []string{Exec, Pipe}
	return &shape{kind: object, by: "handler", fields: []field{
		{name: "handler",
			doc:   "Who does the work: a program for each delivery, programs that keep running, or a web service.",
			must:  true,
			shape: oneOf(Exec, Pipe, HTTP)},
		{name: "command", doc: "The program, run with the shell. `${…}` in it is left to the shell.", must: true,
			with:  programs,
			shape: shape{kind: text, noun: "command", raw: true, check: checkFilled}},
		{name: "in_flight",
			doc: "Deliveries that a kept program holds at once; 0 derives it from how the program behaves.",
			def: "0", with: []string{Pipe},
			shape: whole(0, 256)},
		{name: "url", doc: "Where a delivery is sent to.", must: true, with: []string{HTTP},
			shape: shape{kind: text, noun: nounURL, sensitive: true, check: checkURL}},
		{name: "method", doc: "The method of the request.", def: "POST", with: []string{HTTP},
			shape: oneOf("POST", "PUT", "PATCH")},
		{name: "headers", doc: "Headers of the request, in addition to those of the delivery.", with: []string{HTTP},
			shape: shape{kind: table, checkKey: checkHeaderName, noun: "mapping by name",
				of: &shape{kind: text, sensitive: true, check: checkHeaderValue}}},
		{name: "timeout", doc: "How long a reply may take; no longer than the deadline.", fill: timeoutDefault,
			defDoc: "30s, or the deadline if that is less", with: []string{HTTP},
			shape: span(time.Millisecond, store.MaxLease)},
		{name: "concurrency", doc: "Deliveries at once; with `pipe`, programs that are kept.", fill: concurrencyDefault,
			defDoc: "the number of processors; 32 with http", live: true, liveBy: []string{Exec, HTTP},
			shape: whole(1, MaxConcurrency)},
		{name: "reserved", doc: "How many of these only messages of priority 100 may use.", def: "0",
			with: []string{Exec, HTTP}, shape: whole(0, 9_999)},
		{name: "lease", doc: "How long messages stay claimed if this process dies.", def: "30s",
			shape: span(20*time.Millisecond, store.MaxLease)},
		{name: "limit", doc: "Begin no faster than this.", defDoc: "no limit", live: true, shape: shape{kind: rate}},
		{name: "adaptive",
			doc:  "Learn from refusals how many may run at once, up to the concurrency: 429 and 503, exit code 75, replies that take too long.",
			def:  "false",
			with: []string{Exec, HTTP}, shape: shape{kind: boolean}},
		{name: "limits", doc: "The limits of its downstreams, by name.",
			shape: shape{kind: list, of: &shape{kind: text, noun: "name"}, noun: "list of names"}},
		{name: "order",
			doc:    "What makes a lane: the messages of one key, or each message alone. Kept in the store, like the five below.",
			defDoc: "as the store has it; else key",
			shape:  oneOf(string(store.OrderKey), string(store.OrderNone))},
		{name: "deadline", doc: "How long a delivery may take at most.", defDoc: "as the store has it; else 5m",
			shape: span(time.Millisecond, store.MaxLease)},
		{name: "ageing", doc: "The wait that is worth one point of priority.", defDoc: "as the store has it; else 2m",
			shape: span(time.Millisecond, store.MaxLease)},
		{name: "park", doc: "Send what follows a dead letter of its key to the dead letters, too.",
			defDoc: "as the store has it; else false", shape: shape{kind: boolean}},
		{name: "retry", doc: "For how long a message is retried, and where it waits.", shape: retryShape()},
		{name: "objective",
			doc: "How long a message should take at most, from when it is visible until its ack. Traces of slower ones are " +
				"always exported.",
			defDoc: "none", shape: span(time.Millisecond, pawl.MaxDelay)},
		{name: "retain", doc: "How long acked messages are kept for explanations.",
			defDoc: "as the store has it; else 0s", shape: span(0, pawl.MaxDelay)},
		{name: "max_waiting",
			doc: "How many messages may wait, delayed ones included, until `pawl send` and other appends are refused; " +
				"0 is no bound. What handlers emit is never refused.",
			defDoc: "as the store has it; else 0", shape: whole(0, 1_000_000_000)},
	}}
}

// retryShape is what a topic says about retries.
func retryShape() shape {
	return shape{kind: object, fields: []field{
		{name: "for",
			doc:    "Retry for so long: until the pauses between attempts, taken at their mean, add up to that. Unless `backoff.max` is stated, the pauses go on growing after the tenth attempt, up to 10m.",
			defDoc: "24h, unless attempts are stated; over Kafka, as the policy says",
			shape:  span(time.Second, pawl.MaxDelay)},
		{name: "attempts", doc: "Attempts at most, the first one included.",
			defDoc: "as many as `for` allows", shape: whole(1, policy.MaxAttempts)},
		{name: "backoff", doc: "The wait before a retry.", shape: shape{kind: object, fields: []field{
			{name: "base", doc: "The shortest wait.", defDoc: "as the policy says",
				shape: span(time.Millisecond, pawl.MaxDelay)},
			{name: "max", doc: "The longest wait.", defDoc: "as the policy says",
				shape: span(time.Millisecond, pawl.MaxDelay)},
		}}},
		{name: "place",
			doc:    "Where a retried message of a key goes: at the head it keeps the others of its key waiting, at the tail it lets them go on, out of order. `tail` does not go with `park`, nor with Kafka.",
			defDoc: "as the store has it; else head", shape: oneOf("head", "tail")},
	}}
}

// limitShape is what a downstream takes.
func limitShape() *shape {
	return &shape{kind: object, fields: []field{
		{name: "by", doc: "Which messages share a limit: all, those of a key, those of a topic, or those with the same value of a header.",
			def:   "all",
			shape: shape{kind: text, noun: "all, key, topic, or header:NAME", check: checkBy}},
		{name: "rate", doc: "Begin no faster than this.", defDoc: "no limit", live: true, shape: shape{kind: rate}},
		{name: "burst", doc: "How many may begin at once after an idle period.", defDoc: "a tenth of a second's worth",
			live: true, shape: whole(1, 1_000_000)},
		{name: "concurrency", doc: "Deliveries at once.", defDoc: "no limit", live: true, shape: whole(1, 1_000_000)},
		{name: "adaptive", doc: "Learn from refusals how many may be in flight at once, up to this many.",
			defDoc: "not learned", shape: whole(1, 100_000)},
		{name: "shared", doc: "All processes of the store share the rate.", def: "false",
			shape: shape{kind: boolean}},
	}}
}

// overrideShape is a change to the matrix.
func overrideShape() *shape {
	name := shape{kind: text, noun: "name"}
	return &shape{kind: object, fields: []field{
		{name: "match", doc: "Which failures it is about.", must: true, shape: shape{kind: object, fields: []field{
			{name: "domain", doc: "Engine or System; goes with a type.", shape: name},
			{name: "type", doc: "The type of event, such as Download.", shape: name},
			{name: "phase", doc: "The phase of the event; goes with a type.",
				shape: oneOf("Failed", "Retry", "Completed")},
			{name: "kind", doc: "The kind of error, such as RateLimit.", shape: name},
		}}},
		{name: "retry", doc: "`false` never retries.", shape: shape{kind: boolean}},
		{name: "backoff", doc: "The wait before a retry.", shape: shape{kind: object, fields: []field{
			{name: "shape", doc: "How the waits grow.", shape: oneOf("exponential", "linear")},
			{name: "base", doc: "The shortest wait.", shape: span(0, pawl.MaxDelay)},
			{name: "max", doc: "The longest wait.", shape: span(0, pawl.MaxDelay)},
		}}},
		{name: "max_attempts", doc: "Attempts, the first one included.", shape: whole(1, 1000)},
		{name: "dead_letter", doc: "When work becomes a dead letter.", shape: oneOf("exhausted", "always", "never")},
		{name: "alert", doc: "How loud a failure is.", shape: oneOf("info", "warn", "error", "critical")},
	}}
}

func hostname(*node) string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		return "localhost"
	}
	return host
}

func concurrencyDefault(topic *node) string {
	if get[string](topic, "handler") == HTTP {
		return "32"
	}
	return strconv.Itoa(runtime.NumCPU())
}

func timeoutDefault(topic *node) string {
	if d := get[time.Duration](topic, "deadline"); d > 0 {
		return min(d, defaultTimeout).String()
	}
	return defaultTimeout.String()
}

const defaultTimeout = 30 * time.Second

// checkStore finds what is wrong with the URL of a store, before anybody opens it.
func (s *Source) checkStore(url string) (why, hint string) {
	scheme, _, ok := strings.Cut(url, ":")
	if !ok {
		return "is not the URL of a store",
			"such as sqlite:pawl.db or postgres://user@host/db; `pawl help store-urls` has all forms"
	}
	if strings.HasPrefix(strings.ToLower(scheme), "postgres") && !readableServer(url) {
		return "is not a valid URL",
			"escape special characters of user and password: %2F for /, %40 for @, %23 for #, %3F for ?, %25 for %; what ${…} stands for is escaped by itself"
	}
	if s.CheckStore == nil {
		return "", ""
	}
	return s.CheckStore(url)
}

// readableServer reports whether user and password end where their URL says so. Else a
// part of a password is taken for the name of a host.
func readableServer(s string) bool {
	base, _, _ := strings.Cut(s, "?")
	scheme, server, ok := strings.Cut(base, "://")
	if i := strings.LastIndexByte(server, '@'); ok && i >= 0 {
		user := server[:i]
		_, err := url.Parse(scheme + "://" + user + "@host")
		return err == nil && !strings.ContainsAny(user, "/#@")
	}
	return true
}

func checkNode(s string) (why, hint string) {
	if s == "" || len(s) > 128 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "must be 1 to 128 characters without spaces", ""
	}
	return "", ""
}

func checkListen(s string) (why, hint string) {
	if s == Off {
		return "", ""
	}
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "must be host:port with a port of 0 to 65535, or off", "such as 127.0.0.1:9102"
	}
	return "", ""
}

// loopback reports whether only this machine reaches an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil || host == "localhost" {
		return err == nil
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func checkBy(s string) (why, hint string) {
	name, header := strings.CutPrefix(s, "header:")
	if s == ByAll || s == ByKey || s == ByTopic || header && name != "" {
		return "", ""
	}
	return "must be all, key, topic, or header:NAME", "such as header:host"
}

func checkFilled(s string) (why, hint string) {
	if strings.TrimSpace(s) == "" {
		return "is empty", ""
	}
	if strings.ContainsRune(s, 0) {
		return "holds a NUL, which neither a program nor the name of a file can have", ""
	}
	return "", ""
}

func checkURL(s string) (why, hint string) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "is not a valid URL", "such as http://127.0.0.1:8080/mail"
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "must be an http or https URL with a host", "such as http://127.0.0.1:8080/mail"
	case u.Fragment != "":
		return "has a fragment, which is never sent to a server", "leave out what follows the #"
	}
	return "", ""
}

// ours are headers that the delivery or the connection sets.
var ours = []string{"content-type", "content-length", "host", "connection", "transfer-encoding", "traceparent",
	"tracestate", "user-agent", "idempotency-key"}

type keyError struct{ why string }

func (e keyError) Error() string { return e.why }

func checkHeaderName(name string) error {
	low := strings.ToLower(name)
	switch {
	case name == "" || strings.ContainsFunc(name, func(r rune) bool {
		letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}):
		return keyError{"is not a valid header name"}
	case strings.HasPrefix(low, "pawl-") || slices.Contains(ours, low):
		return keyError{"is a header that Pawl sets itself"}
	}
	return nil
}

func checkHeaderValue(s string) (why, hint string) {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r >= 0x7f }) {
		return "holds a character that no header may hold", "use printable ASCII"
	}
	return "", ""
}
