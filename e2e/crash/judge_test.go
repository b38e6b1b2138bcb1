//go:build linux

package crash

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// findings are what a judge holds against a history, and what it counted.
type findings struct {
	faults map[string][]string // by kind of fault
	counts map[string]int
	rescue []time.Duration // from a kill to the next start of what was in hand
	oldest time.Duration   // of what was repeated: from its verdict to the kill of its process
}

func (f *findings) fault(kind, format string, args ...any) {
	f.faults[kind] = append(f.faults[kind], fmt.Sprintf(format, args...))
}

// The kinds of faults, as the table has them.
const (
	lost       = "lost"                   // no verdict that ends it, and no dead letter
	outOfOrder = "out of order"           // accepted acks of a lane against the order of appending
	twoLeases  = "two live leases"        // of one message
	trampled   = "two messages of a lane" // carried out at the same time
	overcount  = "attempts overcounted"   // more than failures: a drain, rescue or release counted
	lateRescue = "late rescue"            // a lease + 15 s after the kill
)

var faultKinds = []string{lost, outOfOrder, twoLeases, trampled, overcount, lateRescue}

// judge reads a complete history. dead are the ids of the dead letters, limit is
// how long a rescue may take.
//
// What it calls a fault is one for certain. It knows neither when a message was
// claimed nor which verdict was accepted, only what workers wrote down and when
// their Pawl was harmed; so it asks whether any story that keeps the promises
// explains the history. For a lane, that is a choice of one delivery per message,
// the one whose verdict was accepted, so that
//
//   - it ends before the chosen delivery of the next message begins, because a
//     lane's next message is handed out only after the verdict on the one before;
//   - no delivery of the message under a lease that is surely live begins after
//     it, because an accepted message is never handed out again.
//
// And apart from any choice: of the deliveries of a lane, no two are under surely
// live leases at once ([delivery.sure]).
func judge(all []*delivery, dead map[string]bool, limit time.Duration) *findings {
	f := &findings{faults: map[string][]string{}, counts: map[string]int{"deliveries": len(all)}}
	lanes, messages := map[string][]*delivery{}, map[message][]*delivery{}
	for _, d := range all {
		lanes[d.key] = append(lanes[d.key], d)
		messages[d.message()] = append(messages[d.message()], d)
	}
	for _, key := range slices.Sorted(maps.Keys(lanes)) {
		f.exclusive(lanes[key])
		f.ordered(lanes[key])
	}
	for _, ds := range messages {
		f.conserved(ds, dead)
		f.counted(ds)
		f.rescued(ds, limit)
	}
	f.counts["messages"] = len(messages)
	f.counts["lanes"] = len(lanes)
	return f
}

// exclusive looks for leases of one lane that are surely live at once.
func (f *findings) exclusive(lane []*delivery) {
	var longest *delivery
	var end time.Duration
	for _, d := range lane {
		until, ok := d.sure()
		if !ok {
			f.counts["unsure"]++
			continue
		}
		if longest != nil && d.start < end {
			kind := trampled
			if d.message() == longest.message() {
				kind = twoLeases
			}
			f.fault(kind, "%v\n    while %v", d, longest)
		}
		if until > end {
			longest, end = d, until
		}
	}
}

// ordered looks for a choice of accepted deliveries that follow one another as
// the messages were appended. Choosing the earliest that fits is best: it leaves
// most room to what follows.
//
// Known of the order of appending is that a chunk was confirmed before the next
// one was sent, and that a send appends its messages in order. Between two sends
// of a chunk it is open, because the killed one may have been on its way.
func (f *findings) ordered(lane []*delivery) {
	byMessage := map[order][]*delivery{}
	for _, d := range lane {
		byMessage[d.order] = append(byMessage[d.order], d)
	}
	sequence := slices.SortedFunc(maps.Keys(byMessage), func(a, b order) int {
		return cmp.Or(cmp.Compare(a.Chunk, b.Chunk), cmp.Compare(a.Send, b.Send), cmp.Compare(a.Seq, b.Seq))
	})
	var chunkBefore, inChunk, inSend *delivery // the latest accepted ones
	for n, o := range sequence {
		if n > 0 && o.Chunk != sequence[n-1].Chunk {
			chunkBefore, inSend = latest(chunkBefore, inChunk), nil
		} else if n > 0 && o.Send != sequence[n-1].Send {
			inSend = nil
		}
		after := latest(chunkBefore, inSend)
		if inSend != nil {
			f.notBefore(byMessage[o], byMessage[inSend.order])
		}
		chosen := choose(byMessage[o], after)
		if chosen == nil {
			if !slices.ContainsFunc(byMessage[o], (*delivery).final) {
				continue // dead of rescues, or lost, which is another fault
			}
			f.fault(outOfOrder, "no delivery of %v fits after %v:\n    %s", o, after, list(byMessage[o]))
			continue
		}
		inSend, inChunk = chosen, latest(inChunk, chosen)
	}
}

