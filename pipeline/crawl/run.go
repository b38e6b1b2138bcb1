package crawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// run is a crawl as the state of the store has it.
type run struct {
	ID        string    `json:"id"`
	Seeds     string    `json:"seeds"` // a hash of what makes two crawls the same
	Status    string    `json:"status"`
	StartedAt time.Time `json:"started_at"` // by the store's clock
	// Base are the totals of the request topic before the run.
	Base totals `json:"base"`
	// From is the cursor behind which its results begin: others are of earlier runs.
	From int64 `json:"from,omitempty"`
	// Summary is its result, once it is exported.
	Summary *Summary `json:"summary,omitempty"`

	version int64 // in the state; 0: it is not there
}

// totals of a topic since it was created.
type totals struct {
	Appended, Acked, Retried, Cancelled, Purged int64
}

const (
	statusRunning  = "running"
	statusExported = "exported"
)

// parts are what a crawl needs of a store.
type parts struct {
	store   store.Store
	entries store.Shared
	topics  store.Topics
	results store.Results
	letters store.DeadLetters
	marks   store.Shared
}

// find finds the parts, or says what is missing.
func find(s store.Store) (parts, error) {
	p := parts{store: s}
	var missing []string
	pipeline.Need(s, &p.entries, "a state", &missing)
	pipeline.Need(s, &p.topics, "settings of topics", &missing)
	pipeline.Need(s, &p.results, "results", &missing)
	pipeline.Need(s, &p.letters, "dead letters", &missing)
	pipeline.Need(s, &p.marks, "marks", &missing, store.CanMarks)
	if !store.Can(s, store.CanUnique) {
		missing = append(missing, "unique keys")
	}
	if missing != nil {
		return p, &pipeline.Error{Code: pipeline.ExitUsage, What: "this store cannot carry a crawl",
			Err:  fmt.Errorf("it has no %s", strings.Join(missing, ", no ")),
			Next: "say state: in its section, or use sqlite: or postgres://; `pawl stores` shows what each store can do"}
	}
	return p, nil
}

// seedHash tells runs apart.
func seedHash(seeds []*url.URL, o *Options) string {
	texts := make([]string, len(seeds))
	for i, u := range seeds {
		texts[i] = u.String()
	}
	slices.Sort(texts)
	return sumOf(fmt.Appendf(nil, "%q %s %d %t", texts, o.Scope, o.Depth, o.Markdown))[:32]
}

// begin finds the run that goes on, or makes a new one.
func begin(ctx context.Context, p parts, name string, seeds []*url.URL, o *Options, resume bool) (*run, error) {
	c := newCrawler(name, "", *o, seeds)
	declared := []store.Declaration{{Name: c.requestTopic(), Order: store.OrderKey, Tail: new(true)},
		{Name: c.storeTopic(), Order: store.OrderNone}}
	for _, d := range declared {
		_, err := p.topics.Declare(ctx, d)
		if errors.Is(err, store.ErrConflict) && d.Tail != nil { // an earlier version made it
			d.Tail = nil
			_, err = p.topics.Declare(ctx, d)
		}
		if err != nil {
			return nil, fmt.Errorf("declare topic %s: %w", d.Name, err)
		}
	}
	same := seedHash(seeds, o)
	last, err := load(ctx, p, name)
	switch {
	case err != nil:
		return nil, err
	case last != nil && last.Status != statusExported && last.Seeds != same:
		return nil, &pipeline.Error{Code: pipeline.ExitConflict, What: "another crawl is unfinished in this store",
			Err:  fmt.Errorf("it was started at %s", last.StartedAt.Format(time.RFC3339)),
			Next: "finish it with its own seeds, scope, depth and kind of --out, and --resume, or name another store: --store sqlite:other.db"}
	case last != nil && last.Status != statusExported && !resume:
		return nil, &pipeline.Error{Code: pipeline.ExitConflict, What: "this crawl is unfinished",
			Err:  fmt.Errorf("it was started at %s", last.StartedAt.Format(time.RFC3339)),
			Next: "go on with --resume, or begin with another store: --store sqlite:other.db"}
	case last != nil && last.Status != statusExported:
		return last, appendSeeds(ctx, p, newCrawler(name, last.ID, *o, seeds), seeds) // it may have been killed before
	}
	now, err := p.entries.Clock(ctx)
	if err != nil {
		return nil, err
	}
	r := &run{ID: pawl.NewID(), Seeds: same, Status: statusRunning, StartedAt: now}
	if r.Base, err = totalsOf(ctx, p, c.requestTopic()); err != nil {
		return nil, err
	}
	if r.From, err = scan(ctx, p, c.storeTopic(), 0, func(*outcome) error { return nil }); err != nil {
		return nil, err
	}
	if last != nil {
		r.version = last.version
	}
	if err := r.save(ctx, p, name); errors.Is(err, store.ErrConflict) { // another process began at the same time
		return begin(ctx, p, name, seeds, o, resume)
	} else if err != nil {
		return nil, err
	}
	if last != nil { // its process may have been killed before it had removed its results
		if err := clearRun(ctx, p, name, last.ID, r.From); err != nil {
			return nil, err
		}
	}
	return r, appendSeeds(ctx, p, newCrawler(name, r.ID, *o, seeds), seeds)
}

