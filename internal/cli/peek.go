package cli

import (
	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) peek() *cobra.Command {
	n := 10
	c := &cobra.Command{
		Use: "peek TOPIC", Short: "Look at what comes next, without taking it", Args: count(1, 1, "one topic"),
		Long: `Shows the messages of a topic that are processed next: first those that a worker may
take now, then those that wait behind another one of their key, both by rank. It takes
none of them, and looks at the first 1,000 messages of the topic.

A store that does not know what other processes hold (Kafka) shows those messages,
too.`,
		Example: `  pawl peek mail
  pawl peek mail --limit 1 -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			if n < 1 {
				return usage("use a number from 1", "--limit is %d", n)
			}
			opened, err := s.open(c.Context())
			if err != nil {
				return err
			}
			topic := store.Topic{Name: args[0]}
			if topics, ok := store.As[store.Topics](opened); ok {
				if topic, err = topics.Topic(c.Context(), args[0]); err != nil {
					return cannot(err, "peek into topic %s", args[0])
				}
			}
			i, err := partOf[store.Looker](opened, "peek")
			if err != nil {
				return err
			}
			return s.printMessages(operate.Upcoming(c.Context(), i, topic, n), "nothing is waiting in topic "+args[0])
		},
	}
	c.Flags().IntVar(&n, "limit", n, "show this many")
	return c
}
