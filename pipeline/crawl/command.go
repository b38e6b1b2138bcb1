package crawl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// Name is the name of a crawl from the command line: its topics are crawl.request and crawl.store.
const Name = "crawl"

// Kind is the crawler.
func Kind() pipeline.Kind {
	return pipeline.Kind{
		Name: Name, Summary: "a polite crawler: every page once, in a file", Rules: Rules(), Fields: fields(),
		Include: "module",
		Check:   checkSection, New: open,
		Commands: []pipeline.Command{command()},
	}
}

func command() pipeline.Command {
	return pipeline.Command{
		Use: "crawl URL…", Short: "Crawl sites into a file: every page once, politely, resumable", Args: "URLs",
		MaxArgs: -1, Commands: []pipeline.Command{tryCommand(), hostsCommand()},
		Long: `Crawls from the given URLs along their links, and writes a record of every page to a
file. Pages are known by their canonical URL and stored once. robots.txt is obeyed. A
host gets two requests at a time, and none while it asks for a pause.

The crawl is in the store: kill it at any moment and go on with --resume. A page that
fails is tried five times, then is a dead letter: pawl dead ls --topic crawl.request
shows it, and pawl dead replay tries it again. The file appears at the end, whole.

Exit code 0: everything is stored; 3: some is in the dead letters; 4: interrupted,
go on with --resume; 5: an unfinished crawl is in the store.

A terminal shows pages per second, the requests that are left, and the hosts: requests
that wait and that are in flight, errors, and the end of a pause. Without a terminal the
same is a line of JSON on stderr every ten seconds, and at the end.`,
		Example: `  pawl crawl https://example.com/ --out pages.jsonl   # needs a network
  pawl crawl https://example.com/docs/ --scope prefix --depth 3 --delay 1s   # needs a network
  pawl crawl --module shop.yaml   # needs a network`,
		Flags: []pipeline.Flag{
			{Name: "out", Default: "pages.jsonl",
				Doc: "write records to `FILE`: .jsonl, .csv, .db (SQLite), a folder of Markdown (DIR/), or the table pages " +
					"of a database: sqlite:FILE or postgres://…"},
			{Name: "module",
				Doc: "read seeds, limits and the fields of pages from `FILE`; a flag overrides the same line in it"},
			{Name: "depth", Type: pipeline.Int,
				Doc: "follow links at most this many steps from the given URLs (default: no bound)"},
			{Name: "max-pages", Type: pipeline.Int, Doc: "store at most this many pages (default: no bound)"},
			{Name: "scope", Type: pipeline.Choice, Choices: []string{ScopeHost, ScopeDomain, ScopePrefix, ScopeAll},
				Default: ScopeHost, Doc: "which links to follow: host, domain, prefix or all"},
			{Name: "concurrency", Type: pipeline.Int, Default: "16", Doc: "requests in flight"},
			{Name: "per-host", Type: pipeline.Int, Default: "2", Doc: "requests in flight to one host"},
			{Name: "delay", Type: pipeline.Duration, Default: "0s", Doc: "the time between two requests to a host"},
			{Name: "timeout", Type: pipeline.Duration, Default: "20s",
				Doc: "how long a request may take; it also ends after ten seconds without a byte"},
			{Name: "max-bytes", Type: pipeline.Size, Default: "10MiB",
				Doc: "the largest body; a larger one is a dead letter"},
			{Name: "user-agent", Default: defaultAgent,
				Doc: "the User-Agent; its first word is the name that robots.txt is searched for"},
			{Name: "header", Type: pipeline.Texts,
				Doc: "a header of requests, `NAME=VALUE`; can be repeated. One that may be secret, such as " +
					"Authorization or Cookie, is sent to the domains of the given URLs only"},
			{Name: "proxy", Type: pipeline.Texts,
				Doc: "send requests through the proxy at `URL`; can be repeated: the proxies that work take turns"},
			{Name: "ignore-robots", Type: pipeline.Bool,
				Doc: "ask for pages that robots.txt disallows, too, and ignore noindex and nofollow"},
			{Name: "allow-private", Type: pipeline.Bool,
				Doc: "ask addresses of private networks and of this machine, too"},
			{Name: "cache", Default: defaultCache,
				Doc: "keep pages in `FOLDER`: a later crawl fetches only what has changed. off: keep none"},
			{Name: "resume", Type: pipeline.Bool, Doc: "go on with an unfinished crawl of the same URLs, or begin"},
		},
		Run: crawl,
	}
}