// start begins a run, or goes on with one, and makes its crawler.
func start(ctx context.Context, s store.Store, name string, seeds []*url.URL, o Options, resume bool,
	log *slog.Logger) (p parts, r *run, c *crawler, err error) {
	if p, err = find(s); err != nil {
		return p, nil, nil, err
	}
	if r, err = begin(ctx, p, name, seeds, &o, resume); err != nil {
		return p, nil, nil, err
	}
	c = newCrawler(name, r.ID, o, seeds)
	c.from, c.counted.upTo = r.From, r.From
	return p, r, c, c.remember(ctx, p, log)
}

// appendSeeds appends them. The batch has an id of the run, so that a repetition changes nothing.
func appendSeeds(ctx context.Context, p parts, c *crawler, seeds []*url.URL) error {
	var fresh []pawl.Message
	for i, u := range seeds {
		m := c.visit(u, request{})
		m.ID = pawl.EmitID(c.run, i)
		fresh = append(fresh, m)
	}
	return store.Send(ctx, p.store, fresh...)
}

func runKey(name string) string { return "crawl/" + name }

func load(ctx context.Context, p parts, name string) (*run, error) {
	var r run
	var err error
	if r.version, err = pipeline.ReadState(ctx, p.entries, runKey(name), &r); err != nil || r.version == 0 {
		return nil, err
	}
	return &r, nil
}

// clearRun removes the results of a run that is exported, up to a cursor, and the set of its URLs.
func clearRun(ctx context.Context, p parts, name, id string, upTo int64) error {
	if _, err := p.results.RemoveResults(ctx, storeTopic(name), upTo); err != nil {
		return fmt.Errorf("remove results: %w", err)
	}
	return p.marks.Forget(ctx, scopeOf(id))
}

// save stores the run, if no other process has changed it.
func (r *run) save(ctx context.Context, p parts, name string) error {
	return pipeline.WriteState(ctx, p.entries, runKey(name), r, &r.version, "crawl")
}

func totalsOf(ctx context.Context, p parts, topic string) (totals, error) {
	stats, err := p.topics.Stats(ctx, topic)
	if err != nil || len(stats) == 0 {
		return totals{}, err
	}
	t := &stats[0]
	return totals{t.Appended, t.Acked, t.Retried, t.Cancelled, t.Purged}, nil
}

// lease is short, so that what a killed process was doing moves on in seconds when it is resumed.
const lease = 5 * time.Second

