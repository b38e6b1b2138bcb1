// Command slo measures the objectives of docs/slo.md on this machine, and prints each target beside the figure: make slo.
// It exits with 7 where a target is missed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/pawl-dev/pawl/bench/internal/command"
)

// row is one objective on one store. Met is nil where there is no target.
type row struct {
	Objective string  `json:"objective"`
	Store     string  `json:"store"`
	Target    string  `json:"target"`
	Measured  float64 `json:"measured"`
	Unit      string  `json:"unit"`
	Met       *bool   `json:"met"`
	Note      string  `json:"note,omitempty"`
}

type slo struct {
	ctx      context.Context
	messages int
	load     time.Duration
	faults   time.Duration
	rows     []row
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "worker" {
		command.Main("slo worker", func(context.Context, []string) error { return worker() })
		return
	}
	command.Main("slo", func(ctx context.Context, args []string) error {
		s := &slo{ctx: ctx}
		flags := flag.NewFlagSet("slo", flag.ContinueOnError)
		output := flags.String("o", "table", "table or json")
		only := flags.String("store", "", "only this store: sqlite or postgres")
		flags.IntVar(&s.messages, "messages", 20_000, "of each measurement of throughput")
		flags.DurationVar(&s.load, "load", 10*time.Second, "how long half load lasts")
		flags.DurationVar(&s.faults, "faults", time.Minute, "how long work goes on while workers are killed")
		if err := flags.Parse(args); err != nil {
			return errors.Join(err, command.Exit(2))
		}
		if flags.NArg() > 0 || *output != "table" && *output != "json" {
			flags.Usage()
			return command.Exit(2)
		}
		missed, err := s.run(*output, *only)
		if err == nil && missed {
			err = command.Exit(7)
		}
		return err
	})
}

func (s *slo) run(output, only string) (missed bool, err error) {
	for _, name := range []string{"sqlite", "postgres"} {
		if only != "" && only != name {
			continue
		}
		at, err := newSite(s.ctx, name)
		if err == nil {
			err = errors.Join(s.measure(at), at.close())
		}
		if s.ctx.Err() != nil {
			return false, errors.New("it was told to end; what it had started is removed")
		}
		if err != nil {
			return false, fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(s.rows) == 0 {
		return false, fmt.Errorf("there is no store %q: sqlite or postgres", only)
	}
	for _, r := range s.rows {
		missed = missed || r.Met != nil && !*r.Met
	}
	if output == "json" {
		text, err := json.MarshalIndent(map[string]any{"at": time.Now().UTC().Format(time.RFC3339),
			"processors": runtime.NumCPU(), "go": runtime.Version(), "objectives": s.rows}, "", "  ")
		fmt.Println(string(text))
		return missed, err
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "OBJECTIVE\tSTORE\tTARGET\tMEASURED\tMET\tNOTE\n")
	for _, r := range s.rows {
		met := "–"
		if r.Met != nil {
			met = map[bool]string{true: "yes", false: "NO"}[*r.Met]
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Objective, r.Store, r.Target,
			strings.TrimSpace(fmt.Sprintf("%.4g %s", r.Measured, r.Unit)), met, r.Note)
	}
	return missed, w.Flush()
}

// measure measures all objectives on one store.
func (s *slo) measure(at *site) error {
	for _, m := range []func(*site) error{s.throughput, s.halfLoad, s.killedWorker, s.availability, s.restart,
		s.network} {
		if err := m(at); err != nil {
			return err
		}
	}
	return nil
}

// most adds a figure that must not exceed its target, least one that must reach it.
func (s *slo) most(objective string, at *site, target, measured float64, unit, note string) {
	s.add(row{Objective: objective, Store: at.name, Target: fmt.Sprintf("≤ %g %s", target, unit), Measured: measured,
		Unit: unit, Met: new(measured <= target), Note: note})
}

func (s *slo) least(objective string, at *site, target, measured float64, unit, note string) {
	s.add(row{Objective: objective, Store: at.name, Target: strings.TrimSpace(fmt.Sprintf("≥ %g %s", target, unit)),
		Measured: measured, Unit: unit, Met: new(measured >= target), Note: note})
}

func (s *slo) add(r row) {
	s.rows = append(s.rows, r)
	fmt.Fprintf(os.Stderr, "slo: %s, %s: %.4g %s\n", r.Objective, r.Store, r.Measured, r.Unit)
}
