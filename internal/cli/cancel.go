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

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) cancel() *cobra.Command {
	var f liveFilter
	var state string
	c := &cobra.Command{
		Use: "cancel [ID…]", Short: "Remove messages before they are processed", Args: count(0, -1, "ids"),
		Long: `Removes messages that are waiting or delayed, by id or selected by flags. A leased message
is being processed, and a dead letter is discarded with ` + "`pawl dead discard`" + `: both are
refused. Selected by flags, it asks first, unless --yes is given; --dry-run prints the
plan. What is taken up while it runs is refused, and the exit code is 3.`,
		Example: `  pawl cancel $(pawl send mail "a mistake")
  pawl send mail "no" | xargs pawl cancel
  pawl cancel --topic mail --key customer-7 --dry-run
  pawl cancel --topic mail --state delayed --older-than 1h --yes`,
		RunE: func(c *cobra.Command, ids []string) error {
			if err := f.check(c, ids, state != ""); err != nil {
				return err
			}
			if state != "" && state != string(store.Waiting) && state != string(store.Delayed) {
				return usage("use one of these", "--state is %q; it is %s, %s", state, store.Waiting, store.Delayed)
			}
			i, err := part[store.Inspector](c.Context(), s, "cancel messages")
			if err != nil {
				return err
			}
			if len(ids) == 0 {
				return s.cancelSelected(c.Context(), i, &f, store.State(state))
			}
			ids = unique(ids)
			if s.dryRun {
				_, refused, err := s.inState(c.Context(), i, ids, store.Waiting, store.Delayed)
				if err != nil {
					return err
				}
				return s.done("would be cancelled", ids, refused)
			}
			refused, err := i.Cancel(c.Context(), ids...)
			if err != nil {
				return cannot(err, "cancel messages")
			}
			s.ifMissing(c.Context(), refused)
			return s.changed(c.Context(), "cancel", "cancelled", operate.Filter{IDs: ids}, ids, ids, refused, nil)
		},
	}
	f.add(c.Flags(), "only what was appended longer ago")
	c.Flags().StringVar(&state, "state", "", "only what is waiting, or delayed")
	return c
}

// cancelSelected cancels what flags select.
func (s *session) cancelSelected(ctx context.Context, i store.Inspector, f *liveFilter, state store.State) error {
	found, err := f.find(ctx, i, store.Filter{State: state, OlderThan: time.Duration(f.olderThan)},
		func(r *store.Record) bool { return r.State != store.Leased })
	if err != nil {
		return err
	}
	if yes, err := s.agreed("cancel", "", planLive(found), true); !yes {
		return err
	}
	ids := idsOf(found)
	n, refused, failed := inChunks(ctx, s, ids, func(ctx context.Context, ids []string) (map[string]error, error) {
		return i.Cancel(ctx, ids...)
	})
	form := f.form()
	form.State = string(state)
	return s.changed(ctx, "cancel", "cancelled", form, ids, ids[:n], refused, failed)
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
