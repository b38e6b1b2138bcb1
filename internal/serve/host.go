package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/trace"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// HostConfig is what pipelines need of their daemon.
type HostConfig struct {
	Pipelines []config.Pipeline
	Store     store.Store
	StoreURL  string
	Open      func(ctx context.Context, url string) (store.Store, error)
	Logger    *slog.Logger
	Owner     string
	Version   string
	Policy    policy.Policy
	Redact    func(string) string
	// Drain, Observer and Events are those of the daemon's dispatcher.
	Drain    time.Duration
	Observer dispatch.Observer
	Events   dispatch.EventSink
	Tracer   *trace.Tracer // nil: none
}

// Host carries out the pipelines of a daemon, but for the stages on its own store: the daemon's dispatcher carries
// those out, with its other topics.
type Host struct {
	HostConfig
	hosted  []*hosted
	beside  []*dispatch.Dispatcher               // one for each other store that has stages
	besides map[store.Store]*dispatch.Dispatcher // the same, by store

	mu     sync.Mutex
	opened []store.Store
}

// hosted is one pipeline.
type hosted struct {
	config.Pipeline
	made *pipeline.Pipeline

	mu     sync.Mutex
	broken string // why Run ended last; empty while it runs
}

// NewHost makes the pipelines of a configuration. Nothing runs yet.
func NewHost(ctx context.Context, c HostConfig) (*Host, error) {
	h := &Host{HostConfig: c, besides: map[store.Store]*dispatch.Dispatcher{}}
	for _, p := range c.Pipelines {
		made, err := h.build(ctx, p)
		if err == nil {
			err = needs(c.Store, made.made.Needs)
		}
		if err != nil {
			h.Close()
			return nil, fmt.Errorf("pipeline %s: %w", p.Name, err)
		}
		h.hosted = append(h.hosted, made)
	}
	if err := h.dispatchBeside(); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func (h *Host) build(ctx context.Context, p config.Pipeline) (*hosted, error) {
	made, err := p.Kind.New(ctx, pipeline.Env{
		Name: p.Name, Section: p.Section, Store: h.Store, StoreURL: h.StoreURL, Open: h.open,
		Logger: h.Logger.With("pipeline", p.Name), Owner: h.Owner, Version: h.Version, Policy: h.Policy,
		Redact: h.Redact,
		Audit: func(ctx context.Context, who, action, subject, change string) error {
			return operate.Audit(ctx, h.Store, operate.AuditEntry{Who: who, Action: action, Target: subject, Count: 1,
				Change: change, Result: operate.AuditResult{Done: 1}})
		},
	})
	if err != nil {
		return nil, err
	}
	return &hosted{Pipeline: p, made: made}, nil
}

// open opens a store that is closed with the host.
func (h *Host) open(ctx context.Context, url string) (store.Store, error) {
	s, err := h.Open(ctx, url)
	if err == nil {
		h.mu.Lock()
		h.opened = append(h.opened, s)
		h.mu.Unlock()
	}
	return s, err
}

// needs refuses a store that lacks what a pipeline is built on.
func needs(s store.Store, wanted []store.Capability) error {
	d, ok := store.As[store.Describer](s)
	if !ok {
		return nil
	}
	about := d.Describe()
	var errs []error
	for _, c := range wanted {
		if !about.Capabilities.Has(c) {
			errs = append(errs, fmt.Errorf("needs %s, which %s does not have: %s", c, about.Name,
				about.Capabilities[c].Note))
		}
	}
	return errors.Join(errs...)
}

// dispatchBeside makes a dispatcher for each store, other than the daemon's, that has stages.
func (h *Host) dispatchBeside() error {
	var stores []store.Store
	topics, results := map[store.Store][]dispatch.Topic{}, map[store.Store][]string{}
	for _, p := range h.hosted {
		for _, st := range p.made.Stages {
			if h.own(&st) {
				continue
			}
			if topics[st.Store] == nil {
				stores = append(stores, st.Store)
			}
			topics[st.Store] = append(topics[st.Store], st.Topic)
			results[st.Store] = append(results[st.Store], st.Results...)
		}
	}
	for _, s := range stores {
		d, err := dispatch.New(s, dispatch.Config{
			Topics: h.Tracer.Topics(topics[s], nil), Policy: h.Policy, Owner: h.Owner, Logger: h.Logger,
			Observer: h.Observer, Events: h.Events, Version: h.Version, DrainTimeout: h.Drain, Results: results[s],
		})
		if err != nil {
			return err
		}
		h.beside = append(h.beside, d)
		h.besides[s] = d
	}
	return nil
}

// own reports whether a stage is on the daemon's store.
func (h *Host) own(st *pipeline.Stage) bool { return st.Store == nil || st.Store == h.Store }

// ownTopics are the stages of a pipeline on the daemon's store.
func (h *Host) ownTopics(p *hosted) []dispatch.Topic {
	var all []dispatch.Topic
	for _, st := range p.made.Stages {
		if h.own(&st) {
			all = append(all, st.Topic)
		}
	}
	return all
}

// Topics are the stages of all pipelines on the daemon's store.
func (h *Host) Topics() []dispatch.Topic {
	var all []dispatch.Topic
	for _, p := range h.hosted {
		all = append(all, h.ownTopics(p)...)
	}
	return all
}

// Results are the topics on the daemon's store that pipelines read from beginning to end.
func (h *Host) Results() (all []string) {
	for _, p := range h.hosted {
		for _, st := range p.made.Stages {
			if h.own(&st) {
				all = append(all, st.Results...)
			}
		}
	}
	return all
}

// Metrics are those of all pipelines. A counter that has no other label than theirs begins at 0: the rate of one that
// begins with its first event does not show that event.
func (h *Host) Metrics() []observe.Metric {
	var all []observe.Metric
	for _, p := range h.hosted {
		for _, m := range p.made.Metrics {
			if m.Counter != nil && slices.Equal(m.Labels, []string{"pipeline"}) {
				m.Counter.Add(0, p.Name)
			}
		}
		all = append(all, p.made.Metrics...)
	}
	return all
}

// Routes adds what pipelines serve to the daemon's address.
func (h *Host) Routes(mux *http.ServeMux) {
	for _, p := range h.hosted {
		for pattern, handler := range p.made.Routes {
			mux.HandleFunc(under(p.Name, pattern), handler)
		}
	}
}

// under is a pattern such as "GET /flag" below /pipelines/NAME.
func under(name, pattern string) string {
	return strings.Replace(pattern, "/", "/pipelines/"+name+"/", 1)
}

// Ready reports a dispatcher beside the daemon's that does not do its work.
func (h *Host) Ready() error {
	var errs []error
	for _, d := range h.beside {
		errs = append(errs, d.Ready())
	}
	return errors.Join(errs...)
}

// Health returns the health of all pipelines. Details are merged into one document.
func (h *Host) Health(ctx context.Context) (problems []string, unhealthy bool, details map[string]any) {
	details = map[string]any{}
	for _, p := range h.hosted {
		now := p.health(ctx)
		if now.Degraded != "" {
			problems = append(problems, "pipeline "+p.Name+": "+h.redact(now.Degraded))
		}
		unhealthy = unhealthy || now.Unhealthy
		merge(details, now.Details)
	}
	return problems, unhealthy, details
}

func (h *Host) redact(text string) string {
	if h.Redact == nil {
		return text
	}
	return h.Redact(text)
}

// merge adds the members of from to into; maps of both are merged.
func merge(into, from map[string]any) {
	for k, v := range from {
		a, isMap := into[k].(map[string]any)
		b, alsoMap := v.(map[string]any)
		if isMap && alsoMap {
			a = maps.Clone(a)
			merge(a, b)
			v = a
		}
		into[k] = v
	}
}

func (p *hosted) health(ctx context.Context) pipeline.Health {
	var now pipeline.Health
	if p.made.Health != nil {
		now = p.made.Health(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != "" && now.Degraded == "" {
		now.Degraded = p.broken
	}
	return now
}

// Reload hands the live keys of new sections to the pipelines that are configured in both, and resizes their stages.
// Those on the daemon's store are carried out by d.
func (h *Host) Reload(d *dispatch.Dispatcher, next []config.Pipeline) error {
	var errs []error
	for _, n := range next {
		for _, p := range h.hosted {
			if p.Name != n.Name || p.Kind.Name != n.Kind.Name || p.made.Reload == nil {
				continue
			}
			if err := p.made.Reload(n.Section); err != nil {
				errs = append(errs, fmt.Errorf("pipeline %s: %w", n.Name, err))
				continue
			}
			for _, st := range p.made.Stages {
				if err := h.resize(d, &st); err != nil {
					errs = append(errs, fmt.Errorf("pipeline %s: %w", n.Name, err))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// resize gives a stage the sizes that it states.
func (h *Host) resize(d *dispatch.Dispatcher, st *pipeline.Stage) error {
	if !h.own(st) {
		d = h.besides[st.Store]
	}
	err := errors.Join(d.Resize(st.Name, cmp.Or(st.Concurrency, dispatch.DefaultConcurrency)),
		d.SetPollMax(st.Name, st.PollMax))
	if st.Batch != nil {
		err = errors.Join(err, d.SetBatch(st.Name, st.BatchSize, st.BatchWait))
	}
	return err
}

// Close closes the stores that pipelines opened.
func (h *Host) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.opened {
		if err := s.Close(); err != nil {
			h.Logger.Warn("a store of a pipeline was not closed properly", "error", h.redact(err.Error()))
		}
	}
	h.opened = nil
}

// How often a pipeline's record is written, and how long it waits before its Run is called again.
const (
	recordEvery = 5 * time.Second
	againFirst  = time.Second
	againMost   = 30 * time.Second
)

// Prepare creates the topics of all stages, so that they can be listed and paused before their first message, and
// records the pipelines.
func (h *Host) Prepare(ctx context.Context) error {
	topics, ok := store.As[store.Topics](newDeclaring(h.Store, h.Owner, h.Logger))
	if !ok {
		return nil
	}
	for _, t := range h.Topics() {
		d := t.Settings
		d.Name = t.Name
		if _, err := topics.Declare(ctx, d); err != nil {
			return fmt.Errorf("topic %s: %w", t.Name, err)
		}
	}
	h.record(ctx)
	return nil
}

// Run carries out what the daemon's dispatcher does not, until ctx has ended and all of it has drained. An error
// that no repetition mends calls fail, which is to end ctx.
func (h *Host) Run(ctx context.Context, fail func(error)) error {
	var wg, stages sync.WaitGroup
	errs := make([]error, len(h.beside))
	for i, d := range h.beside {
		stages.Go(func() {
			err := d.Run(ctx)
			if err != nil {
				fail(err)
			}
			errs[i] = unasked(err)
		})
	}
	for _, p := range h.hosted {
		if p.made.Run != nil {
			wg.Go(func() { h.keepRunning(ctx, p, fail) })
		}
	}
	wg.Go(func() { // what `pawl pipelines ls` shows is kept up to date
		for store.Sleep(ctx, recordEvery) == nil {
			h.record(ctx)
		}
	})
	stages.Wait()
	wg.Wait()
	return errors.Join(errs...)
}

// Drained tells the pipelines that nothing of them runs any more, and closes their stores.
func (h *Host) Drained() {
	for _, p := range h.hosted {
		if p.made.Drained != nil {
			p.made.Drained()
		}
	}
	h.Close()
}

// keepRunning calls a pipeline's Run again when it ends early.
func (h *Host) keepRunning(ctx context.Context, p *hosted, fail func(error)) {
	for wait := againFirst; ; wait = min(2*wait, againMost) {
		began := time.Now()
		err := p.made.Run(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case pipeline.IsFatal(err):
			fail(fmt.Errorf("pipeline %s: %w", p.Name, err))
			return
		case err == nil:
			err = errors.New("it ended by itself")
		}
		if time.Since(began) > againMost {
			wait = againFirst
		}
		p.say("it does not run: " + h.redact(err.Error()))
		h.Logger.Error("a pipeline does not run; it is started again", "pipeline", p.Name, "error",
			h.redact(err.Error()), "after", wait)
		if store.Sleep(ctx, wait) != nil {
			return
		}
		p.say("")
	}
}

func (p *hosted) say(broken string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = broken
}

func (h *Host) record(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, recordEvery)
	defer cancel()
	for _, p := range h.hosted {
		now := p.health(ctx)
		r := operate.PipelineRecord{Kind: p.Kind.Name, Topics: []string{}, Degraded: h.redact(now.Degraded),
			LastSuccess: now.LastSuccess}
		for _, t := range h.ownTopics(p) {
			r.Topics = append(r.Topics, t.Name)
		}
		if err := operate.RecordPipeline(ctx, h.Store, p.Name, h.Owner, r); err != nil {
			h.Logger.Debug("the record of a pipeline could not be written", "pipeline", p.Name, "error", err)
		}
	}
}
