package project

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

func commands() []pipeline.Command {
	one := func(use, short string, effect pipeline.Effect,
		run func(context.Context, *pipeline.Invocation, *projection) error, flags ...pipeline.Flag) pipeline.Command {
		return pipeline.Command{Use: use + " NAME", Short: short, MinArgs: 1, MaxArgs: 1,
			Args: "the name of a pipeline", Flags: flags, Effect: effect,
			Run: func(ctx context.Context, in *pipeline.Invocation) error {
				p, err := find(ctx, in)
				if err != nil {
					return err
				}
				return run(ctx, in, p)
			}}
	}
	reason := pipeline.Flag{Name: "reason", Doc: "`TEXT` that says why"}
	return []pipeline.Command{{
		Use: "project", Short: "Carry changes from an outbox into a search index",
		Commands: []pipeline.Command{
			{Use: "init",
				Short: "Make the outbox in a database, and print the grants for the application's user",
				Run:   initCommand, Migrates: true,
				Flags: []pipeline.Flag{
					{Name: "capture",
						Doc: "print triggers that insert the changes of `TABLE`, for applications that cannot"},
					{Name: "projection", Doc: "the `NAME` of the projection that the triggers insert for; without it the one in the " +
						"configuration file whose source is the table"},
				},
				Example: "  pawl project init --store postgres://owner@localhost/shop | sed s/ROLE/shop_app/ | psql shop"},
			{Use: "ls", Short: "List the projections", Run: listCommand, Effect: pipeline.Looks},
			one("status", "Show the state of a projection", pipeline.Looks, statusCommand),
			one("verify", "Compare the table with the index", pipeline.Looks, verifyCommand,
				pipeline.Flag{Name: "sample", Type: pipeline.Int, Doc: "look at `N` documents only"}),
			one("rebuild", "Write all documents into a new index, and point the alias to it", pipeline.Changes,
				rebuildCommand,
				pipeline.Flag{Name: "abort", Type: pipeline.Bool,
					Doc: "end the rebuild that is under way, and remove its index"}),
			one("rollback", "Point the alias back to the index of before the last rebuild", pipeline.Changes,
				rollbackCommand),
			one("reclaim", "Take changes away from processes that hold them for too long", pipeline.Changes,
				reclaimCommand,
				pipeline.Flag{Name: "older-than", Type: pipeline.Duration,
					Doc: "take all that are held for longer than `DURATION`, also under a lease that still runs"}),
			one("replay", "Try dead letters again", pipeline.Changes, replayCommand, replayFlags()...),
			one("pause", "Stop writing to the index until it is resumed", pipeline.Changes, pauseCommand,
				pipeline.Flag{Name: "for", Type: pipeline.Duration, Doc: "resume by itself after `DURATION`"}, reason),
			one("resume", "End a pause", pipeline.Changes, resumeCommand),
			{Use: "flag NAME on|off", Short: "Tell readers whether to ask the index", MinArgs: 2, MaxArgs: 2,
				Args: "the name of a pipeline, and on or off",
				Run:  flagCommand, Effect: pipeline.Changes, Flags: []pipeline.Flag{reason}},
		},
	}}
}

func initCommand(ctx context.Context, in *pipeline.Invocation) error {
	s, err := in.Open(ctx, "", false)
	if err != nil {
		return err
	}
	if table := in.Flags.Text("capture"); table != "" {
		return captureCommand(in, s, table)
	}
	o, ok := store.As[Outbox](s)
	if !ok {
		return &pipeline.Error{Code: pipeline.ExitUsage, What: "this store cannot have an outbox",
			Err:  errors.New("it is not a database of an application"),
			Next: "name a PostgreSQL or SQLite database with --store"}
	}
	if in.DryRun {
		there, err := o.OutboxInstalled(ctx)
		if err == nil {
			_, err = fmt.Fprintf(in.Stderr, "the outbox is there: %t; nothing was changed\n", there)
		}
		return err
	}
	grants, err := o.InstallOutbox(ctx)
	if err != nil {
		return err
	}
	for _, g := range grants {
		if _, err := fmt.Fprintln(in.Stdout, g); err != nil {
			return err
		}
	}
	return nil
}

