package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cron"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

func schedules() pipeline.Command {
	return pipeline.Command{
		Use: "schedules", Short: "Send messages at times, in every zone",
		Long: `Keeps schedules in the store. A ` + "`pawl up`" + ` of all that work the store sends a message for
each tick, once; when it ends or dies, another takes over. Schedules are written here, in
pawl.yaml under schedules:, or from Go.`,
		Commands: []pipeline.Command{
			verb("ls", "List schedules",
				"Lists the schedules of the store, with the next tick and the outcome of the last one.",
				`  pawl schedules ls
  pawl schedules ls -o json | jq -r '.[] | select(.state == "paused").name'`, nil, 0, 0, "nothing", list),
			schedule("show", "Show a schedule",
				"Shows a schedule with what it sends, its next tick and the outcome of the last one.", nil, show),
			put(),
			schedule("rm", "Remove a schedule; its history stays",
				"Removes a schedule. Its history stays, and so do the messages that it sent.", nil,
				change("rm", "removed", (*cron.Scheduler).Remove)),
			next(), run(),
			schedule("pause", "Stop a schedule until it is resumed",
				"Stops a schedule until it is resumed. Ticks that are due meanwhile are left out.", nil,
				change("pause", "paused", (*cron.Scheduler).Pause)),
			schedule("resume", "Let a schedule go on",
				"Lets a paused schedule go on with its next tick.", nil,
				change("resume", "resumed", (*cron.Scheduler).Resume)),
			schedule("history", "List the outcomes of its ticks, the newest first",
				"Lists the newest ticks, up to 10,000, and the outcome of the message of each.", nil, history),
			backfill(),
		},
	}
}

// scheduler is over the store of the command line.
func scheduler(ctx context.Context, in *pipeline.Invocation, existing bool) (*cron.Scheduler, store.Store, error) {
	s, err := in.Open(ctx, "", existing)
	if err != nil {
		return nil, nil, err
	}
	c, err := cron.New(s, cron.Config{Owner: in.Who})
	return c, s, err
}

// on is what a verb works with.
type on struct {
	*pipeline.Invocation
	*cron.Scheduler
	store store.Store
	name  string
}

// schedule is a verb about one schedule.
func schedule(use, short, long string, flags []pipeline.Flag,
	do func(context.Context, on) error) pipeline.Command {
	return verb(use+" NAME", short, long, "  pawl schedules "+use+" nightly", flags, 1, 1,
		"the name of a schedule",
		func(ctx context.Context, in *pipeline.Invocation) error {
			c, s, err := scheduler(ctx, in, true)
			if err != nil {
				return err
			}
			return do(ctx, on{in, c, s, in.Args[0]})
		})
}

// change does something to a schedule, on record.
func change(use, done string, do func(*cron.Scheduler, context.Context, string) error) func(context.Context, on) error {
	return func(ctx context.Context, o on) error {
		if o.DryRun {
			_, err := o.Status(ctx, o.name)
			return err
		}
		if err := do(o.Scheduler, ctx, o.name); err != nil {
			return err
		}
		note(o.Invocation, "%s %s", o.name, done)
		return o.Audit(ctx, o.store, "schedules "+use, o.name, 1, "")
	}
}

func list(ctx context.Context, in *pipeline.Invocation) error {
	c, s, err := scheduler(ctx, in, true)
	if err != nil {
		return err
	}
	rows, err := operate.Schedules(ctx, s, c)
	if err != nil {
		return err
	}
	return in.Rows([]string{"NAME", "TIMES", "ZONE", "TOPIC", "STATE", "NEXT", "LAST", "OUTCOME", ">MISSED"}, rows,
		func(n int) []string {
			i := rows[n]
			return []string{i.Name, cmp.Or(i.Cron, "every "+i.Every), i.Zone, i.Topic, i.State, cell(i.NextAt),
				cell(i.LastTick), cmp.Or(i.LastOutcome, "-"), strconv.FormatInt(i.Missed, 10)}
		})
}

