//go:build linux

package crash

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// table shows the figures of a chaos.
func table(p *plan, nodes []*node, producers []*producer, found *findings, f figures, emptied time.Duration,
	all []*delivery) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", name, fmt.Sprintf(format, args...)) }
	row("store", "%s", p.site.name)
	row("plan", "%d messages, %d keys, %d workers × %d, lease %v, %v", p.messages, p.keys, p.nodes, p.concurrency,
		p.lease, p.duration)
	for _, m := range producers {
		row(fmt.Sprintf("producer %d", m.number), "%d sends, %d of them killed; confirmed %d appended, %d duplicates",
			m.sends, m.killed, m.appended, m.duplicates)
	}
	row("harms", "%d killed alone, %d killed with programs, %d stopped, %d drained, %d hurried",
		countAll(nodes, killed, false), countAll(nodes, killed, true), count(nodes, stopped), count(nodes, drained),
		count(nodes, hurried))
	row("store counts", "%d appended = %d acked + %d dead + %d open", f.AppendedTotal, f.AckedTotal, f.Dead, f.open())
	row("workers saw", "%d deliveries of %d messages in %d lanes; %d messages more than once",
		found.counts["deliveries"], found.counts["messages"], found.counts["lanes"], found.counts["delivered again"])
	row("stale verdicts", "%d, with which a stopped one came back after somebody else had taken over",
		found.counts["stale verdicts"])
	row("unsure", "%d deliveries, whose lease may or may not have been live", found.counts["unsure"])
	row("dead unheard", "%d without a verdict of a worker", found.counts["dead without a verdict"])
	row("rescues", "%d; p50 %v, p99 %v, slowest %v after the kill", len(found.rescue), quantile(found.rescue, 0.5),
		quantile(found.rescue, 0.99), quantile(found.rescue, 1))
	drains := drainTimes(nodes)
	row("drains", "p50 %v, slowest %v", quantile(drains, 0.5), quantile(drains, 1))
	row("starts", "%s in each second", rates(all))
	row("until empty", "%v", emptied.Round(time.Millisecond))
	for _, kind := range faultKinds {
		row(kind, "%d", len(found.faults[kind]))
	}
	_ = w.Flush() // into memory
	return b.String()
}

// rates are how many deliveries began in each second.
func rates(all []*delivery) string {
	if len(all) == 0 {
		return "none"
	}
	first := slices.MinFunc(all, func(a, b *delivery) int { return cmp.Compare(a.start, b.start) }).start
	var counts []int
	for _, d := range all {
		second := int((d.start - first) / time.Second)
		counts = append(counts, make([]int, max(0, second+1-len(counts)))...)
		counts[second]++
	}
	return strings.Trim(fmt.Sprint(counts), "[]")
}

// count counts a harm.
func count(nodes []*node, h harm) int { return countAll(nodes, h, false) + countAll(nodes, h, true) }

func countAll(nodes []*node, h harm, all bool) (sum int) {
	for _, n := range nodes {
		for _, i := range n.lives {
			for _, e := range i.events {
				if e.harm == h && e.all == all {
					sum++
				}
			}
		}
	}
	return sum
}

// drainTimes is how long nodes took to end after their first SIGTERM.
func drainTimes(nodes []*node) (times []time.Duration) {
	for _, n := range nodes {
		for _, i := range n.lives {
			if k := len(i.events) - 1; k >= 0 && i.events[k].harm == drained {
				times = append(times, i.ended-i.events[k].at)
			}
		}
	}
	return times
}

// quantile returns the smallest of ds that so large a part of them does not exceed.
func quantile(ds []time.Duration, part float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ds))
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))].Round(10 * time.Microsecond)
}
