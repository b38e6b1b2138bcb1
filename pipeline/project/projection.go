package project

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// projection is one projection, as used by the daemon and the commands.
type projection struct {
	name, projection, topic, alias string
	lease, deadline, gcDeletes     time.Duration
	mapping                        []byte // of a new index

	search *search
	source *source

	// Of the database.
	store   store.Store
	entries store.Shared
	marks   store.Shared
	outbox  Outbox
	rows    Rows

	// Of a daemon.
	owner    string
	policy   policy.Policy
	log      *slog.Logger
	redact   func(string) string
	limiter  *dispatch.Limiter
	window   *window
	figures  *figures
	suspects suspects
	failed   failures // of the page of the rebuild that is under way, see insist
	random   func() float64

	resumed *int64    // the version of the entry of the last resume, once it was looked for
	held    time.Time // the end of the pause that is in the state

	mu      sync.Mutex
	live    limits
	known   state
	success time.Time
	pulse   lastSeen
}

// limits are the keys that a reload applies.
type limits struct {
	batch, concurrency, attempts int
	bytes                        int64
	backoff                      policy.Backoff
	sla, poll, wait              time.Duration
}

func limitsOf(s pipeline.Section) limits {
	b := s.Section("backoff")
	return limits{
		batch: int(s.Int("batch_size")), concurrency: int(s.Int("concurrency")), attempts: int(s.Int("max_attempts")),
		bytes:   s.Int("batch_bytes"),
		backoff: policy.Backoff{Shape: policy.Exponential, Base: b.Duration("base"), Max: b.Duration("max")},
		sla:     time.Duration(s.Int("sla_seconds")) * time.Second, poll: s.Duration("poll_interval"),
		wait: s.Duration("batch_wait"),
	}
}

// projectionOf is what writers insert in the column projection.
func projectionOf(name string, s pipeline.Section) string { return cmp.Or(s.Text("projection"), name) }

// newProjection makes a projection of its section. It does no I/O yet.
func newProjection(name string, s pipeline.Section) (*projection, error) {
	p := &projection{
		name: name, projection: projectionOf(name, s), alias: s.Section("sink").Text("index"),
		lease:    time.Duration(s.Int("lease_seconds")) * time.Second,
		deadline: time.Duration(s.Int("max_processing_seconds")) * time.Second, gcDeletes: s.Duration("gc_deletes"),
		log: slog.Default(), redact: func(s string) string { return s }, window: &window{}, figures: &figures{},
		random: rand.Float64, failed: failures{},
	}
	p.topic = p.projection + "." + OutboxStage
	p.live = limitsOf(s)
	p.window.set(p.live.concurrency)
	if from := s.Section("source"); from.Has("table") {
		p.source = newSource(from)
	}
	var err error
	if p.search, err = newSearch(s.Section("sink")); err != nil {
		return nil, err
	}
	p.mapping, err = readMapping(s.Text("mapping"), p.gcDeletes)
	return p, err
}

// refreshEvery is how often a new index makes what was written searchable. Once a second, the default, would keep
// changes from being searchable within a second of their commit.
const refreshEvery = "500ms"

// readMapping reads the settings and mappings of a new index, and adds for how long it remembers deletions and how
// often it refreshes, unless the file states it.
func readMapping(file string, gc time.Duration) ([]byte, error) {
	body := map[string]any{}
	if file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, &body); err != nil {
			return nil, fmt.Errorf("%s is no JSON object: %w", file, err)
		}
	}
	settings, _ := body["settings"].(map[string]any)
	if settings == nil {
		settings = map[string]any{}
	}
	unlessStated(settings, "gc_deletes", fmt.Sprintf("%ds", max(int(gc.Seconds()), 1)))
	unlessStated(settings, "refresh_interval", refreshEvery)
	body["settings"] = settings
	return json.Marshal(body)
}

// unlessStated adds a setting of an index that has none of its three forms.
func unlessStated(settings map[string]any, name, value string) {
	index, _ := settings["index"].(map[string]any)
	_, flat := settings["index."+name]
	_, short := settings[name]
	if _, nested := index[name]; !flat && !short && !nested {
		settings["index."+name] = value
	}
}

