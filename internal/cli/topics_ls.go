package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) topicsLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls [TOPIC…]", Short: "List topics with their figures", Args: count(0, -1, "topics"),
		Long: `Lists all topics, or those named: how many messages are waiting, delayed, leased and
dead, how long the oldest has been waiting, when one was last acked, and totals since
the topic was created. Stuck are those of the leased whose worker has had them for longer
than half of the topic's deadline: ` + "`pawl reclaim --stuck`" + ` takes them back. Of a topic
with a maximum of waiting messages that is shown, too, and when it is full. It counts
messages, so do not run it too often on a large store.`,
		Example: `  pawl topics ls
  pawl topics ls -o json`,
		RunE: func(c *cobra.Command, args []string) error {
			topics, err := part[store.Topics](c.Context(), s, "list topics")
			if err != nil {
				return err
			}
			stats, err := topics.Stats(c.Context(), args...)
			if err != nil {
				return cannot(err, "list topics")
			}
			if missing := notAmong(args, stats); missing != "" {
				return &problem{code: exitNotFound, what: fmt.Sprintf("there is no topic %q", missing),
					err: store.ErrNotFound, next: "`pawl topics ls` lists all"}
			}
			l := s.list("TOPIC", "ORDER", ">WAITING", ">DELAYED", ">LEASED", ">DEAD", ">OLDEST", ">APPENDED",
				">ACKED", ">STUCK", "LAST ACK", "PAUSED")
			for i := range stats {
				t := operate.FormTopic(&stats[i])
				l.add(t, t.Topic, string(t.Order), waitingCell(&t), number(t.Delayed), number(t.Leased),
					number(t.Dead), age(stats[i].OldestWaiting), number(t.AppendedTotal),
					number(t.AckedTotal), number(t.Stuck), whenever(t.LastAckAt), pauseCell(t.Pause))
			}
			return l.end("no topics yet; create one: pawl send mail \"hello\"")
		},
	}
}

// waitingCell is how many messages wait, and of how many at most.
func waitingCell(t *operate.Topic) string {
	if t.MaxWaiting == 0 {
		return number(t.Waiting)
	}
	text := number(t.Waiting) + "/" + number(t.MaxWaiting)
	if t.Full {
		text += " full"
	}
	return text
}

// notAmong returns a name that is in no figure.
func notAmong(names []string, stats []store.TopicStats) string {
	there := map[string]bool{}
	for i := range stats {
		there[stats[i].Name] = true
	}
	for _, n := range names {
		if !there[n] {
			return n
		}
	}
	return ""
}

func pauseCell(p *operate.Pause) string {
	if p == nil {
		return ""
	}
	text := "by " + p.By
	if p.Until != nil {
		text += ", for " + age(time.Until(*p.Until))
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}
