package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

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
longer than half of what the topic's deadline allows, as ` + "`pawl topics ls`" + ` counts it.

Selected by flags, it asks first, unless --yes is given; --dry-run prints the plan. What
is settled while it runs is refused, and the exit code is 3.`,
		Example: `  pawl reclaim --stuck --dry-run
  pawl reclaim --topic mail --older-than 1m --yes
  pawl reclaim --owner host/4711/abc --yes`,
		RunE: func(c *cobra.Command, ids []string) error {
			if err := f.check(c, ids, f.stuck || f.owner != ""); err != nil {
				return err
			}
			l, err := part[store.Looker](c.Context(), s, "reclaim messages")
			if err != nil {
				return err
			}
			if why := onlyItsProcess(s.opened); why != nil {
				return cannot(why, "reclaim messages")
			}
			return s.reclaimAll(c.Context(), l, &f, unique(ids))
		},
	}
	f.add(c.Flags(), "only what a worker has held for longer")
	c.Flags().StringVar(&f.owner, "owner", "", "only what this worker holds; `pawl workers ls` names the workers")
	c.Flags().BoolVar(&f.stuck, "stuck", false, "only stuck messages")
	return c
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

func (s *session) reclaimAll(ctx context.Context, l store.Looker, f *reclaiming, ids []string) error {
	found, refused, err := s.leased(ctx, l, f, ids)
	if err != nil {
		return err
	}
	yes, err := s.agreed("reclaim", " from their workers", planLive(found), len(ids) == 0)
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
func (s *session) leased(ctx context.Context, l store.Looker, f *reclaiming,
	ids []string) (found []store.Record, refused map[string]error, err error) {
	if len(ids) > 0 {
		return s.inState(ctx, l, ids, store.Leased)
	}
	now := time.Now()
	if e, ok := store.As[store.Entries](s.opened); ok {
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
