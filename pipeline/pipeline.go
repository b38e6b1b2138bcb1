// Package pipeline defines pipelines: products on top of the runtime, such as a crawler or an outbox
// projection. A kind of pipeline is one value of type [Kind]: its section of the configuration, its rows of the
// policy matrix, its commands, and a function that makes a running [Pipeline] of a section.
//
// A pipeline has no queue, retry, limiter or dead-letter code of its own. Its stages are ordinary topics with
// handlers; the host runs them, so that pause, limits, policy, dead letters, explain and metrics hold for them
// like for any other topic. Topics of a pipeline are called NAME.STAGE ([Env.Topic]).
//
// The package depends neither on YAML nor on the command-line library: the host reads the configuration and
// parses the command line as [Field] and [Flag] describe, and passes checked values.
package pipeline

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// Kind is a kind of pipeline. One line in the host's table adds it to the program.
type Kind struct {
	// Name is the value of `kind:` in the configuration: crawl, project …
	Name string
	// Summary is one line for listings.
	Summary string
	// Fields are the keys of a section under `pipelines:`, beside kind.
	Fields []Field
	// Include, if not empty, is the one of Fields that names a file with another section of the kind. Its keys count
	// where the section does not state them.
	Include string
	// Top are keys that the kind adds at the top of the configuration file, such as llm.
	Top []Field
	// Rules are its rows of the policy matrix. They are in it whether a pipeline of the kind is configured or not.
	Rules []policy.Rule
	// Check, if not nil, reports problems that concern several fields, such as values that contradict
	// each other. The name is empty for a section in a file of its own, which a command completes.
	Check func(name string, s Section) []Fault
	// New makes a pipeline of a section. It may open stores and query servers, but starts nothing: that is for
	// Run. nil: the kind has only commands.
	New func(ctx context.Context, env Env) (*Pipeline, error)
	// Doctor, if not nil, looks for problems of a section, for `pawl doctor`. It changes nothing. Of env it gets
	// the Name, the Section and the Store, which may be nil if there is none yet.
	Doctor func(ctx context.Context, env Env) []Finding
	// Missing, if not nil, names the optional programs that this machine lacks, each with what needs it. For
	// the doctor.
	Missing func() map[string]string
	// Commands are added to the command line.
	Commands []Command
}

// Fault is a problem of a section.
type Fault struct {
	Path string // within the section, such as sink.url
	Why  string
	Hint string // what to do; may be empty
}

// Env is what a pipeline gets from its host.
type Env struct {
	Name    string // of the section
	Section Section
	// Store is the daemon's store, and StoreURL where it is.
	Store    store.Store
	StoreURL string
	// Open opens another store by its URL. The host closes it when the daemon ends.
	Open   func(ctx context.Context, url string) (store.Store, error)
	Logger *slog.Logger
	// Owner names this process in leases, elections and audits; no two processes share it.
	Owner   string
	Version string
	// Policy decides about failures; it follows reloads.
	Policy policy.Policy
	// Audit records a change that a person made through the pipeline, for `pawl audit ls`. It may be nil.
	Audit func(ctx context.Context, who, action, subject, change string) error
	// Redact masks the secrets of the configuration in a text.
	Redact func(string) string
}

// Topic is the name of a stage's topic: NAME.STAGE.
func (e *Env) Topic(stage string) string { return e.Name + "." + stage }

// Pipeline is a pipeline that a host carries out. Only Stages is required.
type Pipeline struct {
	// Stages are its topics.
	Stages []Stage
	// Needs are the capabilities that the daemon's store must have; without them the daemon does not
	// start.
	Needs []store.Capability
	// Run is what runs besides the stages: listeners, pollers. It returns when ctx has ended. If it returns
	// earlier, it is started again after a pause; its error is logged, and the pipeline is degraded meanwhile.
	// An error made by [Fatal] ends the daemon.
	Run func(ctx context.Context) error
	// Drained, if not nil, is called after the stages have drained and Run has returned.
	Drained func()
	// Reload applies the live keys of a new section, or says why it can't. What it changes of the Concurrency,
	// BatchSize and BatchWait of its Stages, the host applies.
	Reload func(Section) error
	// Health is called every few seconds and for /healthz; it must return quickly. nil means always
	// healthy.
	Health func(ctx context.Context) Health
	// Routes are served at the daemon's address under /pipelines/NAME, such as "GET /flag".
	Routes map[string]http.HandlerFunc
	// Metrics are exported at /metrics.
	Metrics []observe.Metric
}

// Stage is a topic of a pipeline with its handler. Its Name is that of [Env.Topic].
type Stage struct {
	dispatch.Topic
	// Store is where the topic is; nil is the daemon's store.
	Store store.Store
	// Results are topics there that the pipeline reads from beginning to end, as [dispatch.Config] has them.
	Results []string
}

// Health is the state of a pipeline.
type Health struct {
	// Degraded says why it cannot do all of its work; empty: it can.
	Degraded string
	// Unhealthy makes /healthz answer 503.
	Unhealthy bool
	// LastSuccess is when work of it last succeeded; zero: not since the start.
	LastSuccess time.Time
	// Details are members that are merged into the document of /healthz, such as "search": {"ok": true}. Values
	// that are maps are merged, too.
	Details map[string]any
}

// Finding is a problem that [Kind.Doctor] found.
type Finding struct {
	Problem string
	Next    string
	Warning bool // it is not a problem yet
}
