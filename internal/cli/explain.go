package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/app"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) explain() *cobra.Command {
	return &cobra.Command{
		Use: "explain ID", Short: "Say why a message is where it is, and what happens next", Args: count(1, 1, "one id"),
		Long: `Says in words why a message is where it is: who works on it, what it waits for, why
it failed and which rule decided what became of that, and what happens next.

The situation is one of ready, behind, held, paused, delayed, retrying, suspect,
leased, dead, replayed and retained. A message that was acked is not known any more,
unless its topic retains: then the exit code is 6.`,
		Example: `  pawl explain $(pawl send mail "hello")
  pawl explain $(pawl send mail "hello") -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			i, err := part[store.Inspector](c.Context(), s, "explain a message")
			if err != nil {
				return err
			}
			t, err := partOf[store.Topics](s, s.opened, "explain a message")
			if err != nil {
				return err
			}
			x, err := app.Explain(c.Context(), i, t, args[0])
			if errors.Is(err, store.ErrNotFound) {
				return &problem{
					code: exitNotFound, what: fmt.Sprintf("message %s is unknown", args[0]), err: errors.New("unknown: acked or never here"),
					next: "to know of acked messages for a while: pawl topics set TOPIC --retain 24h",
				}
			}
			if err != nil {
				return cannot(err, "explain message %s", args[0])
			}
			return s.one(x, func(w io.Writer) { describeWhy(w, x) })
		},
	}
}

func describeWhy(w io.Writer, x *app.Explanation) {
	field(w, "id", x.ID)
	field(w, "topic", x.Topic)
	if x.Key != nil {
		field(w, "key", *x.Key)
	}
	field(w, "state", string(x.State))
	field(w, "situation", x.Situation)
	field(w, "why", x.Why)
	field(w, "since", when(x.Since))
	field(w, "blocked by", x.BlockedBy)
	switch {
	case x.Next != nil && x.Next.At != nil:
		field(w, "next", when(*x.Next.At)+": "+x.Next.Action)
	case x.Next != nil:
		field(w, "next", x.Next.Action)
	case x.State == store.IsDead:
		field(w, "next", "nothing by itself; to read it: pawl dead show "+x.ID+", to try again: pawl dead replay "+x.ID)
	}
	describePast(w, x.History, 0)
}
