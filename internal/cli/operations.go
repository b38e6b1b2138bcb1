package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/cli/flag"
	"github.com/pawl-dev/pawl/internal/operate"
)

func (s *session) operationsCommand() *cobra.Command {
	return noun("operations", "Replays, discards and the like: list, show, pause, cancel, resume",
		`A replay, discard, resolving or reopening of dead letters is an operation. The store keeps
it with its progress, so that it can be followed, stopped and resumed from any process.`,
		s.operationsLs(), s.operationsShow(), s.operationsAsk("pause", operate.Paused),
		s.operationsAsk("cancel", operate.Cancelled), s.operationsResume())
}

func (s *session) operationsLs() *cobra.Command {
	var status string
	c := &cobra.Command{
		Use: "ls", Short: "List operations, the latest first", Args: count(0, 0, "flags only"),
		Long: `Lists operations and their progress, the latest first. An operation that is marked as
running, but whose process is gone, can be resumed.`,
		Example: `  pawl operations ls
  pawl operations ls --status paused -o jsonl`,
		RunE: func(c *cobra.Command, _ []string) error {
			if known := operate.OperationStatuses(); status != "" && !slices.Contains(known, status) {
				return usage("use one of "+strings.Join(known, ", "), "there is no status %q", status)
			}
			ops, err := s.operations(c.Context())
			if err != nil {
				return err
			}
			all, now, err := ops.List(c.Context(), operate.Part{}, func(o *operate.Operation) bool {
				return status == "" || o.Status == status
			})
			if err != nil {
				return cannot(err, "list operations")
			}
			l := s.list("ID", "KIND", "STATUS", ">DONE", ">REFUSED", ">PLANNED", "WHO", "PLANNED AT")
			for _, o := range all.Items {
				l.add(operate.OperationState{Operation: o, Live: o.Live(now)}, o.ID, o.Kind, statusCell(o, now),
					number(o.Done), number(o.Refused), number(o.Planned), o.Who, s.at(o.CreatedAt))
			}
			return l.end("no such operations")
		},
	}
	c.Flags().StringVar(&status, "status", "", "only those that are running, paused, cancelled, done or failed")
	return c
}

func statusCell(o *operate.Operation, now time.Time) string {
	if o.Status == operate.Running && !o.Live(now) {
		return "running (no process)"
	}
	return o.Status
}

func (s *session) operationsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show an operation", Args: count(1, 1, "one id"),
		Long:    `Shows an operation: what it does, its progress, and what was refused.`,
		Example: `  pawl dead replay --topic mail -q && pawl operations show $(pawl operations ls -o jsonl | sed -n '1s/.*"id":"\([^"]*\)".*/\1/p')`,
		RunE:    s.withOperations(s.showOperation),
	}
}

// withOperations is what a command about one operation runs.
func (s *session) withOperations(run func(ctx context.Context, ops *operate.Operations, id string) error) func(
	*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		ops, err := s.operations(c.Context())
		if err != nil {
			return err
		}
		return run(c.Context(), ops, args[0])
	}
}

func (s *session) showOperation(ctx context.Context, ops *operate.Operations, id string) error {
	o, err := ops.Get(ctx, id)
	if err != nil {
		return cannot(err, "show operation %s", id)
	}
	now, err := ops.State.Clock(ctx)
	if err != nil {
		return cannot(err, "show operation %s", id)
	}
	state := operate.OperationState{Operation: o, Live: o.Live(now)}
	return s.one(state, func(w io.Writer) { describeOperation(w, o, now) })
}

func describeOperation(w io.Writer, o *operate.Operation, now time.Time) {
	field(w, "operation", o.ID)
	field(w, "kind", o.Kind)
	field(w, "status", statusCell(o, now))
	field(w, "by", o.Who)
	field(w, "planned at", when(o.CreatedAt))
	field(w, "ended at", whenever(o.EndedAt))
	field(w, "selects", describeFilter(&o.Filter))
	field(w, "to", o.To)
	field(w, "edit", o.Edit)
	if o.KeepAttempts {
		field(w, "attempts", "kept")
	}
	field(w, "reason", o.Reason)
	if o.Rate > 0 {
		field(w, "rate", fmt.Sprintf("%g a second", o.Rate))
	}
	field(w, "progress", fmt.Sprintf("%d done, %d refused, of %d", o.Done, o.Refused, o.Planned))
	field(w, "took", age(asDuration(o.ActiveSeconds)))
	field(w, "error", o.Error)
	for i, no := range o.Refusal {
		if i == 20 {
			field(w, "refused", fmt.Sprintf("… -o json has all %d", len(o.Refusal)))
			break
		}
		field(w, "refused", no.ID+": "+no.Why)
	}
}

// describeFilter is a filter in words.
func describeFilter(f *operate.Filter) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+" "+value)
		}
	}
	add("topic", f.Topic)
	add("key", f.Key+f.KeyBase64)
	add("kind", f.Kind)
	add("reason", f.Reason)
	add("fingerprint", f.Fingerprint)
	add("text", f.Search)
	for _, name := range slices.Sorted(maps.Keys(f.Attrs)) {
		add(name, f.Attrs[name])
	}
	if f.Resolved {
		add("resolved", "ones")
	}
	add("state", f.State)
	add("worker", f.Owner)
	if f.Stuck {
		add("stuck", "ones")
	}
	if f.OlderThanSeconds > 0 {
		add("older than", age(asDuration(f.OlderThanSeconds)))
	}
	add("since", whenever(f.Since))
	add("until", whenever(f.Until))
	if f.Limit > 0 {
		add("the first", number(f.Limit))
	}
	switch {
	case len(f.IDs) > 3:
		add("ids", fmt.Sprintf("%s and %d more", strings.Join(f.IDs[:3], ", "), len(f.IDs)-3))
	case len(f.IDs) > 0:
		add("ids", strings.Join(f.IDs, ", "))
	case len(parts) == 0:
		return "all"
	}
	return strings.Join(parts, ", ")
}