// notBefore looks for deliveries of a message that began before any verdict could
// have ended the message before it, whatever became of either.
func (f *findings) notBefore(ds, before []*delivery) {
	var ended *delivery
	for _, d := range before {
		if d.final() && (ended == nil || d.end < ended.end) {
			ended = d
		}
	}
	for _, d := range ds {
		if ended != nil && d.start < ended.end {
			f.fault(outOfOrder, "%v\n    before any verdict on %v", d, list(before))
		}
	}
}

func latest(a, b *delivery) *delivery {
	if a == nil || b != nil && b.end > a.end {
		return b
	}
	return a
}

// choose returns the delivery that ends first of those whose verdict may have been
// accepted, after that of the message before.
func choose(ds []*delivery, after *delivery) (chosen *delivery) {
	var lastSure time.Duration
	for _, d := range ds {
		if _, ok := d.sure(); ok {
			lastSure = max(lastSure, d.start)
		}
	}
	for _, d := range ds {
		if d.final() && d.end >= lastSure && (after == nil || d.start >= after.end) &&
			(chosen == nil || d.end < chosen.end) {
			chosen = d
		}
	}
	return chosen
}

// conserved looks whether a message came to an end.
func (f *findings) conserved(ds []*delivery, dead map[string]bool) {
	switch {
	case slices.ContainsFunc(ds, (*delivery).final):
	case dead[ds[0].id]:
		f.counts["dead without a verdict"]++
	default:
		f.fault(lost, "%s", list(ds))
	}
	if len(ds) > 1 {
		f.counts["delivered again"]++
	}
}

// counted looks for attempts beyond the failures before them.
func (f *findings) counted(ds []*delivery) {
	for _, d := range ds {
		failures := 0
		for _, other := range ds {
			failed := other.verdict == "retry" && other.end < d.start || other.dying > 0 && other.dying < d.start
			if other != d && failed {
				failures++
			}
		}
		if d.attempt > failures+1 {
			f.fault(overcount, "attempt %d after %d failures: %s", d.attempt, failures, list(ds))
		}
	}
}

// rescued measures how long it took until what somebody was at, who was killed,
// was taken up again.
func (f *findings) rescued(ds []*delivery, limit time.Duration) {
	for n, d := range ds {
		if stale(d, ds[n+1:]) {
			f.counts["stale verdicts"]++
		}
		if d.end > 0 || d.dying > 0 || d.orphan {
			continue
		}
		at, ok := killedAt(d)
		if !ok {
			continue
		}
		if n+1 == len(ds) || ds[n+1].start <= at {
			continue // dead, or lost, which is another fault; or taken over after a stop
		}
		took := ds[n+1].start - at
		f.rescue = append(f.rescue, took)
		if took > limit {
			f.fault(lateRescue, "%v after its kill: %s", took, list(ds))
		}
	}
}

// stale reports whether the verdict of d came to a Pawl, or back to life with it,
// after somebody else had taken over: what the fence is for. It is from before or
// after the stop; what had been settled by then nobody else would have got.
func stale(d *delivery, later []*delivery) bool {
	if d.end == 0 {
		return false
	}
	var from time.Duration
	for _, e := range d.by.events {
		switch {
		case e.at < d.start:
		case e.harm == stopped && from == 0:
			from = e.at
		case e.harm == continued && from > 0:
			return slices.ContainsFunc(later, func(other *delivery) bool {
				return other.token != d.token && other.start > from && other.start < e.at
			})
		}
	}
	return false
}

// killedAt is when the Pawl of d was killed after it began, if it was.
func killedAt(d *delivery) (time.Duration, bool) {
	for _, e := range d.by.events {
		if e.at > d.start && (e.harm == killed || e.harm == hurried) {
			return e.at, true
		}
	}
	return 0, false
}

// list shows deliveries one below the other.
func list(ds []*delivery) string {
	var text strings.Builder
	for n, d := range ds {
		if n > 0 {
			text.WriteString("\n    ")
		}
		text.WriteString(d.String())
	}
	return text.String()
}
