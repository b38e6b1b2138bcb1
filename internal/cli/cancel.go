package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// liveVerb is a command that changes messages that are not leased, by id or selected by flags.
type liveVerb struct {
	verb, done string
	states     []store.State // it selects these; --state selects among several
	do         func(store.Inspector, context.Context, ...string) (map[string]error, error)
}

func (s *session) cancel() *cobra.Command {
	return s.liveCommand(&liveVerb{"cancel", "cancelled", []store.State{store.Waiting, store.Delayed},
		store.Inspector.Cancel}, &cobra.Command{
		Short: "Remove messages before they are processed",
		Long: `Removes messages that are waiting or delayed, by id or selected by flags. A leased message
is being processed, and a dead letter is discarded with ` + "`pawl dead discard`" + `: both are
refused. Selected by flags, or more than 100, it asks first, unless --yes is given;
--dry-run prints the plan. Messages that a worker begins meanwhile are refused, and the
exit code is 3.`,
		Example: `  pawl cancel $(pawl send mail "a mistake")
  pawl send mail "no" | xargs pawl cancel
  pawl cancel --topic mail --key customer-7 --dry-run
  pawl cancel --topic mail --state delayed --older-than 1h --yes`,
	})
}

func (s *session) messagesRun() *cobra.Command {
	return s.liveCommand(&liveVerb{"run", "due now", []store.State{store.Delayed}, store.Inspector.RunNow},
		&cobra.Command{
			Short: "Run delayed messages now",
			Long: `Makes delayed messages due, by id or selected by flags: those that were sent with a delay,
and those that wait for a retry. A worker takes them as it takes others, in their place;
their attempts count on. A waiting message stays as it is; one that is leased or dead is
refused. Selected by flags, or more than 100, it asks first, unless --yes is given.`,
			Example: `  pawl messages run $(pawl send mail --delay 1h "hello")
  pawl messages run --topic mail --dry-run
  pawl messages run --topic mail --attr status=503 --yes`,
		})
}

func (s *session) liveCommand(v *liveVerb, c *cobra.Command) *cobra.Command {
	var f liveFilter
	var state string
	c.Use, c.Args = v.verb+" [ID…]", count(0, -1, "ids")
	c.RunE = func(c *cobra.Command, ids []string) error {
		if err := f.check(c, ids, state != ""); err != nil {
			return err
		}
		of := store.Filter{State: store.State(state), OlderThan: time.Duration(f.olderThan)}
		if len(v.states) == 1 {
			of.State = v.states[0]
		} else if state != "" && !slices.Contains(v.states, of.State) {
			return usage("use one of these", "--state is %q; it is %s, %s", state, store.Waiting, store.Delayed)
		}
		i, err := part[store.Inspector](c.Context(), s, v.verb+" messages", store.CanLookup)
		if err != nil {
			return err
		}
		if len(ids) > 0 {
			return s.changeGiven(c.Context(), i, v, unique(ids))
		}
		found, err := f.find(c.Context(), i, of, func(r *store.Record) bool { return r.State != store.Leased })
		if err != nil {
			return err
		}
		if yes, err := s.agreed(v.verb, "", planLive(found), true); !yes {
			return err
		}
		form := f.form()
		form.State = string(of.State)
		return s.changeLive(c.Context(), i, v, form, idsOf(found))
	}
	f.add(c.Flags(), "only what was appended longer ago")
	if len(v.states) > 1 {
		c.Flags().StringVar(&state, "state", "", "only what is waiting, or delayed")
	}
	return c
}

// changeGiven changes messages by id.
func (s *session) changeGiven(ctx context.Context, i store.Inspector, v *liveVerb, ids []string) error {
	ids, err := s.ids(ctx, ids...)
	if err != nil {
		return err
	}
	if s.dryRun {
		_, refused, err := s.inState(ctx, i, ids, store.Waiting, store.Delayed)
		if err != nil {
			return err
		}
		return s.done("would be "+v.done, ids, refused)
	}
	if len(ids) > many {
		if err := s.confirm("%s %d messages", v.verb, len(ids)); err != nil {
			return err
		}
	}
	return s.changeLive(ctx, i, v, operate.Filter{IDs: ids}, ids)
}

func (s *session) changeLive(ctx context.Context, i store.Inspector, v *liveVerb, form operate.Filter,
	ids []string) error {
	n, refused, failed := inChunks(ctx, s, ids, func(ctx context.Context, ids []string) (map[string]error, error) {
		return v.do(i, ctx, ids...)
	})
	if n == 0 && failed != nil {
		return cannot(failed, "%s messages", v.verb)
	}
	s.ifMissing(ctx, refused)
	return s.changed(ctx, v.verb, v.done, form, ids, ids[:n], refused, failed)
}

// mostRefused is how many refused ids the audit names: an entry has its bounds.
const mostRefused = 100