func show(ctx context.Context, o on) error {
	status, err := o.Status(ctx, o.name)
	if err != nil {
		return err
	}
	i, err := operate.FormWholeSchedule(ctx, o.store, &status)
	if err != nil {
		return err
	}
	var headers []string
	for _, name := range slices.Sorted(maps.Keys(i.Headers)) {
		headers = append(headers, name+"="+i.Headers[name])
	}
	body := fmt.Sprintf("%d bytes", len(i.Bytes))
	if i.Body != nil {
		body = *i.Body
	}
	return o.Document(i, func(w io.Writer) error {
		for _, row := range [][2]string{
			{"name", i.Name}, {"times", cmp.Or(i.Cron, "every "+i.Every)}, {"zone", i.Zone}, {"topic", i.Topic},
			{"state", i.State}, {"next", cell(i.NextAt)}, {"last", cell(i.LastTick)},
			{"outcome", cmp.Or(i.LastOutcome, "-")}, {"not made up", strconv.FormatInt(i.Schedule.Missed, 10)},
			{"origin", i.Origin}, {"key", cmp.Or(i.Key, "-")}, {"priority", strconv.Itoa(i.Priority)},
			{"headers", cmp.Or(strings.Join(headers, ", "), "-")}, {"jitter", status.Jitter.String()},
			{"overlap", i.Overlap}, {"missed", i.Missed + ", within " + status.Within().String()}, {"body", body},
		} {
			if _, err := fmt.Fprintf(w, "%-13s%s\n", row[0], row[1]); err != nil {
				return err
			}
		}
		return nil
	})
}

func put() pipeline.Command {
	text := func(name, doc string) pipeline.Flag { return pipeline.Flag{Name: name, Doc: doc} }
	return verb("put NAME", "Write a schedule",
		`Writes a schedule, in place of the one of that name. It has --cron or --every. Ticks of new
times count from now on. A schedule of pawl.yaml is changed there.`,
		`  pawl schedules put nightly --cron "30 2 * * 1-5" --zone Europe/Berlin --topic reports --json '{"kind":"nightly"}'
  pawl schedules put poll --every 15m --topic polls --overlap skip`,
		[]pipeline.Flag{
			text("cron", "`EXPRESSION` of five fields, of six with seconds first, or a name such as @daily"),
			{Name: "every", Type: pipeline.Duration,
				Doc: "`DURATION`: fire at multiples of it after 1970-01-01T00:00Z, instead of --cron"},
			text("zone", "`ZONE` of the clock, such as Europe/Berlin (default: UTC)"),
			text("topic", "`TOPIC` of the messages"),
			text("body", "body of the messages"),
			text("json", "body of the messages, checked as JSON"),
			{Name: "body-file", Doc: "`FILE` with the body of the messages"},
			text("key", "key of the messages"),
			{Name: "priority", Type: pipeline.Int, Default: "0", Doc: "priority of the messages, 0 to 100"},
			{Name: "header", Type: pipeline.Texts, Doc: "`NAME=VALUE` of a header, may be repeated"},
			{Name: "jitter", Type: pipeline.Duration, Doc: "`DURATION` of the delay of a message, at most"},
			{Name: "overlap", Type: pipeline.Choice, Choices: []string{"queue", "skip", "replace"}, Default: "queue",
				Doc: "while the last message is unresolved: queue, skip or replace"},
			{Name: "missed", Type: pipeline.Choice, Choices: []string{"once", "skip", "all"}, Default: "once",
				Doc: "which missed ticks are made up: once, skip or all"},
			{Name: "missed-within", Type: pipeline.Duration,
				Doc: "`DURATION`: how old a tick may be that is made up (default: 24h)"},
			{Name: "paused", Type: pipeline.Bool, Doc: "write it paused"},
		}, 1, 1, "the name of a schedule", runPut)
}

