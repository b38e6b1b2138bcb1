package config

import (
	"errors"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cron"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// Config is a valid configuration.
type Config struct {
	// File is where it was read from; empty if there is none.
	File        string
	Store       string
	Mirror      string // empty: none
	AutoMigrate bool
	Node        string
	Listen      string // or [Off]
	Drain       time.Duration
	Logger      Logger
	EventsFile  string  // empty: none
	Topics      []Topic // by name
	Limits      []Limit // by name
	Overrides   []policy.Override
	Pipelines   []Pipeline      // by name
	Schedules   []cron.Schedule // by name
	API         API
	Traces      Traces
	Console     Console
	// Secrets are what came from the environment and from files into URLs and
	// headers: logs must not show them.
	Secrets []string
	// Warnings are about values that are valid, but probably not intended.
	Warnings Problems

	root *node
	tops map[string]pipeline.Section
}

// Limit is what a downstream takes. What is zero is not bounded.
type Limit struct {
	Name        string
	By          string // [ByAll], [ByKey], [ByTopic], or header:NAME
	PerSecond   float64
	Burst       int
	Concurrency int
	Adaptive    int
	Shared      bool
}

// Topic is a topic and who carries it out.
type Topic struct {
	Name    string
	Handler string // [Exec], [Pipe] or [HTTP]

	Command  string
	InFlight int

	URL     string
	Method  string
	Headers map[string]string
	Timeout time.Duration

	Concurrency int
	Reserved    int
	Lease       time.Duration
	PerSecond   float64 // 0: not limited
	Adaptive    bool
	Limits      []string // by name
	Retries     policy.Retries
	Objective   time.Duration // 0: none
	Settings    store.Declaration
}

// bind gives the values their types.
func (w *walker) bind(root *node) *Config {
	c := &Config{
		File: w.source.Path, Store: get[string](root, "store"), Mirror: get[string](root, "mirror"),
		AutoMigrate: get[bool](root, "auto_migrate"), Node: get[string](root, "node"),
		Listen: get[string](root, "listen"), Drain: get[time.Duration](root, "drain"),
		Logger: bindLogger(root.at("logger")), Secrets: w.secrets, root: root,
	}
	c.API, c.Traces, c.Console = bindAPI(root.at("api")), bindTraces(root.at("traces")), bindConsole(root.at("console"))
	c.EventsFile = get[string](root.at("events"), "file")
	for name, n := range root.at("limits").inOrder() {
		c.Limits = append(c.Limits, Limit{
			Name: name, By: get[string](n, "by"), PerSecond: get[float64](n, "rate"), Burst: get[int](n, "burst"),
			Concurrency: get[int](n, "concurrency"), Adaptive: get[int](n, "adaptive"), Shared: get[bool](n, "shared"),
		})
	}
	for name, n := range root.at("topics").inOrder() {
		c.Topics = append(c.Topics, bindTopic(name, n))
	}
	if p := root.at("policy"); p != nil && p.at("overrides") != nil {
		c.Overrides = w.bindOverrides(p.at("overrides").items)
	}
	return c
}

func bindTopic(name string, n *node) Topic {
	t := Topic{
		Name: name, Handler: get[string](n, "handler"), Command: get[string](n, "command"),
		InFlight: get[int](n, "in_flight"),
		URL:      get[string](n, "url"), Method: get[string](n, "method"), Timeout: get[time.Duration](n, "timeout"),
		Concurrency: get[int](n, "concurrency"), Reserved: get[int](n, "reserved"),
		Lease: get[time.Duration](n, "lease"), PerSecond: get[float64](n, "limit"),
		Limits: n.at("limits").texts(), Headers: n.at("headers").byName(),
		Adaptive: get[bool](n, "adaptive"), Objective: get[time.Duration](n, "objective"),
		Settings: store.Declaration{
			Name: name, Order: store.Order(get[string](n, "order")), Deadline: get[time.Duration](n, "deadline"),
			Ageing: get[time.Duration](n, "ageing"),
			Park:   stated[bool](n, "park"), Retain: stated[time.Duration](n, "retain"),
		},
	}
	if most, ok := find[int](n, "max_waiting"); ok {
		t.Settings.MaxWaiting = new(int64(most))
	}
	if retry := n.at("retry"); retry != nil {
		b := retry.at("backoff")
		t.Retries = policy.Retries{Attempts: get[int](retry, "attempts"), For: get[time.Duration](retry, "for"),
			Base: get[time.Duration](b, "base"), Max: get[time.Duration](b, "max")}
		if place, ok := find[string](retry, "place"); ok {
			t.Settings.Tail = new(place == "tail")
		}
	}
	return t
}

// bindOverrides checks the overrides with the policy. It is not asked about one whose
// match has a fault: what is left of that matches something else.
func (w *walker) bindOverrides(items []*node) []policy.Override {
	var all []policy.Override
	var from []*node
	for _, n := range items {
		if m := n.at("match"); m != nil && m.sound() {
			all, from = append(all, bindOverride(n)), append(from, n)
		}
	}
	_, err := policy.NewMatrixOf(nil, w.rules(), all...)
	for _, e := range apart[*policy.OverrideError](err) {
		n := from[e.Index].find(e.Field)
		w.refuse(n, "", "%s", e.Why)
	}
	return all
}

func bindOverride(n *node) policy.Override {
	m := n.at("match")
	o := policy.Override{
		Match: policy.Match{
			Domain: get[string](m, "domain"), Type: get[string](m, "type"), Phase: get[string](m, "phase"),
			Kind: pawl.Kind(get[string](m, "kind")),
		},
		MaxAttempts: stated[int](n, "max_attempts"), Origin: n.origin,
	}
	if retry, ok := find[bool](n, "retry"); ok {
		o.Repeat = new(map[bool]policy.Repeat{true: policy.Repeated, false: policy.NotRepeated}[retry])
	}
	if b := n.at("backoff"); b != nil && b.sound() { // its parts are weighed against each other
		o.Backoff = &policy.BackoffChange{Base: stated[time.Duration](b, "base"), Max: stated[time.Duration](b, "max")}
		o.Backoff.Shape = named(b, "shape", policy.Exponential, policy.Linear)
	}
	if o.Match.Type != "" && o.Match.Domain == "" {
		o.Match.Domain = policy.DomainOf(o.Match.Type)
	}
	o.DeadLetter = named(n, "dead_letter", policy.WhenExhausted, policy.Always, policy.Never)
	o.Alert = named(n, "alert", policy.Info, policy.Warn, policy.Error, policy.Critical)
	return o
}

// named finds the one of values that a key names.
func named[T interface{ String() string }](n *node, name string, values ...T) *T {
	text, ok := find[string](n, name)
	for i := range values {
		if ok && values[i].String() == text {
			return &values[i]
		}
	}
	return nil
}

// apart takes joined errors apart, and returns those of a type.
func apart[E error](err error) []E {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		var all []E
		for _, e := range many.Unwrap() {
			all = append(all, apart[E](e)...)
		}
		return all
	}
	if e, ok := errors.AsType[E](err); ok {
		return []E{e}
	}
	return nil
}
