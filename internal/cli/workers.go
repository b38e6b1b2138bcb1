package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/operate"
)

func (s *session) workers() *cobra.Command {
	return noun("workers", "Show who processes messages",
		`A worker is a process that carries messages out: one of pawl work, of pawl up, or a
program of yours with the library.`,
		s.workersLs())
}

func (s *session) workersLs() *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List workers, and what they hold", Args: count(0, 0, "arguments"),
		Long: `Lists the workers of this store: what each one processes, how busy it is, which limit
holds it back, and how many messages it has been holding, and for how long.

A worker of pawl reports every few seconds. One that has not reported for 20 seconds
counts as gone: what it holds is claimable again when its leases end. One that never
reports, such as a program that uses the library, is listed by what it holds.`,
		Example: `  pawl workers ls
  pawl workers ls -o json`,
		RunE: func(c *cobra.Command, _ []string) error {
			opened, err := s.open(c.Context())
			if err != nil {
				return err
			}
			workers, err := operate.Workers(c.Context(), opened)
			if err != nil {
				return cannot(err, "list workers")
			}
			l := s.list("WORKER", "STATE", "TOPICS", ">RUNNING", ">PER SECOND", ">HOLDS", ">OLDEST",
				"LIMITED BY", "SINCE")
			for i := range workers {
				w := &workers[i]
				topics, running, rate, limited := busy(w)
				since := ""
				if w.Announced != nil {
					since = when(w.StartedAt)
				}
				l.add(w, w.Owner, workerState(w), topics, running, rate, number(w.Leased),
					age(time.Duration(w.OldestLeaseSeconds*float64(time.Second))), limited, since)
			}
			return l.end("no workers; start one: pawl work TOPIC --exec CMD")
		},
	}
}

func workerState(w *operate.Worker) string {
	switch {
	case w.Alive == nil:
		return "holds leases"
	case !*w.Alive:
		return "gone"
	case w.Draining:
		return "draining"
	default:
		return "alive"
	}
}

// busy sums up what a worker does in its topics.
func busy(w *operate.Worker) (topics, running, rate, limited string) {
	var names, limits []string
	if w.Announced == nil {
		for _, h := range w.LeasedFrom {
			names = append(names, h.Topic)
		}
		return strings.Join(names, " "), "", "", ""
	}
	var inside, slots int
	var perSecond float64
	for _, t := range w.Topics {
		names = append(names, t.Topic)
		inside, slots, perSecond = inside+t.Running, slots+t.Concurrency, perSecond+t.PerSecond
		if t.LimitedBy != "" {
			limits = append(limits, t.LimitedBy)
		}
	}
	return strings.Join(names, " "), fmt.Sprintf("%d/%d", inside, slots), fmt.Sprintf("%.1f", perSecond),
		strings.Join(unique(limits), " ")
}