// ifMissing says where ids may be that are not found.
func (s *session) ifMissing(ctx context.Context, refused map[string]error) {
	for _, err := range refused {
		if errors.Is(err, store.ErrNotFound) {
			s.elsewhere(ctx)
			return
		}
	}
}

// outcome is what became of ids, as JSON.
type outcome struct {
	Done    int64             `json:"done"`
	Refused []operate.Refusal `json:"refused"`
	Reason  string            `json:"reason,omitempty"` // as the user said it
}

// done prints what became of ids. If all were refused, or some, the exit code
// says so.
func (s *session) done(what string, ids []string, refused map[string]error) error {
	o := outcome{Done: int64(len(ids) - len(refused)), Refused: []operate.Refusal{}}
	for _, id := range sortedIDs(refused) {
		o.Refused = append(o.Refused, operate.Refusal{ID: id, Why: refused[id].Error()})
	}
	err := s.one(o, func(w io.Writer) {
		if o.Done > 0 {
			fmt.Fprintf(w, "%d %s\n", o.Done, what)
		}
	})
	return errors.Join(err, refusedError(what, o.Done, int64(len(refused)), refused))
}

func sortedIDs(refused map[string]error) []string { return slices.Sorted(maps.Keys(refused)) }

// refusedError says why ids were refused, by some of them; nil if none was.
func refusedError(what string, done, refusals int64, refused map[string]error) error {
	if refusals == 0 {
		return nil
	}
	var why []error
	missing := len(refused) > 0
	for i, id := range sortedIDs(refused) {
		missing = missing && errors.Is(refused[id], store.ErrNotFound)
		switch {
		case i < 5:
			why = append(why, fmt.Errorf("%s: %w", id, refused[id]))
		case i == 5:
			why = append(why, fmt.Errorf("… and %d more", refusals-5))
		}
	}
	p := &problem{code: exitPartly, what: fmt.Sprintf("%d were refused, %d %s", refusals, done, what),
		err:  errors.Join(why...),
		next: "look at them with `pawl messages show ID`"}
	switch {
	case done == 0 && missing:
		p.code, p.next = exitNotFound,
			"they were acked, removed or never stored; see `pawl messages ls` and `pawl dead ls`"
	// these can be repeated: all being there is no conflict
	case done == 0 && what != "imported" && what != doneWords[operate.KindReplay]:
		p.code = exitConflict
	}
	return p
}

// reclaiming is the flags of reclaim beside those that select messages.
type reclaiming struct {
	liveFilter
	owner string
	stuck bool
}

func (s *session) reclaim() *cobra.Command {
	var f reclaiming
	c := &cobra.Command{
		Use: "reclaim [ID…]", Short: "Take messages back from workers that hold them", Args: count(0, -1, "ids"),
		Long: `Takes leased messages back from their workers, by id or selected by flags: they can be
claimed again at once. No attempt is counted. The worker may still be at work: its verdict
is refused, but its work is not undone, and will be done again. With
a message, the others that its worker holds of the same key go back as well.

A worker that is dead or hangs loses its messages anyway, when the lease or the hard
deadline ends: use this if you cannot wait. A message is stuck if a worker has held it for
longer than half of the topic's deadline, as ` + "`pawl topics ls`" + ` counts it.

Selected by flags, it asks first, unless --yes is given; --dry-run prints the plan.
Messages that are settled meanwhile are refused, and the exit code is 3.`,
		Example: `  pawl reclaim --stuck --dry-run
  pawl reclaim --topic mail --older-than 1m --yes
  pawl reclaim --owner host/4711/abc --yes`,
		RunE: func(c *cobra.Command, ids []string) error {
			if err := f.check(c, ids, f.stuck || f.owner != ""); err != nil {
				return err
			}
			l, err := part[store.Inspector](c.Context(), s, "reclaim messages")
			if err != nil {
				return err
			}
			if why := onlyItsProcess(s.opened); why != nil {
				return cannot(why, "reclaim messages")
			}
			if ids, err = s.ids(c.Context(), unique(ids)...); err != nil {
				return err
			}
			return s.reclaimAll(c.Context(), l, &f, ids)
		},
	}
	f.add(c.Flags(), "only what a worker has held for longer")
	c.Flags().StringVar(&f.owner, "owner", "", "only what this `WORKER` holds; pawl workers ls names them")
	c.Flags().BoolVar(&f.stuck, "stuck", false, "only stuck messages")
	return changes(c)
}

// onlyItsProcess is the error of a store in which nobody else can settle a message.
func onlyItsProcess(opened store.Store) error {
	d, ok := store.As[store.Describer](opened)
	if !ok {
		return nil
	}
	if able := d.Describe().Capabilities[store.CanAnyProcess]; !able.Kept {
		return &store.Error{Op: "reclaim", Code: store.ErrUnsupported, Err: errors.New(able.Note),
			Hint: "end the process that has them"}
	}
	return nil
}