func runPut(ctx context.Context, in *pipeline.Invocation) error {
	s, err := stated(in)
	if err == nil {
		err = s.Validate(time.Now())
	}
	if err != nil || in.DryRun {
		return invalid(err)
	}
	c, opened, err := scheduler(ctx, in, false)
	if err != nil {
		return err
	}
	if err := c.Put(ctx, s); err != nil {
		return invalid(err)
	}
	note(in, "%s written; `pawl schedules next %s` shows its ticks", s.Name, s.Name)
	return in.Audit(ctx, opened, "schedules put", s.Name, 1, cmp.Or(s.Cron, "every "+s.Every.String())+" "+s.Zone)
}

// stated is the schedule that the flags of put state.
func stated(in *pipeline.Invocation) (s cron.Schedule, err error) {
	f := in.Flags
	s = cron.Schedule{Name: in.Args[0], Origin: "cli", Cron: f.Text("cron"), Every: f.Duration("every"),
		Zone: f.Text("zone"), Topic: f.Text("topic"), Priority: int(f.Int("priority")), Jitter: f.Duration("jitter"),
		Overlap: f.Text("overlap"), Missed: f.Text("missed"), MissedWithin: f.Duration("missed-within"),
		Paused: f.Bool("paused"), Body: []byte(f.Text("body") + f.Text("json"))}
	if key := f.Text("key"); key != "" {
		s.Key = []byte(key)
	}
	for _, header := range f.Texts("header") {
		name, value, ok := strings.Cut(header, "=")
		if !ok || name == "" {
			return s, usage(fmt.Sprintf("--header %q is not NAME=VALUE", header), "such as --header status=404")
		}
		if s.Headers == nil {
			s.Headers = map[string]string{}
		}
		s.Headers[name] = value
	}
	bodies := 0
	for _, flag := range []string{"body", "json", "body-file"} {
		if f.Text(flag) != "" {
			bodies++
		}
	}
	if bodies > 1 {
		return s, usage("--body, --json and --body-file are given together", "keep one of them")
	}
	if f.Text("json") != "" && !json.Valid(s.Body) {
		return s, usage("--json is no JSON", "write a JSON value")
	}
	if f.Changed("missed-within") && s.MissedWithin == 0 {
		return s, usage("--missed-within is 0", "use --missed skip so that nothing is made up")
	}
	if file := f.Text("body-file"); file != "" {
		if s.Body, err = os.ReadFile(file); err != nil { //nolint:gosec // the file is the caller's choice
			err = usage(fmt.Sprintf("--body-file cannot be read: %v", err), "correct the path")
		}
	}
	return s, err
}

func next() pipeline.Command {
	return schedule("next", "Show the next ticks",
		"Shows the next ticks of a schedule, with the effect of a change of clocks on them.",
		[]pipeline.Flag{
			{Name: "number", Letter: "n", Type: pipeline.Int, Default: "5", Doc: "how many ticks"},
			{Name: "from", Doc: "the ticks after this `TIME` (default: now)"},
		}, func(ctx context.Context, o on) error {
			at, err := moment(o.Invocation, "from")
			if err != nil {
				return err
			}
			status, err := o.Status(ctx, o.name)
			if err != nil {
				return err
			}
			n := o.Flags.Int("number")
			if n < 1 || n > 1_000_000 {
				return usage(fmt.Sprintf("-n is %d; it goes from 1 to 1000000", n), "such as -n 5")
			}
			if at.IsZero() {
				at = time.Now()
			}
			ticks, err := operate.NextTicks(&status.Schedule, at, int(n))
			if err != nil {
				return err
			}
			return o.Rows([]string{"TICK", "AT"}, ticks, func(n int) []string {
				return []string{ticks[n].Tick, ticks[n].At.Format(time.RFC3339)}
			})
		})
}

func run() pipeline.Command {
	return schedule("run", "Send its message now",
		`Sends the message of a schedule now, beside its ticks. Its tick is now, or the time that
--at names; it moves nothing, and works while the schedule is paused.`,
		[]pipeline.Flag{{Name: "at", Doc: "the tick of the message, a `TIME`; one to come delays the message until then"}},
		func(ctx context.Context, o on) error {
			at, err := moment(o.Invocation, "at")
			if err != nil {
				return err
			}
			if o.DryRun {
				_, err := o.Status(ctx, o.name)
				return err
			}
			id, err := o.RunAt(ctx, o.name, at)
			if err != nil {
				return invalid(err)
			}
			if err := o.Audit(ctx, o.store, "schedules run", o.name, 1, id); err != nil {
				return err
			}
			return o.Print(map[string]string{"id": id}, "%s\n", id)
		})
}

