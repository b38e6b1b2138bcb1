package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cron"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) schedules() *cobra.Command {
	verb := func(use, short, long, done string, do func(*cron.Scheduler, context.Context, string) error) *cobra.Command {
		return s.onSchedule(use, short, long, func(ctx context.Context, c *cron.Scheduler, name string) error {
			if s.dryRun {
				_, err := c.Status(ctx, name)
				return cannot(err, "%s schedule %s", use, name)
			}
			if err := do(c, ctx, name); err != nil {
				return cannot(err, "%s schedule %s", use, name)
			}
			s.note("%s %s", name, done)
			return nil
		})
	}
	return noun("schedules", "Send messages at times, in every zone",
		`Keeps schedules in the store. A `+"`pawl up`"+` of all that work the store sends a message for
each tick, once; when it ends or dies, another takes over.`,
		s.schedulesLs(), s.schedulesShow(), s.schedulesPut(), verb("rm", "Remove a schedule; its history stays",
			"Removes a schedule. Its history stays, and so do the messages that it sent.",
			"removed", (*cron.Scheduler).Remove),
		s.schedulesNext(), s.schedulesRun(),
		verb("pause", "Stop a schedule until it is resumed",
			"Stops a schedule until it is resumed. Ticks that are due meanwhile are left out.",
			"paused", (*cron.Scheduler).Pause),
		verb("resume", "Let a schedule go on",
			"Lets a paused schedule go on with its next tick.", "resumed",
			(*cron.Scheduler).Resume), s.schedulesHistory())
}

// scheduler is over the store.
func (s *session) scheduler(ctx context.Context) (*cron.Scheduler, error) {
	opened, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	c, err := cron.New(opened, cron.Config{Owner: "pawl schedules"})
	return c, cannot(err, "keep schedules")
}

// onSchedule is a verb about one schedule.
func (s *session) onSchedule(use, short, long string,
	do func(context.Context, *cron.Scheduler, string) error) *cobra.Command {
	return &cobra.Command{
		Use: use + " NAME", Short: short, Args: count(1, 1, "the name of a schedule"),
		Long: long, Example: "  pawl schedules " + use + " nightly",
		RunE: func(c *cobra.Command, args []string) error {
			scheduler, err := s.scheduler(c.Context())
			if err != nil {
				return err
			}
			return do(c.Context(), scheduler, args[0])
		},
	}
}

// scheduleInfo is a schedule, as JSON.
type scheduleInfo struct {
	Name        string     `json:"name"`
	Cron        string     `json:"cron"`
	Every       string     `json:"every,omitempty"`
	Zone        string     `json:"zone"`
	Topic       string     `json:"topic"`
	State       string     `json:"state"`
	NextAt      *time.Time `json:"next_at"`
	LastTick    *time.Time `json:"last_tick"`
	LastFiredAt *time.Time `json:"last_fired_at"`
	LastOutcome string     `json:"last_outcome"`
	Origin      string     `json:"origin"`
	Missed      int64      `json:"missed_total"`
}

func (s *session) scheduleInfo(ctx context.Context, c *cron.Scheduler, name string) (scheduleInfo, error) {
	status, err := c.Status(ctx, name)
	if err != nil {
		return scheduleInfo{}, cannot(err, "show schedule %s", name)
	}
	i := scheduleInfo{
		Name: name, Cron: status.Cron, Zone: cmp.Or(status.Zone, "UTC"), Topic: status.Topic, State: "active",
		NextAt: unlessZero(status.Next), LastTick: unlessZero(status.LastTick), LastFiredAt: unlessZero(status.LastAt),
		Origin: status.Origin, Missed: status.Missed,
	}
	if status.Every != 0 {
		i.Every = status.Every.String()
	}
	if status.Paused {
		i.State = "paused"
	}
	i.LastOutcome, err = s.outcome(ctx, status.LastID)
	return i, err
}

