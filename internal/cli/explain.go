package cli

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/migrate"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) explain() *cobra.Command {
	return &cobra.Command{
		Use: "explain ID", Short: "Say why a message is where it is, and what happens next",
		Args: count(1, 1, "one id"),
		Long: `Says in words why a message is where it is: who works on it, what it waits for, why it
failed, which rule decided about that, and what happens next.

The situation is one of ready, behind, held, paused, limited, delayed, retrying,
suspect, leased, dead, replayed and retained. If a topic is paused, it also says what
will hold the message back after that. An acked message is no longer known, unless its
topic retains; neither is one that was cancelled or discarded, but the audit tells who
did that, if it was by id. Then the exit code is 6.

It says that no worker serves a topic if none has reported for 20 seconds and none
holds a message of it. Programs that use only the library do not report.`,
		Example: `  pawl explain $(pawl send mail "hello")
  pawl explain $(pawl send mail "hello") -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			i, err := part[store.Looker](c.Context(), s, "explain a message")
			if err != nil {
				return err
			}
			t, err := partOf[store.Topics](s.opened, "explain a message")
			if err != nil {
				return err
			}
			x, err := operate.Explain(c.Context(), s.opened, i, t, args[0])
			if errors.Is(err, store.ErrNotFound) {
				return s.notKnown(operate.NotKnown(c.Context(), s.opened, args[0], migrate.MayBeAway))
			}
			if err != nil {
				return cannot(err, "explain message %s", args[0])
			}
			return s.one(x, func(w io.Writer) { describeWhy(w, x) })
		},
	}
}

// notKnown says what is known of an id that is not there.
func (s *session) notKnown(x *operate.Explanation) error {
	if s.output != formatTable {
		if err := s.one(x, nil); err != nil {
			return err
		}
	}
	return &problem{
		code: exitNotFound, what: fmt.Sprintf("message %s is unknown", x.ID), err: errors.New(x.Why),
		next: strings.TrimPrefix(x.Next.Action, "nothing; "),
	}
}

func describeWhy(w io.Writer, x *operate.Explanation) {
	field(w, "id", x.ID)
	field(w, "topic", *x.Topic)
	if x.Key != nil {
		field(w, "key", *x.Key)
	}
	field(w, "state", string(x.State))
	field(w, "situation", x.Situation)
	field(w, "why", x.Why)
	field(w, "since", whenever(x.Since))
	field(w, "blocked by", x.BlockedBy)
	if x.Next.At != nil {
		field(w, "next", when(*x.Next.At)+": "+x.Next.Action)
	} else {
		field(w, "next", x.Next.Action)
	}
	describePast(w, x.History, 0)
}