// use takes the store of the database.
func (p *projection) use(s store.Store) error {
	var missing []string
	p.store = s
	pipeline.Need(s, &p.entries, "state", &missing)
	pipeline.Need(s, &p.marks, "marks", &missing, store.CanMarks)
	pipeline.Need(s, &p.outbox, "outbox", &missing)
	pipeline.Need(s, &p.rows, "rows", &missing)
	if missing != nil {
		return &pipeline.Error{
			Code: pipeline.ExitUsage, What: "the database of projection " + p.projection + " cannot have an outbox",
			Err:  errors.New("it is neither PostgreSQL nor SQLite"),
			Next: "name the application's database: pipelines." + p.name + ".database",
		}
	}
	return nil
}

func (p *projection) limits() limits {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.live
}

func (p *projection) reload(s pipeline.Section) limits {
	next := limitsOf(s)
	p.mu.Lock()
	p.live = next
	p.mu.Unlock()
	p.window.set(next.concurrency)
	p.reopen()
	return next
}

// reopen lets the dispatcher look again at what the window allows.
func (p *projection) reopen() {
	if p.limiter != nil {
		_ = p.limiter.Set(0, 0, 0) // the window has no numbers; this wakes its waiters
	}
}

func (p *projection) succeeded() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.success = time.Now()
}

// state is what all processes share of a projection, in the store's state.
type state struct {
	State    string     `json:"state"` // running, building, verifying, failed
	Alias    string     `json:"alias"`
	Index    string     `json:"index"`
	Previous string     `json:"previous,omitempty"` // written to until the next rebuild, for a rollback
	Target   string     `json:"target,omitempty"`   // of a rebuild under way
	Done     int64      `json:"done"`
	Total    int64      `json:"total"`
	Verdict  string     `json:"verdict,omitempty"`
	Started  *time.Time `json:"started_at,omitempty"`
	After    *string    `json:"after,omitempty"` // the key of the last row of the last page
	Error    string     `json:"error,omitempty"`

	version int64
}

// The states of a projection.
const (
	running   = "running"
	building  = "building"
	verifying = "verifying"
)

// targets are what a change is written to, the searched index first. Where there are others, it is written to by its
// own alias as well: the one that is searched moves before the state says so, or stays if the answer is lost.
func (s *state) targets(alias string) []string {
	if s.Target == "" && s.Previous == "" {
		return []string{alias}
	}
	var all []string
	for _, index := range []string{s.Index, s.Target, s.Previous} {
		if index != "" {
			all = append(all, writeAlias(index))
		}
	}
	return all
}

// writeAlias is the alias under which changes are written to one of several indices, so that an index that was removed
// meanwhile is not created again by accident.
func writeAlias(index string) string { return ".pawl-" + index }

func (p *projection) key() string { return OutboxState + p.projection }

// state reads the state; the zero one if there is none yet.
func (p *projection) state(ctx context.Context) (s state, err error) {
	s.version, err = pipeline.ReadState(ctx, p.entries, p.key(), &s)
	if s.version == 0 {
		return state{State: running, Alias: p.alias}, err
	}
	p.mu.Lock()
	p.known = s
	p.mu.Unlock()
	return s, err
}

// put stores a changed state; store.ErrConflict if another process changed it meanwhile.
func (p *projection) put(ctx context.Context, s *state) error {
	s.Alias = p.alias
	return pipeline.WriteState(ctx, p.entries, p.key(), s, &s.version, p.owner)
}

// flag is the switch of the read side.
type flag struct {
	Read   string     `json:"read"`
	Since  *time.Time `json:"since,omitempty"`
	By     string     `json:"by,omitempty"`
	Reason string     `json:"reason,omitempty"`
}

func (p *projection) flagKey() string { return "project flag/" + p.projection }

func (p *projection) flag(ctx context.Context) (flag, error) {
	f := flag{Read: "on"}
	_, err := pipeline.ReadState(ctx, p.entries, p.flagKey(), &f)
	return f, err
}

var _ pawl.BatchHandler = (*projection)(nil)
