package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/cron"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/wire"
)

// scheduleBody is a schedule: the flags of the command as fields.
type scheduleBody struct {
	Cron                string            `json:"cron"`
	EverySeconds        float64           `json:"every_seconds"`
	Zone                string            `json:"zone"`
	Topic               string            `json:"topic"`
	Body                string            `json:"body"`
	JSON                json.RawMessage   `json:"json"`
	Key                 string            `json:"key"`
	Priority            int               `json:"priority"`
	Headers             map[string]string `json:"headers"`
	JitterSeconds       float64           `json:"jitter_seconds"`
	Overlap             string            `json:"overlap"`
	Missed              string            `json:"missed"`
	MissedWithinSeconds float64           `json:"missed_within_seconds"`
	Paused              bool              `json:"paused"`
	reasonBody
}

type runBody struct {
	At *time.Time `json:"at"`
	reasonBody
}

type backfillBody struct {
	Since  *time.Time `json:"since"`
	Until  *time.Time `json:"until"`
	Rate   *float64   `json:"rate"`
	DryRun bool       `json:"dry_run"`
	reasonBody
}

// mostTicks is how many ticks a backfill sends at most while a request waits.
const mostTicks = 10_000

func (x *exchange) scheduler() (*cron.Scheduler, error) {
	return cron.New(x.api.store, cron.Config{Owner: x.caller.name, Logger: x.api.config.Logger})
}

// schedule is the schedule of a path.
func (x *exchange) schedule(ctx context.Context) (c *cron.Scheduler, s cron.Status, err error) {
	if err = x.needWhole(); err == nil {
		c, err = x.scheduler()
	}
	if err == nil {
		s, err = c.Status(ctx, x.r.PathValue("name"))
	}
	return c, s, err
}

func (x *exchange) listSchedules(ctx context.Context) ([]operate.Schedule, error) {
	c, err := x.scheduler()
	if err != nil {
		return nil, err
	}
	return operate.Schedules(ctx, x.api.store, c)
}

func (x *exchange) showSchedule(ctx context.Context) (any, error) {
	_, s, err := x.schedule(ctx)
	if err != nil {
		return nil, err
	}
	return operate.FormWholeSchedule(ctx, x.api.store, &s)
}

func (x *exchange) nextTicks(ctx context.Context) (any, error) {
	q, from := &query{exchange: x}, time.Now()
	n := q.number("n", 5, maxPage)
	if text := q.text("from"); text != "" {
		var err error
		if from, err = time.Parse(time.RFC3339, text); err != nil {
			q.bad("from", "is no time as in RFC 3339")
		}
	}
	if q.err != nil {
		return nil, q.err
	}
	_, s, err := x.schedule(ctx)
	if err != nil {
		return nil, err
	}
	return operate.NextTicks(&s.Schedule, from, n)
}

func (x *exchange) listRuns() error {
	c, err := x.scheduler()
	if err != nil {
		return err
	}
	return upTo(x, func(ctx context.Context, most int) ([]operate.Run, error) {
		return operate.Runs(ctx, x.api.store, c, x.r.PathValue("name"), most)
	})
}

// onSchedule does something to the schedule of a path. The answer names the schedule, or has the id that do returns.
func onSchedule[B any, P reasoned[B]](verb string, do func(c *cron.Scheduler, ctx context.Context, name string,
	b *B) (id string, err error)) func(*exchange) error {
	return act[B, P]("schedules "+verb, (*exchange).needWhole, func(ctx context.Context, x *exchange, b *B) (
		e operate.AuditEntry, _ any, err error) {
		e.Target = x.r.PathValue("name")
		c, _, err := x.schedule(ctx)
		if err != nil {
			return e, nil, err
		}
		id, err := do(c, ctx, e.Target, b)
		if id != "" {
			return e, map[string]string{"id": id}, err
		}
		return e, map[string]string{"schedule": e.Target}, err
	})
}

// quiet is do, without an id.
func quiet[B any](do func(*cron.Scheduler, context.Context, string) error) func(*cron.Scheduler, context.Context,
	string, *B) (string, error) {
	return func(c *cron.Scheduler, ctx context.Context, name string, _ *B) (string, error) {
		return "", do(c, ctx, name)
	}
}

func runSchedule(c *cron.Scheduler, ctx context.Context, name string, b *runBody) (string, error) {
	if b.At == nil {
		return c.RunNow(ctx, name)
	}
	return c.RunAt(ctx, name, *b.At)
}

// schedule is what the body asks for.
func (b *scheduleBody) schedule(name string) *cron.Schedule {
	s := &cron.Schedule{Name: name, Origin: "api", Cron: b.Cron, Every: seconds(b.EverySeconds), Zone: b.Zone,
		Topic: b.Topic, Priority: b.Priority, Headers: b.Headers, Body: []byte(b.Body), Jitter: seconds(b.JitterSeconds),
		Overlap: b.Overlap, Missed: b.Missed, MissedWithin: seconds(b.MissedWithinSeconds), Paused: b.Paused}
	if b.Key != "" {
		s.Key = []byte(b.Key)
	}
	if len(b.JSON) > 0 {
		s.Body = b.JSON
	}
	return s
}

func (b *scheduleBody) check() error {
	err := b.schedule("any").Validate(time.Now())
	if b.Body != "" && len(b.JSON) > 0 {
		err = together(fault("json", "is given beside body"), err)
	}
	return err
}

func putSchedule(ctx context.Context, x *exchange, b *scheduleBody) (e operate.AuditEntry, _ any, err error) {
	e.Target = x.r.PathValue("name")
	s := b.schedule(e.Target)
	c, err := x.scheduler()
	if err == nil {
		err = c.Put(ctx, *s)
	}
	e.Change = cmp.Or(s.Cron, "every "+s.Every.String()) + " " + s.Zone
	return e, later(func() (any, error) { return x.showSchedule(ctx) }), err
}

func (b *backfillBody) check() error {
	var faults []wire.Fault
	for _, f := range []struct {
		wrong      bool
		field, why string
	}{{b.Since == nil, "since", "is missing"}, {b.Until == nil, "until", "is missing"},
		{b.Rate != nil && !(*b.Rate > 0), "rate", "is how many a second, above 0"}} {
		if f.wrong {
			faults = append(faults, wire.Fault{Field: f.field, Why: f.why})
		}
	}
	return invalid(faults)
}

func backfillSchedule(ctx context.Context, x *exchange, b *backfillBody) (e operate.AuditEntry, _ any, err error) {
	e.Target = x.r.PathValue("name")
	c, err := x.scheduler()
	if err != nil {
		return e, nil, err
	}
	ticks, err := c.Gaps(ctx, e.Target, *b.Since, *b.Until)
	if err == nil && len(ticks) > mostTicks {
		err = fault("since", "is more than "+strconv.Itoa(mostTicks)+" ticks before until; use several backfills")
	}
	rate := 0.0
	if b.Rate != nil {
		rate = *b.Rate
		if took := float64(len(ticks)) / rate; err == nil && took > storeTime.Seconds()/2 {
			err = fault("rate", fmt.Sprintf("is too low for one request: it would take %.0f s", took))
		}
	}
	if err == nil && !b.DryRun {
		ticks, err = c.Backfill(ctx, e.Target, ticks, rate)
	}
	e.Count = int64(len(ticks))
	e.Result.Done = e.Count
	e.Change = b.Since.Format(time.RFC3339) + " to " + b.Until.Format(time.RFC3339)
	if b.DryRun {
		e.Change += ", not sent"
		e.Result.Done = 0
	}
	return e, operate.FormBackfill(ticks), err
}