func history(ctx context.Context, o on) error {
	rows, err := operate.Runs(ctx, o.store, o.Scheduler, o.name, operate.MostSearched)
	if err != nil {
		return err
	}
	return o.Rows([]string{"TICK", "FIRED", "ACTION", "OUTCOME", "WHY"}, rows, func(n int) []string {
		i := rows[n]
		return []string{cell(&i.Tick), cell(&i.FiredAt), i.Action, cmp.Or(i.Outcome, "-"), i.Why}
	})
}

func backfill() pipeline.Command {
	c := schedule("backfill", "Send the messages of past ticks",
		`Sends the messages of the ticks from --since until before --until, also while the schedule
is paused. A tick that already has a message is left out, and so is one that is still to
come. With --dry-run it lists them.`,
		[]pipeline.Flag{
			{Name: "since", Doc: "`TIME` of the first tick"},
			{Name: "until", Doc: "`TIME` that ends them; its own tick is left out"},
			{Name: "rate", Type: pipeline.Rate, Doc: "`RATE`: send no faster than this, such as 10/s"},
		}, runBackfill)
	c.Example = "  pawl schedules backfill nightly --since 2026-01-01 --until 2026-02-01 --dry-run"
	return c
}

func runBackfill(ctx context.Context, o on) error {
	since, err := moment(o.Invocation, "since")
	if err != nil {
		return err
	}
	until, err := moment(o.Invocation, "until")
	if err != nil {
		return err
	}
	if since.IsZero() || until.IsZero() {
		return usage("--since and --until are needed", "such as --since 2026-01-01 --until 2026-02-01")
	}
	ticks, err := o.Gaps(ctx, o.name, since, until)
	if err != nil {
		return invalid(err)
	}
	if !o.DryRun {
		ticks, err = o.Backfill(ctx, o.name, ticks, o.Flags.Number("rate"))
	}
	done := operate.FormBackfill(ticks)
	if !o.DryRun && done.Count > 0 {
		err = errors.Join(err, o.Audit(context.WithoutCancel(ctx), o.store, "schedules backfill", o.name, done.Count,
			since.Format(time.RFC3339)+" to "+until.Format(time.RFC3339)))
	}
	if err != nil {
		return err
	}
	return o.Print(done, "%s\n", strings.Join(append(done.Ticks, strconv.Itoa(done.Count)+" ticks"), "\n"))
}

// Explain says why a tick of a schedule fired, fired late, or did not; without a text of a time the last one.
func Explain(ctx context.Context, s store.Store, name, tick string) (any, string, error) {
	var at time.Time
	if tick != "" {
		var err error
		if at, err = parseTime("--tick", tick); err != nil {
			return nil, "", err
		}
	}
	c, err := cron.New(s, cron.Config{})
	if err != nil {
		return nil, "", err
	}
	r, err := c.Explain(ctx, name, at)
	if err != nil {
		return nil, "", err
	}
	i, err := operate.FormRun(ctx, s, &r)
	x := struct {
		Schedule string     `json:"schedule"`
		Tick     time.Time  `json:"tick"`
		FiredAt  *time.Time `json:"fired_at"`
		Message  *string    `json:"message_id"`
		Action   string     `json:"action"`
		Why      string     `json:"why"`
		Outcome  string     `json:"outcome"`
	}{name, i.Tick, operate.Given(i.FiredAt), i.MessageID, i.Action, i.Why, i.Outcome}
	text := fmt.Sprintf("%s %s %s\nwhy       %s\n", name, r.Tick.Format(time.RFC3339), r.Action, r.Why)
	if i.MessageID != nil {
		text += fmt.Sprintf("message   %s, %s\n", *i.MessageID, cmp.Or(i.Outcome, "-"))
	}
	return x, text, err
}