// find makes the projection that a command names, over its database.
func find(ctx context.Context, in *pipeline.Invocation) (*projection, error) {
	sections, err := in.Pipelines(Name)
	if err != nil {
		return nil, err
	}
	name := in.Args[0]
	section, ok := sections[name]
	if !ok {
		return nil, &pipeline.Error{
			Code: pipeline.ExitNotFound, What: "no projection is called " + name,
			Err:  fmt.Errorf("the configuration file has %v", slices.Sorted(maps.Keys(sections))),
			Next: "name one of them, or the file with --config",
		}
	}
	return over(ctx, in, name, section)
}

func over(ctx context.Context, in *pipeline.Invocation, name string, section pipeline.Section) (*projection, error) {
	p, err := newProjection(name, section)
	if err != nil {
		return nil, err
	}
	p.owner, p.policy, p.log = in.Owner, in.Policy, in.Logger
	s, err := in.Open(ctx, section.Text("database"), true)
	if err != nil {
		return nil, err
	}
	return p, p.use(s)
}

// status is the state of a projection.
type status struct {
	Name       string        `json:"name"`
	State      string        `json:"state"`
	Alias      string        `json:"alias"`
	Index      string        `json:"index"`
	Pending    int64         `json:"pending"`
	Processing int64         `json:"processing"`
	Stuck      int64         `json:"stuck"`
	Failed     int64         `json:"failed"`
	Oldest     float64       `json:"oldest_age_seconds"`
	Success    *time.Time    `json:"last_success_at"`
	Flag       string        `json:"flag"`
	Why        string        `json:"why,omitempty"`
	Rebuild    *rebuildState `json:"rebuild"`
}

type rebuildState struct {
	State   string     `json:"state"`
	Target  string     `json:"target"`
	Done    int64      `json:"done"`
	Total   int64      `json:"total"`
	Started *time.Time `json:"started_at"`
}

// ask determines the state of a projection without the daemon, which may be down.
func (p *projection) ask(ctx context.Context) (s status, err error) {
	s = status{Name: p.name, State: running, Alias: p.alias}
	st, err := p.state(ctx)
	if err != nil {
		return s, err
	}
	s.Index = st.Index
	now, err := p.readOutbox(ctx)
	if err != nil {
		return s, err
	}
	s.Pending, s.Processing, s.Stuck, s.Failed, s.Oldest = now.pending, now.processing, now.stuck, now.failed,
		now.oldest.Seconds()
	if !now.success.IsZero() {
		s.Success = &now.success
	}
	f, err := p.flag(ctx)
	if err != nil {
		return s, err
	}
	s.Flag = f.Read
	if st.Target != "" {
		s.Rebuild = &rebuildState{st.State, st.Target, st.Done, st.Total, st.Started}
	}
	brief, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	found, searchErr := p.search.behind(brief, p.alias)
	var h hold
	if _, err := pipeline.ReadState(ctx, p.entries, p.flagKey()+holdEntry, &h); err != nil {
		return s, err
	}
	switch {
	case now.paused != nil:
		s.State, s.Why = "paused", whyPaused(now.paused)
	case searchErr != nil:
		s.State, s.Why = "degraded", "the search index does not answer: "+searchErr.Error()
	case len(found) == 0 && st.Index != "":
		s.State, s.Why = "degraded", "the alias "+p.alias+" is missing"
	case h.lasts():
		s.State, s.Why = h.State, h.String()
	case now.pending+now.processing > 0 && now.oldest > p.limits().sla:
		s.State, s.Why = "degraded", fmt.Sprintf("the oldest change has waited for %v", now.oldest.Round(time.Second))
	case st.State == building || st.State == verifying:
		s.State = building
	case st.Error != "":
		s.State, s.Why = "degraded", st.Error
	}
	return s, nil
}