func unlessZero(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// outcome is what became of a tick's message: its state, or done.
func (s *session) outcome(ctx context.Context, id string) (string, error) {
	looker, ok := store.As[store.Looker](s.opened)
	if id == "" || !ok {
		return "", nil
	}
	m, err := looker.Get(ctx, id)
	if errors.Is(err, store.ErrNotFound) || m.State == store.Acked {
		return "done", nil
	}
	return string(m.State), cannot(err, "look at message %s", id)
}

func (s *session) schedulesLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List schedules", Args: count(0, 0, "nothing"),
		Long: "Lists the schedules of the store, with the next tick and what became of the last one.",
		Example: `  pawl schedules ls
  pawl schedules ls -o json | jq -r '.[] | select(.state == "paused").name'`,
		RunE: func(c *cobra.Command, _ []string) error {
			scheduler, err := s.scheduler(c.Context())
			if err != nil {
				return err
			}
			all, err := scheduler.List(c.Context())
			if err != nil {
				return cannot(err, "list schedules")
			}
			l := s.list("NAME", "TIMES", "ZONE", "TOPIC", "STATE", "NEXT", "LAST", "OUTCOME", ">MISSED")
			for _, one := range all {
				i, err := s.scheduleInfo(c.Context(), scheduler, one.Name)
				if err != nil {
					return err
				}
				l.add(i, i.Name, cmp.Or(i.Cron, "every "+i.Every), i.Zone, i.Topic, i.State, timeCell(i.NextAt),
					timeCell(i.LastTick), cmp.Or(i.LastOutcome, "-"), strconv.FormatInt(i.Missed, 10))
			}
			return l.end("no schedules; `pawl schedules put --help` shows how to write one")
		},
	}
}

func timeCell(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format(time.RFC3339)
}

func (s *session) schedulesShow() *cobra.Command {
	return s.onSchedule("show", "Show a schedule",
		"Shows a schedule, its next tick and what became of the last one.", s.showSchedule)
}

func (s *session) showSchedule(ctx context.Context, c *cron.Scheduler, name string) error {
	i, err := s.scheduleInfo(ctx, c, name)
	if err != nil {
		return err
	}
	return s.one(i, func(w io.Writer) {
		for _, row := range [][2]string{
			{"name", i.Name}, {"times", cmp.Or(i.Cron, "every "+i.Every)}, {"zone", i.Zone}, {"topic", i.Topic},
			{"state", i.State}, {"next", timeCell(i.NextAt)}, {"last", timeCell(i.LastTick)},
			{"outcome", cmp.Or(i.LastOutcome, "-")}, {"missed", strconv.FormatInt(i.Missed, 10)},
		} {
			_, _ = fmt.Fprintf(w, "%-9s%s\n", row[0], row[1])
		}
	})
}

