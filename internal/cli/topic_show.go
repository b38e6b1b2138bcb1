package cli

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) topicsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show TOPIC", Short: "Show everything about a topic", Args: count(1, 1, "one topic"),
		Long: `Shows the settings of a topic and where each comes from (the default, a worker that
declares it, or a person who set it, and when), its figures, who paused it, the retries
that operators have set, and which workers serve it.`,
		Example: `  pawl topics show mail`,
		RunE: with(s, "show a topic", func(c *cobra.Command, args []string, topics store.Topics) error {
			t, err := operate.ShowTopic(c.Context(), s.opened, topics, args[0])
			if err != nil {
				return cannot(err, "show topic %s", args[0])
			}
			return s.one(t, func(w io.Writer) { writeTopic(w, t) })
		}),
	}
}

func writeTopic(w io.Writer, t *operate.TopicShown) {
	row := func(name, text string, args ...any) {
		fmt.Fprintf(w, "%-12s "+text+"\n", append([]any{name}, args...)...)
	}
	span := func(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
	row("topic", "%s", oneLine(t.Topic.Topic))
	row("messages", "%d waiting, %d delayed, %d leased (%d stuck), %d dead", t.Waiting, t.Delayed, t.Leased,
		t.Stuck, t.Dead)
	row("totals", "%d appended, %d acked, %d retried, %d rescued, %d duplicates", t.AppendedTotal, t.AckedTotal,
		t.RetriedTotal, t.RescuesTotal, t.DuplicatesTotal)
	if t.OldestWaitingSeconds != nil && t.Waiting > 0 {
		row("oldest", "%s", age(span(*t.OldestWaitingSeconds)))
	}
	if paused := pauseCell(t.Pause); paused != "" {
		row("paused", "%s", oneLine(paused))
	} else {
		row("paused", "no")
	}
	served := "nobody who is registered"
	if len(t.Workers) > 0 {
		served = strings.Join(t.Workers, ", ")
	}
	row("served by", "%s", oneLine(served))
	for _, setting := range []struct {
		name  string
		value any
	}{
		{"order", t.Order}, {"deadline", span(t.DeadlineSeconds)}, {"ageing", span(t.AgeingSeconds)}, {"park", t.Park},
		{"retry", t.Retry}, {"retain", span(t.RetainSeconds)}, {"max_waiting", t.MaxWaiting},
	} {
		row(setting.name, "%v, %s", setting.value, oneLine(t.Origins[setting.name]))
	}
	if t.Retries == (policy.Retries{}) {
		row("retries", "not set here; each worker has its own setting")
	} else {
		row("retries", "%s, %s", strings.TrimPrefix(retriesText(t.Retries), ", "), oneLine(t.Origins["retries"]))
	}
}
