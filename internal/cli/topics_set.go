package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// settingFlags are the flags of topics set; only those that are given count.
type settingFlags struct {
	order, retry             string
	deadline, ageing, retain duration
	park                     bool
	maxWaiting, version      int64
}

// topicSettings is the JSON of `pawl topics set`.
type topicSettings struct {
	Topic string      `json:"topic"`
	Order store.Order `json:"order"`
	operate.Settings
}

func (s *session) topicsSet() *cobra.Command {
	var f settingFlags
	c := &cobra.Command{
		Use: "set TOPIC", Short: "Show or change a topic's settings", Args: count(1, 1, "one topic"),
		Long: `Changes settings of a topic, which is created if it does not exist; without flags it
shows them. A worker that states different settings does not start. --order and --retry
can change only while the topic has no messages except dead letters. With --if-version it
changes nothing if somebody else has changed the settings since.

With --max-waiting an append is refused while so many messages are waiting or delayed, by
figures that are a second old at most; the error says when to try again. What handlers
emit is never refused, nor what is retried or replayed. Kafka refuses this setting.`,
		Example: `  pawl topics set mail --order key --deadline 2m
  pawl topics set mail --park --retain 1d
  pawl topics set fetch --retry tail
  pawl topics set mail --max-waiting 100000
  pawl topics set mail`,
		RunE: func(c *cobra.Command, args []string) error {
			find := part[store.Topics]
			if ownFlags(c) != "" {
				find = partOrMake[store.Topics]
			}
			topics, err := find(c.Context(), s, "set a topic")
			if err != nil {
				return err
			}
			if ownFlags(c) != "" {
				if err := s.notMoved(c.Context(), args[0], "set"); err != nil {
					return err
				}
			}
			t, err := s.setTopic(c, topics, args[0], &f)
			if err != nil {
				return cannot(err, "set topic %s", args[0])
			}
			if !s.dryRun && ownFlags(c) != "" {
				if err := s.auditTopic(c, "set", args[0], ""); err != nil {
					return err
				}
			}
			return s.one(topicSettings{t.Name, t.Order, operate.FormSettings(&t)}, func(w io.Writer) {
				fmt.Fprintf(w, "topic %s: order %s, deadline %v, ageing %v, park %v, retry %s, retain %v, max waiting %d, version %d\n",
					t.Name, t.Order, t.Deadline, t.Ageing, t.Park, t.RetriesAt(), t.Retain, t.MaxWaiting, t.Version)
			})
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.order, "order", "", "key: messages with the same key in order; none: every message by itself")
	fl.Var(&f.deadline, "deadline", "how long a delivery may take at most")
	fl.Var(&f.ageing, "ageing", "the wait that is worth one point of priority")
	fl.BoolVar(&f.park, "park", false, "send what follows a dead letter of its key to the dead letters, too")
	fl.StringVar(&f.retry, "retry", "",
		"head: a retried message keeps the others of its key waiting; tail: it goes behind them")
	fl.Var(&f.retain, "retain", "how long to keep acked messages, for explain; 0s keeps none")
	fl.Int64Var(&f.maxWaiting, "max-waiting", 0,
		"how many messages may wait until appends are refused; 0 is no bound")
	fl.Int64Var(&f.version, "if-version", 0, "change only if the settings are at this version")
	return c
}

// setTopic declares a topic whose settings nobody has stated, and alters another.
func (s *session) setTopic(c *cobra.Command, topics store.Topics, name string, f *settingFlags) (store.Topic, error) {
	ctx := c.Context()
	now, err := topics.Topic(ctx, name)
	missing := errors.Is(err, store.ErrNotFound)
	if missing {
		now = store.NewTopic(name)
	} else if err != nil {
		return now, err
	}
	next, changed := now, false
	change := func(flag string, set func()) {
		if c.Flags().Changed(flag) {
			set()
			changed = true
		}
	}
	change("order", func() { next.Order = store.Order(f.order) })
	change("deadline", func() { next.Deadline = time.Duration(f.deadline) })
	change("ageing", func() { next.Ageing = time.Duration(f.ageing) })
	change("park", func() { next.Park = f.park })
	change("retry", func() { next.Tail = f.retry == "tail" })
	change("retain", func() { next.Retain = time.Duration(f.retain) })
	change("max-waiting", func() { next.MaxWaiting = f.maxWaiting })
	switch {
	case !changed && missing:
		return now, err
	case c.Flags().Changed("if-version") && f.version != now.Version:
		return now, &store.Error{Op: "set topic " + name, Code: store.ErrConflict,
			Err:  fmt.Errorf("it is at version %d, not %d", now.Version, f.version),
			Hint: "look at it: pawl topics set " + name}
	case !changed:
		return now, nil
	}
	if c.Flags().Changed("retry") && f.retry != next.RetriesAt() {
		return now, &pawl.InvalidError{Field: "retry", Why: fmt.Sprintf("is %q; it is head or tail", f.retry)}
	}
	if err := next.Validate(); err != nil || s.dryRun {
		return next, err
	}
	return settle(ctx, topics, now, next)
}

func settle(ctx context.Context, topics store.Topics, now, next store.Topic) (store.Topic, error) {
	if now.Version > 0 {
		return topics.Alter(ctx, next)
	}
	return topics.Declare(ctx, store.Declaration{
		Name: next.Name, Order: next.Order, Deadline: next.Deadline, Ageing: next.Ageing, Park: &next.Park,
		Tail: &next.Tail, Retain: &next.Retain, MaxWaiting: &next.MaxWaiting,
	})
}