func (s *session) schedulesPut() *cobra.Command {
	var f cron.Schedule
	var every, jitter, within duration
	var key, body, jsonBody, file string
	var headers facts
	c := &cobra.Command{
		Use: "put NAME", Short: "Write a schedule", Args: count(1, 1, "the name of a schedule"),
		Long: `Writes a schedule, in place of the one of that name. It has --cron or --every. Ticks of new
times count from now on.`,
		Example: `  pawl schedules put nightly --cron "30 2 * * 1-5" --zone Europe/Berlin --topic reports --json '{"kind":"nightly"}'
  pawl schedules put poll --every 15m --topic polls --overlap skip`,
		RunE: func(c *cobra.Command, args []string) error {
			f.Name, f.Origin, f.Key, f.Headers = args[0], "cli", keyOf(key), headers
			f.Every, f.Jitter, f.MissedWithin = time.Duration(every), time.Duration(jitter), time.Duration(within)
			f.Body = []byte(cmp.Or(body, jsonBody))
			if jsonBody != "" && !json.Valid(f.Body) {
				return usage("write a JSON value", "--json is no JSON")
			}
			if file != "" {
				var err error
				if f.Body, err = os.ReadFile(file); err != nil { //nolint:gosec // the file is the caller's choice
					return cannot(err, "read the body")
				}
			}
			if err := f.Validate(time.Now()); err != nil || s.dryRun {
				return cannot(err, "write schedule %s", f.Name)
			}
			opened, err := s.openOrMake(c.Context())
			if err != nil {
				return err
			}
			scheduler, err := cron.New(opened, cron.Config{Owner: "pawl schedules"})
			if err == nil {
				err = scheduler.Put(c.Context(), f)
			}
			if err != nil {
				return cannot(err, "write schedule %s", f.Name)
			}
			s.note("%s written; `pawl schedules next %s` shows its ticks", f.Name, f.Name)
			return nil
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.Cron, "cron", "", "`EXPRESSION` of five fields, of six with seconds first, or a name such as @daily")
	fl.Var(&every, "every", "a multiple of this after 1970-01-01T00:00Z, instead of --cron")
	fl.StringVar(&f.Zone, "zone", "", "`ZONE` of the clock, such as Europe/Berlin (default: UTC)")
	fl.StringVar(&f.Topic, "topic", "", "`TOPIC` of the messages")
	fl.StringVar(&body, "body", "", "body of the messages")
	fl.StringVar(&jsonBody, "json", "", "body of the messages, checked as JSON")
	fl.StringVar(&file, "body-file", "", "`FILE` with the body of the messages")
	c.MarkFlagsMutuallyExclusive("body", "json", "body-file")
	fl.StringVar(&key, "key", "", "key of the messages")
	fl.IntVar(&f.Priority, "priority", 0, "priority of the messages, 0 to 100")
	fl.Var(&headers, "header", "`NAME=VALUE` of a header, as often as need be")
	fl.Var(&jitter, "jitter", "delay of a message, at most")
	fl.StringVar(&f.Overlap, "overlap", cron.OverlapQueue, "while the last message is unresolved: queue, skip or replace")
	fl.StringVar(&f.Missed, "missed", cron.MissedOnce, "which missed ticks are made up: once, skip or all")
	fl.Var(&within, "missed-within", "how old a tick may be that is made up (default: 24h)")
	fl.BoolVar(&f.Paused, "paused", false, "write it paused")
	return c
}

// tickInfo is a tick to come, as JSON.
type tickInfo struct {
	Tick string    `json:"tick"`
	At   time.Time `json:"at"`
}

func (s *session) schedulesNext() *cobra.Command {
	var from point
	n := 5
	c := s.onSchedule("next", "Show the next ticks",
		"Shows the next ticks of a schedule, with what a change of clocks does to them.",
		func(ctx context.Context, c *cron.Scheduler, name string) error {
			status, err := c.Status(ctx, name)
			if err != nil {
				return cannot(err, "show schedule %s", name)
			}
			if n < 1 {
				return usage("such as -n 5", "-n is %d; it is how many ticks to show", n)
			}
			times, err := status.Times()
			if err != nil {
				return cannot(err, "read schedule %s", name)
			}
			at := from.Time
			if at.IsZero() {
				at = time.Now()
			}
			l := s.list("TICK", "AT")
			for range n {
				if at = times.Next(at); at.IsZero() {
					break
				}
				i := tickInfo{at.Format(time.RFC3339), at.UTC()}
				l.add(i, i.Tick, i.At.Format(time.RFC3339))
			}
			return l.end("it never fires again")
		})
	c.Flags().IntVarP(&n, "number", "n", 5, "how many ticks")
	c.Flags().Var(&from, "from", "the ticks after this time (default: now)")
	return c
}

func (s *session) schedulesRun() *cobra.Command {
	return s.onSchedule("run", "Send its message now",
		"Sends the message of a schedule now, beside its ticks.",
		func(ctx context.Context, c *cron.Scheduler, name string) error {
			if s.dryRun {
				_, err := c.Status(ctx, name)
				return cannot(err, "run schedule %s", name)
			}
			id, err := c.RunNow(ctx, name)
			if err != nil {
				return cannot(err, "run schedule %s", name)
			}
			return s.one(map[string]string{"id": id}, func(w io.Writer) { _, _ = fmt.Fprintln(w, id) })
		})
}

// runInfo is what became of a tick, as JSON.
type runInfo struct {
	Tick      time.Time `json:"tick"`
	FiredAt   time.Time `json:"fired_at"`
	MessageID *string   `json:"message_id"`
	Action    string    `json:"action"`
	Why       string    `json:"why"`
	Outcome   string    `json:"outcome"`
}

func (s *session) schedulesHistory() *cobra.Command {
	return s.onSchedule("history", "List what became of its ticks, the newest first",
		"Lists the newest ticks of a schedule and what became of the message of each.",
		func(ctx context.Context, c *cron.Scheduler, name string) error {
			runs, err := c.History(ctx, name)
			if err != nil {
				return cannot(err, "read the history of %s", name)
			}
			l := s.list("TICK", "FIRED", "ACTION", "OUTCOME", "WHY")
			for _, r := range runs {
				i := runInfo{Tick: r.Tick, FiredAt: r.At, Action: r.Action, Why: r.Why}
				if i.Outcome, err = s.outcome(ctx, r.MessageID); err != nil {
					return err
				}
				if r.MessageID != "" {
					i.MessageID = &r.MessageID
				}
				l.add(i, r.Tick.Format(time.RFC3339), r.At.Format(time.RFC3339), i.Action, cmp.Or(i.Outcome, "-"), i.Why)
			}
			return l.end("it has not fired yet")
		})
}
