package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/pawl-dev/pawl/bench/internal/meter"
	"github.com/pawl-dev/pawl/bench/internal/plan"
)

func metrics(wk plan.Work) []metric {
	rate := metric{"jobs/s", true, func(l *Line) *float64 { return &l.PerSecond }}
	costs := []metric{
		{"WAL B/job", false, func(l *Line) *float64 { return l.WAL }},
		{"dead/job", false, func(l *Line) *float64 { return l.Dead }},
		{"commits/job", false, func(l *Line) *float64 { return l.Commits }},
		{"CPU s/1k", false, func(l *Line) *float64 { return l.CPU }},
		{"RSS MiB", false, func(l *Line) *float64 { return new(float64(l.RSS) / (1 << 20)) }},
	}
	latency := []metric{
		{"p50 ms", false, func(l *Line) *float64 { return l.P50 }},
		{"p99 ms", false, func(l *Line) *float64 { return l.P99 }},
	}
	switch {
	case wk.Kind == plan.Paced:
		return append(latency, cpuPerMillion, costs[4])
	case plan.OnKafka(wk.Suite):
		rate.name = "records/s"
		return []metric{rate, cpuPerMillion, costs[4]}
	case wk.Kind == plan.Steady, wk.Kind == plan.Lone: // the rate was given, not reached
		return append(latency, costs...)
	default:
		return append([]metric{rate}, costs...)
	}
}

// cpuPerMillion is the CPU of the client alone, for what runs at millions a second.
var cpuPerMillion = metric{"CPU s/1M", false, func(l *Line) *float64 {
	if l.CPU == nil {
		return nil
	}
	return new(*l.CPU * 1000)
}}

// Table prints a block for every work: medians over the rounds, the ratio to
// the best peer with its lowest and highest round, and what every arm was set to.
func Table(w io.Writer, works []plan.Work, lines []*Line) error {
	var b strings.Builder
	for _, wk := range works {
		var of []*Line
		for _, l := range lines {
			if l.Suite == wk.Suite && l.Work == wk.Name {
				of = append(of, l)
			}
		}
		if len(of) > 0 {
			block(&b, wk, of)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func block(b *strings.Builder, wk plan.Work, lines []*Line) {
	fmt.Fprintf(b, "\n%s/%s: %s\n", wk.Suite, wk.Name, wk.Doc)
	arms := byArm(lines)
	ms := metrics(wk)
	t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	head := []string{"  arm", "rounds", "n"}
	for _, m := range ms {
		head = append(head, m.name)
	}
	row(t, head)
	for _, arm := range wk.Arms {
		if of := arms[arm]; len(of) > 0 {
			row(t, cells(arm, of, ms))
		}
	}
	_ = t.Flush() // a Builder never fails
	if plan.OnKafka(wk.Suite) {
		matrix(b, wk, ms, lines)
		share(b, wk, arms)
	} else {
		ratios(b, ms, lines)
	}
	trend(b, wk, arms)
	for _, arm := range wk.Arms {
		if of := arms[arm]; len(of) > 0 {
			fmt.Fprintf(b, "  %s: %s\n", arm, of[0].Settings)
		}
	}
}

func cells(arm string, lines []*Line, ms []metric) []string {
	out := []string{"  " + arm, fmt.Sprint(len(lines)), meter.Figure(float64(lines[len(lines)-1].N))}
	for _, m := range ms {
		cell := "-"
		if all := slices.Collect(maps.Values(m.rounds(lines))); len(all) > 0 {
			cell = meter.Figure(meter.Median(all))
		}
		out = append(out, cell)
	}
	return out
}

// ratios prints, for every metric, how many times better Pawl is: above 1 it is
// ahead, below 1 it falls short.
func ratios(b *strings.Builder, ms []metric, lines []*Line) {
	for _, m := range ms {
		if r, ok := m.compare(lines); ok {
			fmt.Fprintf(b, "  pawl is better by, %s: %v\n", m.name, r)
		}
	}
}

// matrix prints the ratios of each of our arms to each peer.
func matrix(b *strings.Builder, wk plan.Work, ms []metric, lines []*Line) {
	for _, m := range ms {
		for _, ours := range wk.Arms {
			if !plan.IsPawl(ours) {
				continue
			}
			var all []string
			for _, peer := range wk.Arms {
				if r, ok := m.against(lines, ours, peer); ok && !plan.IsPawl(peer) {
					all = append(all, r.String())
				}
			}
			if len(all) > 0 {
				fmt.Fprintf(b, "  %s is better by, %s: %s\n", ours, m.name, strings.Join(all, ", "))
			}
		}
	}
}

// share prints how near the arms come to what is possible: so many at once,
// divided by how long a record takes.
func share(b *strings.Builder, wk plan.Work, arms map[string][]*Line) {
	if wk.Takes == 0 {
		return
	}
	limit := plan.KafkaAtOnce / wk.Takes.Seconds()
	fmt.Fprintf(b, "  %d at once of %v: at most %s/s, of which", plan.KafkaAtOnce, wk.Takes, meter.Figure(limit))
	for _, arm := range wk.Arms {
		if of := arms[arm]; len(of) > 0 {
			var all []float64
			for _, l := range of {
				all = append(all, 100*l.PerSecond/limit)
			}
			of := meter.SpreadOf(all)
			fmt.Fprintf(b, " %s %s %% (%s–%s);", arm, meter.Figure(of.Median), meter.Figure(of.Lo), meter.Figure(of.Hi))
		}
	}
	b.WriteString("\n")
}

// trend prints the rates slice by slice, medians over the rounds, and what was behind in the last one.
func trend(b *strings.Builder, wk plan.Work, arms map[string][]*Line) {
	slice := plan.Slice
	if wk.Kind == plan.Drill {
		slice = wk.For / plan.DrillSlices
	}
	for _, arm := range wk.Arms {
		of := arms[arm]
		if len(of) == 0 || len(of[0].Slices) == 0 {
			continue
		}
		fmt.Fprintf(b, "  %s, jobs/s per %v:", arm, slice)
		for i := range of[0].Slices {
			var all []float64
			for _, l := range of {
				if i < len(l.Slices) {
					all = append(all, l.Slices[i])
				}
			}
			fmt.Fprintf(b, " %s", meter.Figure(meter.Median(all)))
		}
		b.WriteString("\n")
		if last := of[len(of)-1]; len(last.Backlog) > 0 {
			fmt.Fprintf(b, "  %s, jobs behind at the end of each, in the last round: %v\n", arm, last.Backlog)
		}
	}
}

func row(w io.Writer, cells []string) {
	fmt.Fprintln(w, strings.Join(cells, "\t")) //nolint:errcheck // to a tabwriter over a Builder
}