// flagOptions are those of the command line, laid over those of a module.
func flagOptions(in *pipeline.Invocation) (o Options, out string, err error) {
	v := in.Flags
	headers, wrong := readHeaders(v.Texts("header"))
	errs := []error{wrong}
	o, out = Defaults(), v.Text("out")
	file := v.Text("module")
	if file != "" {
		var module string
		if o, module, wrong = moduleOptions(in, file); wrong != nil {
			return o, out, wrong // what it would have said is not missing
		}
		if module != "" && !v.Changed("out") {
			out = module
		}
	}
	given := func(name string) bool { return file == "" || v.Changed(name) }
	if len(in.Args) > 0 {
		o.Seeds = in.Args
	}
	over(&o.Scope, v.Text("scope"), given("scope"))
	over(&o.MaxPages, v.Int("max-pages"), given("max-pages"))
	over(&o.Concurrency, int(v.Int("concurrency")), given("concurrency"))
	over(&o.PerHost, int(v.Int("per-host")), given("per-host"))
	over(&o.Delay, v.Duration("delay"), given("delay"))
	over(&o.Timeout, v.Duration("timeout"), given("timeout"))
	over(&o.MaxBytes, v.Int("max-bytes"), given("max-bytes"))
	over(&o.UserAgent, v.Text("user-agent"), given("user-agent"))
	over(&o.Headers, headers, given("header"))
	over(&o.Proxies, v.Texts("proxy"), given("proxy"))
	over(&o.IgnoreRobots, v.Bool("ignore-robots"), given("ignore-robots"))
	over(&o.AllowPrivate, v.Bool("allow-private"), given("allow-private"))
	over(&o.Cache, v.Text("cache"), given("cache"))
	over(&o.Depth, v.Int("depth"), v.Changed("depth"))
	errs = append(errs, formatOf(out))
	o.Markdown = isFolder(out)
	for name, n := range map[string]int64{"concurrency": int64(o.Concurrency), "per-host": int64(o.PerHost),
		"max-bytes": o.MaxBytes, "timeout": int64(o.Timeout)} {
		if n < 1 {
			errs = append(errs, fmt.Errorf("--%s has to be at least 1", name))
		}
	}
	if v.Changed("depth") && o.Depth < 0 || o.MaxPages < 0 || v.Changed("max-pages") && o.MaxPages == 0 {
		errs = append(errs, errors.New("--depth is at least 0, --max-pages at least 1"))
	}
	return o, out, errors.Join(errs...)
}

func over[T any](option *T, value T, given bool) {
	if given {
		*option = value
	}
}

// usage is an error of the command line.
func usage(err error) error {
	return &pipeline.Error{Code: pipeline.ExitUsage, What: "this crawl cannot run", Err: err,
		Next: "correct it; `pawl crawl --help` has examples"}
}

// crawl is the command.
func crawl(ctx context.Context, in *pipeline.Invocation) error {
	o, out, err := flagOptions(in)
	if o.Scope == "" {
		return usage(err)
	}
	seeds, wrong := o.check()
	if err := errors.Join(err, wrong); err != nil {
		return usage(err)
	}
	if in.DryRun {
		_, err := fmt.Fprintf(in.Stderr, "would crawl %v into %s\n", o.Seeds, shown(out))
		return err
	}
	if err := probe(out); err != nil {
		return err
	}
	s, err := in.Open(ctx, o.State, false)
	if err != nil {
		return err
	}
	began := time.Now()
	p, r, c, err := start(ctx, s, Name, seeds, o, in.Flags.Bool("resume"), in.Logger)
	if err != nil {
		return err
	}
	figures := &board{ctx: ctx, c: c, parts: p, began: began}
	stopBoard := figures.show(in)
	d, err := c.exhaust(ctx, p, workplace{policy: in.Policy, owner: in.Owner, log: in.Logger})
	stopBoard()
	if err != nil {
		return err
	}
	return finish(ctx, in, p, c, r, d, began, out)
}

