// Command pawlbench runs Pawl and its peers side by side, in the same run on
// the same server, and prints how they compare. It never fails on speed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/command"
	"github.com/pawl-dev/pawl/bench/internal/harness"
	"github.com/pawl-dev/pawl/bench/internal/plan"
)

const usage = `usage: pawlbench quick|full [FLAGS]    everything, or what the flags select; quick leaves Kafka out
       pawlbench run --suite S [FLAGS]  one suite, work or arm alone
       pawlbench list [--scale S]       suites, works and arms

PostgreSQL comes from PAWL_TEST_POSTGRES (a user who may create databases) and
PAWL_TEST_POSTGRES_ADMIN (a superuser, who reads WAL and CPU; not needed if the first is one).
Brokers come from PAWL_TEST_KAFKA (HOST:PORT), and PAWL_TEST_SERVICES is the path of dev/services,
which fetches the jars of Parallel Consumer with Maven: without them that arm is left out.
Run it in the folder bench; results are added to out/SUITE.jsonl.
`

func main() {
	command.Main("pawlbench", func(ctx context.Context, args []string) error {
		err := run(ctx, args)
		if errors.Is(err, errUsage) && !errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(os.Stderr, usage)
		}
		return err
	})
}

const errUsage = command.Exit(2)

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errUsage
	}
	verb, args := args[0], args[1:]
	c := harness.Config{
		Stdout: os.Stdout, Stderr: os.Stderr,
		Postgres: os.Getenv("PAWL_TEST_POSTGRES"), PostgresAdmin: os.Getenv("PAWL_TEST_POSTGRES_ADMIN"),
		Kafka: os.Getenv("PAWL_TEST_KAFKA"), Services: os.Getenv("PAWL_TEST_SERVICES"),
	}
	flags := flag.NewFlagSet("pawlbench "+verb, flag.ContinueOnError)
	scale := flags.String("scale", string(plan.Full), "sizes: quick or full (run and list)")
	flags.StringVar(&c.Suite, "suite", "", "only this suite: postgres, sqlite, kafka or kafka-produce")
	flags.StringVar(&c.Work, "work", "", "only this work")
	flags.StringVar(&c.Arm, "arm", "", "only this arm")
	flags.IntVar(&c.Rounds, "rounds", 0, "rounds instead of the scale's")
	flags.StringVar(&c.Out, "out", "out", "folder of the JSON lines, and of SQLite files meanwhile")
	flags.StringVar(&c.Profile, "profile", "",
		"folder of a CPU and a heap profile for each arm and round; none by default, they cost some speed")
	flags.DurationVar(&c.Timeout, "timeout", 15*time.Minute, "of one arm's round")
	if verb == "child" { // started by the harness, told by stdin
		return harness.Child(ctx, os.Stdin, os.Stdout)
	}
	if err := flags.Parse(args); err != nil {
		return errors.Join(err, errUsage)
	}
	c.Scale = plan.Scale(*scale)
	if flags.NArg() > 0 || c.Scale != plan.Quick && c.Scale != plan.Full {
		return errUsage
	}
	switch verb {
	case "quick", "full":
		c.Scale = plan.Scale(verb)
		return harness.Run(ctx, c)
	case "run":
		if c.Suite == "" {
			return errUsage
		}
		return harness.Run(ctx, c)
	case "list":
		return list(os.Stdout, c.Scale)
	default:
		return errUsage
	}
}

func list(w io.Writer, s plan.Scale) error {
	for _, wk := range plan.Works(s) {
		if _, err := fmt.Fprintf(w, "%s %s %v\n\t%s\n", wk.Suite, wk.Name, wk.Arms, wk.Doc); err != nil {
			return err
		}
	}
	return nil
}
