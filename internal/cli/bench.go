package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/bench"
	"github.com/pawl-dev/pawl/internal/cli/flag"
)

var benchArms = []string{"append", "work", "both"}

func (s *session) bench() *cobra.Command {
	c := bench.Config{}
	var per flag.Rate
	cmd := &cobra.Command{
		Use: "bench [append|work|both]…", Short: "Measure your store", Args: count(0, 3, "arms"),
		Long: `Measures how fast messages are appended, how fast a worker processes messages that were
appended before, and both at the same time, on the given store. Without arguments it does
all three. It uses a topic of its own, ` + bench.Topic + `, and removes its messages afterwards.

The percentiles are those of a call of append, and for both of the time from
append to the start of the handler; with --rate that is the time to pick up.`,
		Example: `  pawl bench --count 10000
  pawl bench append --count 10000 --size 1024 --batch 100 -o json
  pawl bench both --count 2000 --rate 1000/s --batch 1`,
		RunE: func(cmd *cobra.Command, arms []string) error {
			for _, a := range arms {
				if !slices.Contains(benchArms, a) {
					return usage("use one of these", "%q is not an arm; the arms are %s", a,
						strings.Join(benchArms, ", "))
				}
			}
			if c.Count < 1 || c.Size < 0 || c.Keys < 0 || c.Batch < 1 || c.Batch > 10_000 || c.Concurrency < 1 ||
				c.Producers < 1 {
				return usage("use numbers from 1; --size and --keys also 0, --batch up to 10000",
					"a number is out of its range")
			}
			c.PerSecond = per.PerSecond
			if len(arms) == 0 {
				arms = benchArms
			}
			return s.runBench(cmd, arms, c)
		},
	}
	f := cmd.Flags()
	f.IntVar(&c.Count, "count", 50_000, "how many messages")
	f.IntVar(&c.Size, "size", 84, "bytes of a body, from 8")
	f.IntVar(&c.Keys, "keys", 0, "how many different keys (0: no keys)")
	f.IntVar(&c.Batch, "batch", 500, "messages in a call of append")
	f.IntVar(&c.Concurrency, "concurrency", 32, "handlers at once")
	f.IntVar(&c.Producers, "producers", 1, "producers at once")
	f.Var(&per, "rate", "append no faster than this, such as 1000/s")
	cmd.AddCommand(s.benchLog())
	return cmd
}

func (s *session) runBench(cmd *cobra.Command, arms []string, c bench.Config) error {
	opened, err := s.openOrMake(cmd.Context())
	if err != nil {
		return err
	}
	l := s.list("ARM", ">MESSAGES", ">A SECOND", ">P50 MS", ">P99 MS", "PERCENTILES OF", ">SECONDS")
	for _, arm := range arms {
		result, err := bench.Bench(cmd.Context(), opened, arm, c)
		if err != nil {
			return cannot(err, "measure %s", arm)
		}
		l.add(result, result.Arm, number(result.Count), fmt.Sprintf("%.0f", result.PerSecond),
			milliseconds(result.P50Ms), milliseconds(result.P99Ms), result.Of,
			fmt.Sprintf("%.2f", result.ElapsedSeconds))
	}
	return l.end("")
}

func milliseconds(ms *float64) string {
	if ms == nil {
		return ""
	}
	return fmt.Sprintf("%.2f", *ms)
}