// finish exports the pages, prints the summary, and removes what is exported.
func finish(ctx context.Context, in *pipeline.Invocation, p parts, c *crawler, r *run, d *depths, began time.Time,
	out string) error {
	sum, err := conclude(ctx, p, c, r, d, out)
	if err != nil {
		return err
	}
	sum.ElapsedSeconds = time.Since(began).Seconds()
	if err := sum.print(in); err != nil {
		return err
	}
	if sum.Dead > 0 {
		return &pipeline.Error{Code: pipeline.ExitPartly, What: pipeline.Some(sum.Dead, "request is a dead letter",
			"requests are dead letters"),
			Err:  errors.New("they failed for good, or five times"),
			Next: "look with `pawl dead ls --topic " + c.requestTopic() + " --group-by fingerprint`"}
	}
	return nil
}

func checkSection(name string, s pipeline.Section) []pipeline.Fault {
	o, err := sectionOptions(s)
	var faults []pipeline.Fault
	if all, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok { // of the rules, each by its key
		for _, wrong := range all.Unwrap() {
			path, why, _ := strings.Cut(wrong.Error(), ": ")
			faults = append(faults, pipeline.Fault{Path: path, Why: why})
		}
	}
	if name == "" { // of a module; --allow-private goes with it, and the command looks at the seeds again
		o.AllowPrivate = true
	}
	if len(o.Seeds) > 0 || name != "" { // a module leaves them to the command line
		if _, err := o.check(); err != nil {
			faults = append(faults, pipeline.Fault{Path: "seeds", Why: err.Error()})
		}
	}
	if out := s.Text("out"); out != "" && formatOf(out) != nil {
		faults = append(faults, pipeline.Fault{Path: "out", Why: formatOf(out).Error()})
	}
	return faults
}

// open makes a crawl in a daemon: its seeds are crawled once, and its pages exported when nothing is left.
func open(ctx context.Context, env pipeline.Env) (*pipeline.Pipeline, error) {
	o, err := sectionOptions(env.Section)
	if err != nil {
		return nil, err
	}
	seeds, err := o.check()
	if err != nil {
		return nil, err
	}
	home := env.Store
	if o.State != "" {
		if home, err = env.Open(ctx, o.State); err != nil {
			return nil, fmt.Errorf("open the store of state: %w", err)
		}
	}
	out := env.Section.Text("out")
	if out == "" {
		out = env.Name + ".jsonl"
	}
	o.Markdown = isFolder(out)
	p, r, c, err := start(ctx, home, env.Name, seeds, o, true, env.Logger)
	if e, ok := errors.AsType[*pipeline.Error](err); ok && e.Code == pipeline.ExitConflict {
		e.Next = fmt.Sprintf("give pipelines.%s the seeds, scope, depth and kind of out back until that crawl is "+
			"finished, or crawl under another name, or in a store of its own: state: sqlite:other.db", env.Name)
	}
	if err != nil {
		return nil, err
	}
	return &pipeline.Pipeline{
		Stages: []pipeline.Stage{{Store: home, Topic: c.topic(), Results: []string{c.storeTopic()}}},
		Run:    func(ctx context.Context) error { return c.watch(ctx, p, r, out, env) },
	}, nil
}

// watch exports when the topic of requests is empty.
func (c *crawler) watch(ctx context.Context, p parts, r *run, out string, env pipeline.Env) error {
	for {
		if store.Sleep(ctx, 2*time.Second) != nil {
			return nil
		}
		if c.options.MaxPages > 0 {
			if err := c.recount(ctx, p, false); err != nil {
				return err
			}
		}
		stats, err := p.topics.Stats(ctx, c.requestTopic())
		if err != nil {
			return err
		}
		if r.Status == statusExported || len(stats) == 0 || stats[0].Waiting+stats[0].Delayed+stats[0].Leased > 0 {
			continue
		}
		d, more, err := c.deepen(ctx, p)
		if err != nil {
			return err
		}
		if more > 0 {
			continue
		}
		c.over.Store(true)
		sum, err := conclude(ctx, p, c, r, d, out)
		if err != nil {
			c.over.Store(false)
			return err
		}
		r.Status = statusExported
		env.Logger.Info("the crawl is finished", "stored", sum.Stored, "dead", sum.Dead, "out", sum.Out)
	}
}