// topic is the topic of requests with its handler.
func (c *crawler) topic() dispatch.Topic {
	return dispatch.Topic{
		Name: c.requestTopic(), Handler: c, Concurrency: c.options.Concurrency, Event: download, Lease: lease,
		Settings: store.Declaration{Name: c.requestTopic(), Order: store.OrderKey},
	}
}

// work carries out requests until nothing is left, or ctx ends.
func (c *crawler) work(ctx context.Context, p parts, at workplace) error {
	if c.options.MaxPages > 0 {
		if err := c.recount(ctx, p, false); err != nil {
			return err
		}
		counting, stop := context.WithCancel(ctx)
		var done sync.WaitGroup
		done.Go(func() { c.follower(counting, p, at.log) })
		defer func() { stop(); done.Wait() }()
	}
	d, err := dispatch.New(p.store, dispatch.Config{
		Topics: []dispatch.Topic{c.topic()}, Policy: at.policy, Owner: at.owner, Logger: at.log,
		DrainTimeout: c.options.Timeout + time.Second, UntilEmpty: true, Results: []string{c.storeTopic()},
	})
	if err != nil {
		return err
	}
	return d.Run(ctx)
}

// exhaust crawls until there is nothing left to ask for, and returns the depths of all pages.
func (c *crawler) exhaust(ctx context.Context, p parts, at workplace) (d *depths, err error) {
	for more := 1; err == nil && more > 0 && ctx.Err() == nil; {
		if err = c.work(ctx, p, at); err == nil && ctx.Err() == nil {
			d, more, err = c.deepen(ctx, p)
		}
	}
	if ctx.Err() != nil {
		return nil, &pipeline.Error{Code: pipeline.ExitUnfinished,
			What: fmt.Sprintf("the crawl is not finished: this process has stored %d pages", c.count.pages.Load()),
			Err:  errors.New("it was interrupted"),
			Next: "go on with the same command and --resume"}
	}
	return d, err
}

// recount counts the pages that all processes have stored since it was last called. A crawl that goes on learns from
// them: else it would look again for news at places that have none.
func (c *crawler) recount(ctx context.Context, p parts, learn bool) error {
	for {
		results, next, err := p.results.ScanResults(ctx, c.storeTopic(), c.counted.upTo, pageSize)
		if err != nil || len(results) == 0 {
			return err
		}
		for i := range results {
			var o outcome
			if json.Unmarshal(results[i].Body, &o) != nil || o.Kind != kindPage {
				continue
			}
			c.counted.pages++
			if u, err := url.Parse(o.URL); err == nil && learn {
				c.news.count(u, &o)
			}
		}
		c.counted.upTo = next
		for known := c.stored.Load(); known < c.counted.pages &&
			!c.stored.CompareAndSwap(known, c.counted.pages); known = c.stored.Load() {
		}
	}
}

// follower counts what other processes store, so that all of them together end at max-pages, or little later:
// the export takes no more.
func (c *crawler) follower(ctx context.Context, p parts, log *slog.Logger) {
	for store.Sleep(ctx, time.Second) == nil {
		if err := c.recount(ctx, p, false); err != nil && ctx.Err() == nil {
			log.Warn("cannot count the pages of other processes", "error", err)
		}
	}
}

// ofAnotherRun reports whether a request is not of this run, and what becomes of it.
func (c *crawler) ofAnotherRun(ctx context.Context, d *pawl.Delivery, u *url.URL, r request) (bool, error) {
	of := d.Unique.Scope
	switch earlier := of != "" && of != scopeOf(c.run); {
	case earlier && c.outdated != nil && c.outdated(ctx):
		return true, pawl.Release(time.Second, "it is of a run that another process has begun since")
	case c.over.Load():
		return true, pawl.Release(5*time.Second, "the crawl has ended: the next one takes it")
	case earlier:
		return true, c.replayed(d, u, r)
	}
	return false, nil
}