func (s *session) reclaimAll(ctx context.Context, l store.Inspector, f *reclaiming, ids []string) error {
	found, refused, err := s.leased(ctx, l, f, ids)
	if err != nil {
		return err
	}
	yes, err := s.agreed("reclaim", " from their workers", planLive(found), len(ids) == 0 || len(ids) > many)
	if s.dryRun {
		return errors.Join(err, refusedError("would be reclaimed", int64(len(found)), int64(len(refused)), refused))
	}
	if !yes {
		return err
	}
	runs := s.runsOf(found)
	n, no, failed := inChunks(ctx, s, runs, s.giveBack)
	tried := sortedIDs(refused)
	for _, r := range runs[:n] {
		tried = append(tried, r.ids...)
	}
	maps.Copy(refused, no)
	form, all := f.form(), ids
	form.Owner, form.Stuck, form.IDs = f.owner, f.stuck, ids
	if len(ids) == 0 {
		all = idsOf(found)
	}
	return s.changed(ctx, "reclaim", "reclaimed", form, all, tried, refused, failed)
}

// leased finds what is to be reclaimed, and says of ids why some are not.
func (s *session) leased(ctx context.Context, l store.Inspector, f *reclaiming,
	ids []string) (found []store.Record, refused map[string]error, err error) {
	if len(ids) > 0 {
		return s.inState(ctx, l, ids, store.Leased)
	}
	now := time.Now()
	if e, ok := store.As[store.Shared](s.opened); ok {
		if now, err = e.Clock(ctx); err != nil {
			return nil, nil, cannot(err, "ask the store for the time")
		}
	}
	found, err = f.find(ctx, l, store.Filter{State: store.Leased}, func(r *store.Record) bool {
		return r.Lease != nil && (f.owner == "" || f.owner == r.Lease.Owner) && (!f.stuck || r.Lease.Stuck(now)) &&
			(f.olderThan == 0 || now.Sub(r.Lease.StartedAt) > time.Duration(f.olderThan))
	})
	return found, map[string]error{}, err
}

// leasedRun is messages under one lease, and what gives all of them back: the release of
// one ends the run, and fences whoever has its token.
type leasedRun struct {
	release store.Settlement
	ids     []string
}

func (s *session) runsOf(found []store.Record) (runs []leasedRun) {
	at := map[pawl.Token]int{}
	for i := range found {
		r := &found[i]
		of := r.Lease.Token
		of.Seq = 0
		if _, known := at[of]; !known {
			at[of] = len(runs)
			runs = append(runs, leasedRun{release: store.Settlement{Token: r.Lease.Token, ID: r.ID,
				Verdict: store.Release,
				Failure: store.Failure{Error: fmt.Sprintf("%s took it back from %s", s.who(), r.Lease.Owner)}}})
		}
		runs[at[of]].ids = append(runs[at[of]].ids, r.ID)
	}
	return runs
}

// giveBack releases runs for their workers.
func (s *session) giveBack(ctx context.Context, runs []leasedRun) (map[string]error, error) {
	items := make([]store.Settlement, len(runs))
	for i := range runs {
		items[i] = runs[i].release
	}
	lost, err := s.opened.Settle(ctx, store.NewBatch(items...))
	if err != nil {
		return nil, cannot(err, "reclaim messages")
	}
	refused := map[string]error{}
	for _, no := range lost {
		for _, id := range runs[no.Index].ids {
			refused[id] = &store.Error{Op: "reclaim " + id, Code: store.ErrConflict,
				Err: errors.New("its worker has settled it, or has lost it")}
		}
	}
	return refused, nil
}

// skipID skips a message by its id.
func (s *session) skipID(ctx context.Context, id, reason string) error {
	i, err := part[store.Inspector](ctx, s, "skip a message by its id", store.CanLookup)
	if errors.Is(err, store.ErrUnsupported) {
		return usage("add --partition; `pawl kafka health "+id+"` shows which one is stuck",
			"this store needs --partition")
	} else if err != nil {
		return err
	}
	ids, err := s.ids(ctx, id)
	if err != nil {
		return err
	}
	found, refused, err := s.inState(ctx, i, ids, store.Waiting, store.Delayed, store.Leased)
	if err != nil {
		return err
	}
	if s.dryRun || len(found) == 0 {
		return s.done("would be skipped", ids, refused)
	}
	if err := s.confirm("move message %s of topic %s to the dead letters", ids[0], found[0].Topic); err != nil {
		return err
	}
	refused, err = operate.Skip(ctx, s.opened, i, s.who(), reason, ids...)
	if err != nil {
		return cannot(err, "skip message %s", ids[0])
	}
	return s.changed(ctx, "skip", "skipped; see `pawl dead show "+operate.Operands(ids[0])+"`",
		operate.Filter{IDs: ids}, ids, ids, refused, nil)
}