func statusCommand(ctx context.Context, in *pipeline.Invocation, p *projection) error {
	s, err := p.ask(ctx)
	if err != nil {
		return err
	}
	why, success, rebuild := "", "never", ""
	if s.Why != "" {
		why = " (" + s.Why + ")"
	}
	if s.Success != nil {
		success = s.Success.Local().Format(time.DateTime)
	}
	if r := s.Rebuild; r != nil {
		rebuild = fmt.Sprintf("rebuild into %s: %s, %d of %d\n", r.Target, r.State, r.Done, r.Total)
	}
	return in.Print(s, "%s: %s%s\nalias %s, index %s, reads %s\npending %d, processing %d, stuck %d, dead letters %d\n"+
		"oldest %.0fs, last success %s\n%s", s.Name, s.State, why, s.Alias, s.Index, s.Flag, s.Pending, s.Processing,
		s.Stuck, s.Failed, s.Oldest, success, rebuild)
}

func listCommand(ctx context.Context, in *pipeline.Invocation) error {
	sections, err := in.Pipelines(Name)
	if err != nil {
		return err
	}
	rows := []status{}
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		p, err := over(ctx, in, name, sections[name])
		if err != nil {
			return err
		}
		s, err := p.ask(ctx)
		if err != nil {
			return err
		}
		rows = append(rows, s)
	}
	return in.Rows([]string{"NAME", "STATE", "INDEX", "PENDING", "PROCESSING", "FAILED", "OLDEST", "FLAG"}, rows,
		func(i int) []string {
			s := rows[i]
			return []string{s.Name, s.State, s.Index, fmt.Sprint(s.Pending), fmt.Sprint(s.Processing),
				fmt.Sprint(s.Failed), fmt.Sprintf("%.0fs", s.Oldest), s.Flag}
		})
}

func pauseCommand(ctx context.Context, in *pipeline.Invocation, p *projection) error {
	topics, err := p.topics()
	if err != nil {
		return err
	}
	if _, err := topics.Topic(ctx, p.topic); errors.Is(err, store.ErrNotFound) {
		if _, err := topics.Declare(ctx, store.Declaration{Name: p.topic, Order: store.OrderNone,
			Deadline: p.deadline}); err != nil {
			return err
		}
	}
	if err := topics.Pause(ctx, p.topic, in.Flags.Duration("for"), in.Who, in.Flags.Text("reason")); err != nil {
		return err
	}
	return in.Audit(ctx, p.store, "project pause", p.projection, 1, in.Flags.Text("reason"))
}

func resumeCommand(ctx context.Context, in *pipeline.Invocation, p *projection) error {
	topics, err := p.topics()
	if err == nil {
		err = topics.Resume(ctx, p.topic)
	}
	for _, entry := range []string{resumeEntry, holdEntry} {
		if err == nil {
			_, err = p.entries.PutState(ctx, p.flagKey()+entry, nil, store.AnyVersion, in.Who)
		}
	}
	if err != nil {
		return err
	}
	return in.Audit(ctx, p.store, "project resume", p.projection, 1, "resumed")
}

func (p *projection) topics() (store.Topics, error) {
	topics, ok := store.As[store.Topics](p.store)
	if !ok {
		return nil, errors.New("the store has no settings of topics")
	}
	return topics, nil
}

func flagCommand(ctx context.Context, in *pipeline.Invocation) error {
	if in.Args[1] != "on" && in.Args[1] != "off" {
		return &pipeline.Error{Code: pipeline.ExitUsage, What: "the flag is on or off, not " + in.Args[1]}
	}
	p, err := find(ctx, in)
	if err != nil {
		return err
	}
	f := flag{Read: in.Args[1], Since: new(time.Now().UTC()), By: in.Who, Reason: in.Flags.Text("reason")}
	if err := p.setFlag(ctx, f); err != nil {
		return err
	}
	return in.Audit(ctx, p.store, "project flag", p.projection, 1, f.Read+": "+f.Reason)
}

func reclaimCommand(ctx context.Context, in *pipeline.Invocation, p *projection) error {
	n, err := p.reclaim(ctx, in.Flags.Duration("older-than"), in.DryRun)
	if err != nil {
		return err
	}
	if !in.DryRun {
		if err := in.Audit(ctx, p.store, "project reclaim", p.projection, n, "given back"); err != nil {
			return err
		}
	}
	return in.Print(map[string]int{"reclaimed": n}, "%s given back\n", pipeline.Some(n, "change", "changes"))
}
