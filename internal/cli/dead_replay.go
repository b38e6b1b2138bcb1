package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/app"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) deadReplay() *cobra.Command {
	var f deadFilter
	var all bool
	var per rate
	var to string
	c := &cobra.Command{
		Use: "replay [ID…]", Short: "Append dead letters again", Args: count(0, -1, "ids"),
		Long: `Appends dead letters again, to the tail of their lane, with their id and history;
attempts are counted anew. Those are replayed that are named by id, or selected by
flags, the oldest death first. What dies again meanwhile is left alone.

With --dry-run it prints the plan: how many, for which keys, the oldest, and what
to mind. Some may be refused, because another message has taken their unique key
since; then the exit code is 3.`,
		Example: `  pawl dead replay --topic mail --dry-run
  pawl dead replay --topic mail --reason timeout --rate 50/s
  pawl dead replay --fingerprint 0123456789ab --to mail-again`,
		RunE: func(c *cobra.Command, ids []string) error {
			sel, err := f.selection(c, ids, all)
			if err != nil {
				return err
			}
			if to != "" {
				if err := pawl.ValidTopic(to); err != nil {
					return cannot(err, "replay to topic %s", to)
				}
			}
			return s.operate(c.Context(), sel, operation{verb: "replay", done: "replayed", to: to, perSecond: per.perSecond,
				each: func(ctx context.Context, d store.DeadLetters, ids []string) (map[string]error, error) {
					return d.Replay(ctx, to, ids...)
				}})
		},
	}
	f.add(c.Flags(), "reason")
	c.Flags().BoolVar(&all, "all", false, "all dead letters of the store")
	c.Flags().Var(&per, "rate", "no faster than this, such as 50/s")
	c.Flags().StringVar(&to, "to", "", "append them to this `TOPIC` instead")
	return c
}

// operation is something done to dead letters.
type operation struct {
	verb, done string
	to         string
	perSecond  float64
	confirm    bool
	why        string // as the user says it
	each       func(context.Context, store.DeadLetters, []string) (map[string]error, error)
}

// operate plans, asks if need be, and carries it out.
func (s *session) operate(ctx context.Context, sel app.Selection, o operation) error {
	opened, err := s.open(ctx)
	if err != nil {
		return err
	}
	d, err := partOf[store.DeadLetters](s, opened, o.verb+" dead letters")
	if err != nil {
		return err
	}
	plan, err := app.MakePlan(ctx, opened, d, sel, o.to)
	if err != nil {
		return cannot(err, "plan to %s dead letters", o.verb)
	}
	if s.dryRun {
		return s.one(plan, func(w io.Writer) { describePlan(w, plan, o.verb) })
	}
	for _, w := range plan.Warnings {
		s.note("mind: %s", w)
	}
	if err := mixedUp(ctx, d, sel, plan, o.why); err != nil {
		return err
	}
	if o.confirm && plan.Count > 0 {
		if err := s.confirm("%s %d dead letters for good; the oldest died at %s", o.verb, plan.Count, when(plan.Oldest.DeadAt)); err != nil {
			return err
		}
	}
	p := s.progress("dead letters")
	run := app.Operation{
		Each:      func(ctx context.Context, ids []string) (map[string]error, error) { return o.each(ctx, d, ids) },
		PerSecond: o.perSecond, Progress: p.at,
	}
	done, refusals, refused, err := run.Run(ctx, d, sel, plan)
	p.end()
	return errors.Join(s.operated(o, done, refused), s.unfinished(o, done, refusals, plan.Count, err, refused))
}

// mixedUp refuses a reason for a discard that looks as if it was meant to select:
// some of what is selected has it for its own reason, and some has not.
func mixedUp(ctx context.Context, d store.DeadLetters, sel app.Selection, plan *app.Plan, why string) error {
	if why == "" || len(sel.IDs) > 0 {
		return nil
	}
	f, n := sel.Filter, int64(0)
	f.Limit = 0
	for r, err := range d.Dead(ctx, f) {
		if err != nil {
			return cannot(err, "look at dead letters")
		}
		if strings.Contains(strings.ToLower(r.Reason), strings.ToLower(why)) {
			n++
		}
	}
	if n == 0 || n >= plan.Count {
		return nil
	}
	return usage("did you mean --matching? --reason does not select; say it in other words",
		"%d of %d dead letters have %q in their own reason", n, plan.Count, why)
}

// operated prints what was done.
func (s *session) operated(o operation, done int64, refused map[string]error) error {
	result := outcome{Done: done, Refused: []refusal{}, Reason: o.why}
	for _, id := range sortedIDs(refused) {
		result.Refused = append(result.Refused, refusal{id, refused[id].Error()})
	}
	return s.one(result, func(w io.Writer) { fmt.Fprintf(w, "%d %s\n", done, o.done) })
}

// unfinished is the error of an operation that did not do all.
func (s *session) unfinished(o operation, done, refusals, planned int64, err error, refused map[string]error) error {
	if err == nil {
		return refusedError(o.done, done, refusals, refused)
	}
	return &problem{
		code: exitUnfinished, what: fmt.Sprintf("not all is done: %d of %d %s", done, planned, o.done), err: err,
		next: "run it again: what is done is not done twice",
	}
}

// describePlan tells what would be done.
func describePlan(w io.Writer, p *app.Plan, verb string) {
	fmt.Fprintf(w, "would %s %d dead letters\n", verb, p.Count)
	for _, t := range p.Topics {
		fmt.Fprintf(w, "  %d of topic %s\n", t.Count, oneLine(t.Topic))
	}
	if p.Oldest != nil {
		fmt.Fprintf(w, "the oldest died at %s: %s %s\n", when(p.Oldest.DeadAt), p.Oldest.ID, firstLine(p.Oldest.Reason))
	}
	if p.Keys > 0 {
		fmt.Fprintf(w, "%d keys:\n", p.Keys)
	}
	for i, k := range p.PerKey {
		if i == 10 && len(p.PerKey) > 11 {
			fmt.Fprintf(w, "  … -o json has the first %d\n", len(p.PerKey))
			break
		}
		fmt.Fprintf(w, "  %d of %s (topic %s)\n", k.Count, cut(oneLine(k.Key), 60), k.Topic)
	}
	for _, warning := range p.Warnings {
		fmt.Fprintf(w, "mind: %s\n", oneLine(warning))
	}
}
