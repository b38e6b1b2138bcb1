// Command projectbench measures how changes get from an outbox into a search index, on PostgreSQL and on SQLite, beside
// what they are made of: a bare bulk loop into the same server, and the same rows worked off without an index. It
// never fails on speed, but on a document that is missing.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/bench/internal/command"
)

type settings struct {
	rows, rounds           int
	pawl, search, postgres string
	seconds                int
	rate                   float64
}

func main() { command.Main("projectbench", run) }

func run(ctx context.Context, args []string) error {
	var s settings
	flags := flag.NewFlagSet("projectbench", flag.ContinueOnError)
	flags.IntVar(&s.rows, "rows", 50_000, "rows of a round")
	flags.IntVar(&s.rounds, "rounds", 3, "rounds: every arm in each")
	flags.StringVar(&s.pawl, "pawl", "pawl", "the program")
	flags.StringVar(&s.search, "search", os.Getenv("PAWL_TEST_OPENSEARCH"), "the address of OpenSearch")
	flags.StringVar(&s.postgres, "postgres", os.Getenv("PAWL_TEST_POSTGRES"), "a database whose user may make others")
	flags.IntVar(&s.seconds, "seconds", 10, "how long latency is measured for")
	flags.Float64Var(&s.rate, "rate", 0, "changes a second for latency; 0: a quarter of the rate of this run")
	work := flags.String("work", "rate,latency", "what to measure")
	dbs := flags.String("databases", "postgres,sqlite", "where the outbox is")
	if err := flags.Parse(args); err != nil {
		return err
	}
	works := strings.Split(*work, ",")
	for name := range strings.SplitSeq(*dbs, ",") {
		for _, w := range []struct {
			name string
			run  func(context.Context, *settings, string) error
		}{{"rate", rates}, {"latency", latency}} {
			if !slices.Contains(works, w.name) {
				continue
			}
			if err := w.run(ctx, &s, name); err != nil {
				return fmt.Errorf("%s, %s: %w", w.name, name, err)
			}
		}
	}
	return nil
}
