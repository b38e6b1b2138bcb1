//go:build linux

package crash

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/e2e/worker/journal"
)

// delivery is one start of a worker on a message, with what came of it. Times are
// of CLOCK_MONOTONIC.
type delivery struct {
	order
	id      string
	key     string
	token   string
	attempt int
	by      *incarnation
	start   time.Duration
	end     time.Duration // its verdict was written down then; 0: never
	dying   time.Duration // the worker killed itself over it; 0: it did not
	verdict string
	orphan  bool // its worker killed itself over another one
}

func (d *delivery) String() string {
	var text strings.Builder
	text.WriteString(fmt.Sprintf("%s of key %s, send %d, token %s, attempt %d, by %s, from %v", d.id, d.key, d.Send,
		d.token, d.attempt, d.by.name, d.start))
	switch {
	case d.end > 0:
		text.WriteString(fmt.Sprintf(" to %v: %s", d.end, d.verdict))
	case d.dying > 0:
		text.WriteString(fmt.Sprintf(", crashed at %v", d.dying))
	}
	for _, e := range d.by.events {
		text.WriteString(fmt.Sprintf("; %s at %v", e.harm, e.at))
	}
	return text.String()
}

// message names what was stored: an id may be stored again after its ack, by a
// producer that repeats what it does not know to be stored.
type message struct {
	id   string
	send int
}

func (d *delivery) message() message { return message{d.id, d.Send} }

// final reports whether the worker's verdict ends the message, if it is accepted.
func (d *delivery) final() bool { return d.end > 0 && (d.verdict == "ack" || d.verdict == "dead") }

// readHistory puts the deliveries together that the nodes' workers wrote down, in
// the order of their starts.
func readHistory(nodes []*node) ([]*delivery, error) {
	var all []*delivery
	for _, n := range nodes {
		for _, i := range n.lives {
			files, err := filepath.Glob(filepath.Join(i.folder, "*.journal"))
			if err != nil {
				return nil, err
			}
			for _, file := range files {
				lines, err := journal.Read(file)
				if err != nil {
					return nil, err
				}
				ds, err := assemble(lines, i)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", file, err)
				}
				all = append(all, ds...)
			}
		}
	}
	slices.SortFunc(all, func(a, b *delivery) int { return cmp.Compare(a.start, b.start) })
	return all, nil
}

// assemble matches a worker's verdicts with its starts.
func assemble(lines []journal.Line, by *incarnation) ([]*delivery, error) {
	var all []*delivery
	open, dying := map[string]*delivery{}, false
	for _, l := range lines {
		d := open[l.Token]
		switch {
		case l.What == journal.Up:
			continue
		case l.What == journal.Start:
			d = &delivery{id: l.ID, key: l.Key, token: l.Token, attempt: l.Attempt, by: by, start: l.At,
				orphan: dying} // others of its goroutines go on until the kernel has ended it
			if err := json.Unmarshal([]byte(l.Body), &d.order); err != nil {
				return nil, fmt.Errorf("body %q: %w", l.Body, err)
			}
			open[l.Token] = d
			all = append(all, d)
		case d == nil:
			return nil, fmt.Errorf("%s of %s, which was not started", l.What, l.Token)
		case l.What == journal.End:
			d.end, d.verdict = l.At, l.Verdict
		case l.What == journal.Dying:
			d.dying, dying = l.At, true
			for _, other := range all {
				other.orphan = other != d && other.end == 0
			}
		}
	}
	return all, nil
}

// afterStop is how long after SIGCONT a worker may still begin what was claimed
// before the stop: Pawl has to notice that its leases are over, and a program may
// have the message already. On a machine at ten times its load that took 1.8 s.
const afterStop = 3 * time.Second

// sure is until when the lease of d is known, from outside, to be live since its
// start: until its verdict is written down, but no longer than its Pawl goes
// undisturbed. For a live Pawl extends its leases; one that is stopped or killed
// does not, and its programs may go on for a moment. ok is false if nothing is
// known: it began in such a moment, or its worker vanished without our doing.
func (d *delivery) sure() (until time.Duration, ok bool) {
	var before, after event
	for _, e := range d.by.events {
		switch {
		case e.harm == drained:
		case e.at <= d.start:
			before = e
		case after.harm == "":
			after = e
		}
	}
	if before.harm != "" && (before.harm != continued || d.start-before.at < afterStop) {
		return 0, false
	}
	until = cmp.Or(d.end, d.dying)
	switch {
	case until == 0 && (after.harm == "" || d.orphan):
		return 0, false
	case until == 0:
		return after.at, true
	case after.harm != "":
		return min(until, after.at), true
	}
	return until, true
}
