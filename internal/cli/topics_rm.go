package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// removedTopic is what a removal removes, as JSON.
type removedTopic struct {
	Topic     string `json:"topic"`
	Cancelled int64  `json:"cancelled"` // messages
	Purged    int64  `json:"purged"`    // dead letters
}

func (s *session) topicsRm() *cobra.Command {
	var force bool
	c := &cobra.Command{
		Use: "rm TOPIC", Short: "Remove a topic", Args: count(1, 1, "one topic"),
		Long: `Removes a topic that is not used any more: settings, pause, figures, and the acked
messages that it retains. It is refused while a worker serves the topic or holds a message
of it, and while it has messages or dead letters, unless --force is given: then those are
removed, too, for good. It asks first, unless --yes is given; --dry-run says what would go.

A message sent to the topic creates it again, with default settings. Unique keys that
outlive their message are remembered until they expire.`,
		Example: `  pawl topics set old --order none && pawl topics rm old --yes
  pawl topics rm mail --force --dry-run`,
		RunE: with(s, "remove a topic", func(c *cobra.Command, args []string, remover store.TopicRemover) error {
			return s.removeTopic(c, remover, args[0], force)
		}),
	}
	c.Flags().BoolVar(&force, "force", false, "remove its messages and dead letters, too")
	return c
}

func (s *session) removeTopic(c *cobra.Command, remover store.TopicRemover, name string, force bool) error {
	ctx := c.Context()
	if err := s.notMoved(ctx, name, "remove"); err != nil {
		return err
	}
	st, err := s.unused(ctx, name, force)
	if err != nil {
		return err
	}
	r := &removedTopic{Topic: name, Cancelled: st.Waiting + st.Delayed, Purged: st.Dead + st.Resolved}
	say := func(what string) error {
		return s.one(r, func(w io.Writer) {
			fmt.Fprintf(w, "topic %s %s", oneLine(name), what)
			if r.Cancelled+r.Purged > 0 {
				fmt.Fprintf(w, ", with %d messages and %d dead letters", r.Cancelled, r.Purged)
			}
			fmt.Fprintln(w)
		})
	}
	if s.dryRun {
		return say("would be removed")
	}
	if err := s.confirm("remove topic %s, %d messages and %d dead letters for good", name, r.Cancelled,
		r.Purged); err != nil {
		return err
	}
	r.Cancelled, r.Purged, err = s.clearTopic(ctx, name, r.Cancelled+r.Purged > 0)
	if err == nil {
		err = remover.RemoveTopic(ctx, name)
	}
	if err != nil && r.Cancelled+r.Purged == 0 {
		return cannot(err, "remove topic %s", name)
	}
	audited := s.auditTopic(c, "rm", name, fmt.Sprintf("%d messages, %d dead letters", r.Cancelled, r.Purged))
	if err != nil {
		return errors.Join(cannot(err, "remove topic %s: %d messages and %d dead letters of it are removed", name,
			r.Cancelled, r.Purged), audited)
	}
	return errors.Join(say("is removed"), audited)
}

// unused returns the figures of a topic, unless somebody works on it or something is in it
// that is not to be removed.
func (s *session) unused(ctx context.Context, name string, force bool) (*store.TopicStats, error) {
	topics, err := partOf[store.Topics](s.opened, "remove a topic")
	if err != nil {
		return nil, err
	}
	stats, err := topics.Stats(ctx, name)
	if err != nil {
		return nil, cannot(err, "look at topic %s", name)
	}
	if len(stats) == 0 {
		return nil, noTopic(name)
	}
	refuse := func(next, why string, args ...any) error {
		return &problem{code: exitConflict, what: "cannot remove topic " + name, err: fmt.Errorf(why, args...),
			next: next}
	}
	workers, err := operate.Workers(ctx, s.opened)
	if err != nil && !errors.Is(err, store.ErrUnsupported) {
		return nil, cannot(err, "look at the workers")
	}
	for i := range workers {
		w := &workers[i]
		if w.Alive != nil && *w.Alive && slices.ContainsFunc(w.Topics, func(t operate.WorkerTopic) bool {
			return t.Topic == name
		}) {
			return nil, refuse("stop it first", "worker %s serves it", w.Owner)
		}
	}
	st := &stats[0]
	switch {
	case st.Leased > 0:
		return nil, refuse("wait for them, or take them back: pawl reclaim --topic "+name,
			"%d messages are leased by workers", st.Leased)
	case !force && st.Waiting+st.Delayed+st.Dead+st.Resolved > 0:
		return nil, refuse("let workers empty it, or add --force to remove them, too",
			"it has %d messages and %d dead letters", st.Waiting+st.Delayed, st.Dead+st.Resolved)
	}
	return st, nil
}

// clearTopic removes all messages and dead letters of a topic, and returns how many.
func (s *session) clearTopic(ctx context.Context, name string, some bool) (cancelled, purged int64, err error) {
	if !some {
		return 0, 0, nil
	}
	inspector, err := partOf[store.Inspector](s.opened, "cancel messages")
	if err != nil {
		return 0, 0, err
	}
	letters, err := partOf[store.DeadLetters](s.opened, "discard dead letters")
	if err != nil {
		return 0, 0, err
	}
	all := liveFilter{topic: name}
	found, err := all.find(ctx, inspector, store.Filter{}, func(*store.Record) bool { return true })
	if err != nil {
		return 0, 0, err
	}
	n, refused, err := inChunks(ctx, s, idsOf(found), func(ctx context.Context,
		ids []string) (map[string]error, error) {
		return inspector.Cancel(ctx, ids...)
	})
	cancelled = int64(n - len(refused))
	if err != nil {
		return cancelled, 0, err
	}
	var dead []string
	for r, err := range letters.Dead(ctx, store.DeadFilter{Topic: name, Brief: true}) {
		if err != nil {
			return cancelled, 0, err
		}
		dead = append(dead, r.ID)
	}
	n, refused, err = inChunks(ctx, s, dead, func(ctx context.Context, ids []string) (map[string]error, error) {
		return letters.Purge(ctx, ids...)
	})
	return cancelled, int64(n - len(refused)), err
}