// operationsAsk is pause or cancel.
func (s *session) operationsAsk(verb, to string) *cobra.Command {
	texts := map[string]struct{ short, long string }{
		"pause": {"Stop an operation, to be resumed",
			`Asks the process that runs an operation to stop after the current dead letter, and
waits for that. ` + "`pawl operations resume`" + ` goes on.`},
		"cancel": {"End an operation for good",
			`Asks the process that runs an operation to stop after the current dead letter, and
waits for that. Finished letters stay as they are; the others stay dead.`},
	}
	return &cobra.Command{
		Use: verb + " ID", Short: texts[verb].short, Args: count(1, 1, "one id"), Long: texts[verb].long,
		Example: `  pawl dead replay --topic mail --rate 1/s -q & sleep 1; pawl operations ` + verb +
			` $(pawl operations ls --status running -o jsonl | sed -n '1s/.*"id":"\([^"]*\)".*/\1/p'); wait`,
		RunE: s.withOperations(func(ctx context.Context, ops *operate.Operations, id string) error {
			if s.dryRun {
				s.note("would %s operation %s", verb, id)
				return s.showOperation(ctx, ops, id)
			}
			o, err := ops.Ask(ctx, id, to, s.who())
			if err != nil {
				return cannot(err, "%s operation %s", verb, id)
			}
			if err := s.audit(ctx, operate.AuditEntry{Action: "operations " + verb, Target: o.ID,
				Count: o.Planned, Result: operate.AuditResult{Done: o.Done, Refused: o.Refused}}); err != nil {
				return err
			}
			return s.showOperation(ctx, ops, id)
		}),
	}
}

func (s *session) operationsResume() *cobra.Command {
	return &cobra.Command{
		Use: "resume ID", Short: "Go on with an operation", Args: count(1, 1, "one id"),
		Long: `Continues, in this process, an operation that was paused or failed, or whose process
was killed. Finished letters are not touched again. While another process runs the operation,
the command is refused with exit code 5; it may wait for five seconds to be sure.`,
		Example: `  pawl dead replay --topic mail --rate 1/s -q & sleep 1; id=$(pawl operations ls --status running -o jsonl | sed -n '1s/.*"id":"\([^"]*\)".*/\1/p'); pawl operations pause $id -q; wait; pawl operations resume $id`,
		RunE: s.withOperations(func(ctx context.Context, ops *operate.Operations, id string) error {
			o, err := ops.Get(ctx, id)
			if err != nil {
				return cannot(err, "resume operation %s", id)
			}
			if s.dryRun {
				s.note("would resume operation %s", id)
				return s.showOperation(ctx, ops, id)
			}
			return s.carryOut(ctx, ops, o, map[string]error{})
		}),
	}
}

// audit writes down what this command has done.
func (s *session) audit(ctx context.Context, a operate.AuditEntry) error {
	a.Who = s.who()
	err := operate.Audit(context.WithoutCancel(ctx), s.opened, a)
	return cannot(err, "record this in the audit: %s %s", a.Action, a.Target)
}

func (s *session) auditCommand() *cobra.Command {
	return noun("audit", "What was changed, by whom, and why",
		`Every command that changes something but sends no message leaves an entry: who, when,
what, and with which result.`, s.auditLs())
}

func (s *session) auditLs() *cobra.Command {
	f := operate.AuditFilter{Limit: tableRows}
	since := flag.Point{Back: true}
	c := &cobra.Command{
		Use: "ls", Short: "List what was changed", Args: count(0, 0, "flags only"),
		Long: `Lists what was changed, the oldest entry first: replays, discards, edits and imports
of dead letters, cancelled messages, pauses and settings of topics, and actions on
operations. An operation has one entry, which says how far it is; so does every dead
letter that it edited, with the original body.`,
		Example: `  pawl audit ls
  pawl audit ls --since 24h --kind replay -o jsonl`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := checkLimit(f.Limit); err != nil {
				return err
			}
			if s.output != formatTable && !c.Flags().Changed("limit") {
				f.Limit = 0
			}
			f.Since = since.Time
			opened, err := s.open(c.Context())
			if err != nil {
				return err
			}
			all, err := operate.ListAudit(c.Context(), opened, f)
			if err != nil {
				return cannot(err, "list the audit")
			}
			l := s.list("AT", "WHO", "ACTION", "ABOUT", ">COUNT", ">DONE", ">REFUSED", "TOOK", "REASON", "OPERATION")
			for _, a := range all {
				about := a.Target
				if a.Filter != nil {
					if about = describeFilter(a.Filter); a.Target != "" {
						about += " → " + a.Target
					}
				}
				action := a.Action
				if a.Status != "" && a.Status != operate.Done {
					action = fmt.Sprintf("%s (%s)", a.Action, a.Status)
				}
				l.add(a, s.at(a.At), a.Who, action, s.cell(about, 60), number(a.Count), number(a.Result.Done),
					number(a.Result.Refused),
					age(asDuration(a.Seconds)), s.cell(a.Reason, 40), a.OperationID)
			}
			if f.Action != "" || !f.Since.IsZero() {
				return l.end("no such entries")
			}
			return l.end("nothing was changed yet")
		},
	}
	c.Flags().Var(&since, "since", "only what was done then or later; or how long ago")
	c.Flags().StringVar(&f.Action, "kind", "", "only this action, such as replay, discard or edit")
	c.Flags().IntVar(&f.Limit, "limit", f.Limit, "at most this many, the latest (0: all; -o json and jsonl have all)")
	return c
}
