// Package project is the pipeline that carries changes of documents from an outbox, which an application
// fills in its own transactions, into a search index: OpenSearch or Elasticsearch.
//
// A change is a message of the topic PROJECTION.index from its commit on, so that pause, limits, dead letters
// and explain hold for it. External versions make retries, repetitions and replays converge; tombstones do
// where the index forgets.
package project

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// Name is the kind of these pipelines in the configuration.
const Name = "project"

// Kind is the kind of these pipelines.
func Kind() pipeline.Kind {
	return pipeline.Kind{
		Name: Name, Summary: "changes from an outbox in your own transaction into a search index",
		Fields: fields(), Rules: rules(), Check: check, New: build, Doctor: doctor, Commands: commands(),
	}
}

func fields() []pipeline.Field {
	seconds := func(name, def, doc string, live bool) pipeline.Field {
		return pipeline.Field{Name: name, Type: pipeline.Int, Default: def, Min: 1, Max: 86400, Doc: doc, Live: live}
	}
	return []pipeline.Field{
		{Name: "projection", DefaultDoc: "the name of the pipeline",
			Doc: "What writers insert in the column projection.", Check: checkProjection},
		{Name: "database", Type: pipeline.StoreURL, DefaultDoc: "the daemon's store",
			Doc: "The application's database: the store in it holds the outbox."},
		{Name: "sink", Type: pipeline.Object, Required: true, Doc: "The search index.", Fields: []pipeline.Field{
			{Name: "url", Type: pipeline.URL, Required: true, Doc: "The address of OpenSearch or Elasticsearch.",
				Check: pipeline.CheckBase},
			{Name: "index", Required: true,
				Doc: "The alias that applications search. It points to INDEX-000001 and so on.", Check: checkIndex},
			{Name: "username", Doc: "For basic authentication."},
			{Name: "password", Secret: true, Doc: "For basic authentication."},
			{Name: "api_key", Secret: true, Doc: "An API key, in place of a user."},
			{Name: "ca_file", Doc: "Certificates of the authority that signed the server's, in PEM.",
				Check: usable(authority)},
		}},
		{Name: "mapping",
			Doc:   "A JSON file with settings and mappings of a new index. Without a refresh_interval there, it is 500ms.",
			Check: usable(func(file string) ([]byte, error) { return readMapping(file, 0) })},
		{Name: "batch_size", Type: pipeline.Int, Default: "500", Min: 1, Max: 10000,
			Doc: "Changes in a bulk request at most.", Live: true},
		{Name: "batch_bytes", Type: pipeline.Size, Default: "5MiB", Min: 1 << 10, Max: 100 << 20,
			Doc: "Bytes of a bulk request at most; one larger document goes alone.", Live: true},
		{Name: "batch_wait", Type: pipeline.Duration, Default: "200ms", Max: int64(10 * time.Second),
			Doc: "How long a batch that is not full waits for more.", Live: true},
		{Name: "concurrency", Type: pipeline.Int, Default: "2", Min: 1, Max: 64,
			Doc: "The most bulk requests at the same time; there are fewer while the index is overloaded.", Live: true},
		seconds("lease_seconds", "30", "After how long another process takes over the work of a dead one.", false),
		{Name: "poll_interval", Type: pipeline.Duration, Default: "500ms", Min: int64(10 * time.Millisecond),
			Max: int64(time.Minute), Doc: "How often it looks for changes without a notification.", Live: true},
		seconds("max_processing_seconds", "120",
			"After how long a change is taken away from a process that still renews its lease.", false),
		{Name: "max_attempts", Type: pipeline.Int, Default: "20", Min: 1, Max: policy.MaxAttempts,
			Doc: "Attempts of a change that fails with 5xx or a timeout while others succeed.", Live: true},
		{Name: "backoff", Type: pipeline.Object,
			Doc: "The wait before a retry: at least base, doubling up to max, with full jitter.", Live: true,
			Fields: []pipeline.Field{
				{Name: "base", Type: pipeline.Duration, Default: "1s", Max: int64(time.Hour), Doc: "The shortest wait.",
					Live: true},
				{Name: "max", Type: pipeline.Duration, Default: "60s", Max: int64(24 * time.Hour),
					Doc: "The longest wait.", Live: true},
			}},
		seconds("sla_seconds", "60", "How old the oldest change may get before the pipeline is degraded.", true),
		{Name: "gc_deletes", Type: pipeline.Duration, Default: "24h", Min: int64(time.Second),
			Doc: "For how long deletions stay on record, here and in new indices."},
		{Name: "source", Type: pipeline.Object,
			Doc: "The table that the documents come from, for rebuild and verify. The values are SQL expressions over the table.",
			Fields: []pipeline.Field{
				{Name: "table", Doc: "The table, or a view."},
				{Name: "key", Doc: "A unique column to read pages by. On SQLite it needs a type: " +
					"`CAST(id AS INTEGER)` where the column has none."},
				{Name: "doc_id", Doc: "The id of a document, as text."},
				{Name: "version", DefaultDoc: "0: any change is newer", Doc: "The version of a document."},
				{Name: "doc", Doc: "The document, as JSON."},
			}},
	}
}

var (
	checkProjection = pipeline.CheckForm(`[A-Za-z0-9._-]{1,100}`, "is made of 1 to 100 of A-Z a-z 0-9 . _ -")
	checkIndex      = pipeline.CheckForm(`[a-z0-9][a-z0-9._-]{0,200}`,
		"is made of a-z 0-9 . _ - and begins with a letter or digit")
)

// usable is a [pipeline.Field.Check] of the name of a file.
func usable[T any](read func(string) (T, error)) func(string) error {
	return func(file string) error {
		if _, err := read(file); err != nil {
			return fmt.Errorf("cannot be used: %w", err)
		}
		return nil
	}
}

func check(_ string, s pipeline.Section) (faults []pipeline.Fault) {
	if b := s.Section("backoff"); b.Duration("max") < b.Duration("base") {
		faults = append(faults, pipeline.Fault{Path: "backoff.max", Why: "is less than backoff.base"})
	}
	if s.Int("max_processing_seconds") < s.Int("lease_seconds") {
		faults = append(faults, pipeline.Fault{Path: "max_processing_seconds", Why: "is less than lease_seconds",
			Hint: "a lease would never be renewed"})
	}
	source := s.Section("source")
	if !source.Has("table") && !source.Has("key") && !source.Has("doc_id") && !source.Has("doc") {
		return faults
	}
	for _, name := range []string{"table", "key", "doc_id", "doc"} {
		if !source.Has(name) {
			faults = append(faults, pipeline.Fault{Path: "source." + name, Why: "is missing"})
		}
	}
	return faults
}

// build makes a pipeline.
func build(ctx context.Context, env pipeline.Env) (*pipeline.Pipeline, error) {
	p, err := newProjection(env.Name, env.Section)
	if err != nil {
		return nil, err
	}
	p.policy, p.log, p.owner = env.Policy, env.Logger, env.Owner
	if env.Redact != nil {
		p.redact = env.Redact
	}
	s := env.Store
	if url := env.Section.Text("database"); url != "" {
		if s, err = env.Open(ctx, url); err != nil {
			return nil, err
		}
	}
	if err := p.use(s); err != nil {
		return nil, err
	}
	if err := p.prepare(ctx); err != nil {
		return nil, err
	}
	p.limiter, err = dispatch.NewLimiter(dispatch.LimitConfig{Name: p.topic, Size: p.window.allowed})
	if err != nil {
		return nil, err
	}
	p.window.park("the index was not looked at yet")
	l := p.limits()
	made := &pipeline.Pipeline{
		Stages: []pipeline.Stage{{Store: s, Topic: dispatch.Topic{
			Name: p.topic, Batch: p, BatchSize: l.batch, BatchWait: l.wait, Concurrency: l.concurrency, Lease: p.lease,
			PollMax: l.poll,
			Retries: policy.Retries{Attempts: policy.DefaultAttempts}, // where a row states none
			Limits:  []*dispatch.Limiter{p.limiter}, Policy: &topicPolicy{Policy: env.Policy, p: p},
			Settings: store.Declaration{Name: p.topic, Order: store.OrderNone, Deadline: p.deadline},
		}}},
		Run: p.run, Health: p.health, Routes: p.routes(), Metrics: p.figures.metrics(p),
	}
	made.Reload = func(s pipeline.Section) error {
		l := p.reload(s)
		stage := &made.Stages[0]
		stage.BatchSize, stage.BatchWait, stage.Concurrency, stage.PollMax = l.batch, l.wait, l.concurrency, l.poll
		return nil
	}
	return made, nil
}

// prepare makes the outbox if it is not there, agrees on the settings of the topic, and tries the source.
func (p *projection) prepare(ctx context.Context) error {
	there, err := p.outbox.OutboxInstalled(ctx)
	if err == nil && !there {
		_, err = p.outbox.InstallOutbox(ctx)
	}
	if err == nil {
		err = p.outbox.OutboxTopic(ctx, p.projection)
	}
	if err != nil {
		return &pipeline.Error{What: "the outbox is not there", Err: err,
			Next: "make it as the owner of the database: pawl project init --store URL"}
	}
	if err := p.source.try(ctx, p.rows); err != nil {
		return &pipeline.Error{Code: pipeline.ExitUsage, What: "the source of projection " + p.projection +
			" cannot be read", Err: err, Next: "correct pipelines." + p.name + ".source"}
	}
	topics, err := p.topics()
	if err != nil {
		return err
	}
	t, err := topics.Topic(ctx, p.topic)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err == nil && t.Version > 0 && t.Deadline != p.deadline {
		t.Deadline = p.deadline
		_, err = topics.Alter(ctx, t)
	}
	return err
}

// indexAfter is the name of the index that follows one of an alias.
func indexAfter(alias, index string) string {
	n := 0
	if len(index) > len(alias)+1 {
		n, _ = strconv.Atoi(index[len(alias)+1:])
	}
	return fmt.Sprintf("%s-%06d", alias, n+1)
}
