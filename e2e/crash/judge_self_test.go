//go:build linux

package crash

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/e2e/worker/journal"
)

// story writes histories by hand: in milliseconds, with a message per number of
// one lane.
type story struct{ all []*delivery }

func (s *story) add(by *incarnation, seq, start, end int, verdict string) *delivery {
	d := &delivery{
		order: order{Chunk: seq / 10, Send: 1, Seq: seq}, id: fmt.Sprint("m", seq), key: "k",
		token: fmt.Sprint("t", len(s.all)), attempt: 1,
		by: by, start: ms(start), end: ms(end), verdict: verdict,
	}
	s.all = append(s.all, d)
	slices.SortStableFunc(s.all, func(a, b *delivery) int { return int(a.start - b.start) })
	return d
}

func ms(n int) time.Duration { return time.Duration(n) * time.Millisecond }

func life(events ...event) *incarnation { return &incarnation{name: "life", events: events} }

// tale is a story, and the kinds of faults that a judge must find in it.
type tale struct {
	name string
	tell func(s *story)
	want []string
}

func (c tale) check(t *testing.T) {
	t.Run(c.name, func(t *testing.T) {
		var s story
		c.tell(&s)
		found := judge(s.all, nil, 17*time.Second)
		if got := slices.Sorted(maps.Keys(found.faults)); !slices.Equal(got, c.want) {
			t.Errorf("found %q, want %q: %v", got, c.want, found.faults)
		}
	})
}

// TestJudgeAcquits tells what must pass: failures that break no promise.
func TestJudgeAcquits(t *testing.T) {
	calm := life()
	for _, c := range []tale{
		{"all is well", func(s *story) {
			s.add(calm, 1, 100, 110, "ack")
			s.add(calm, 2, 110, 120, "retry")
			s.add(life(), 2, 130, 140, "dead")
			s.add(calm, 3, 150, 160, "ack")
		}, nil},
		{"killed in the middle, and taken up again", func(s *story) {
			s.add(life(event{killed, ms(105), false}), 1, 100, 0, "")
			s.add(calm, 1, 2105, 2110, "ack")
		}, nil},
		{"killed before the settle: two of a run again", func(s *story) {
			doomed := life(event{killed, ms(115), true})
			s.add(doomed, 1, 100, 110, "ack")
			s.add(doomed, 2, 111, 0, "")
			s.add(calm, 1, 2115, 2120, "ack")
			s.add(calm, 2, 2121, 2130, "ack")
		}, nil},
		{"a stopped one goes on, and is fenced", func(s *story) {
			s.add(life(event{stopped, ms(105), false}, event{continued, ms(5000), false}), 1, 100, 5001, "ack")
			s.add(calm, 1, 3000, 3010, "ack")
			s.add(calm, 2, 3011, 5002, "ack")
		}, nil},
		{"programs of a killed one go on for a moment", func(s *story) {
			doomed := life(event{killed, ms(105), false})
			s.add(doomed, 1, 100, 104, "ack")
			s.add(doomed, 2, 106, 107, "ack")
			s.add(calm, 2, 2200, 2210, "ack")
		}, nil},
	} {
		c.check(t)
	}
}

// TestJudgeFinds tells what must be found.
func TestJudgeFinds(t *testing.T) {
	calm := life()
	for _, c := range []tale{
		{"never ended", func(s *story) { s.add(calm, 1, 100, 110, "retry") }, []string{lost}},
		{"rescued too late", func(s *story) {
			s.add(life(event{killed, ms(105), false}), 1, 100, 0, "")
			s.add(calm, 1, 20_000, 20_010, "ack")
		}, []string{lateRescue}},
		{"overtaken", func(s *story) {
			s.add(calm, 2, 100, 110, "ack")
			s.add(calm, 1, 120, 130, "ack")
		}, []string{outOfOrder}},
		{"overtaken between chunks", func(s *story) {
			s.add(calm, 11, 100, 110, "ack")
			s.add(calm, 1, 120, 130, "ack")
		}, []string{outOfOrder}},
		{"overtaken during a retry", func(s *story) {
			s.add(calm, 1, 100, 110, "retry")
			s.add(calm, 2, 120, 130, "ack")
			s.add(calm, 1, 140, 150, "ack").attempt = 2
		}, []string{outOfOrder}},
		{"begun while a retry waits, and begun again", func(s *story) {
			s.add(calm, 1, 100, 110, "retry")
			s.add(life(event{killed, ms(125), false}), 2, 120, 0, "")
			s.add(calm, 1, 140, 150, "ack")
			s.add(calm, 2, 2200, 2210, "ack")
		}, []string{outOfOrder}},
		{"one under two live leases", func(s *story) {
			s.add(calm, 1, 100, 200, "ack")
			s.add(life(), 1, 150, 190, "ack")
		}, []string{twoLeases}},
		{"a killed one had it still", func(s *story) {
			s.add(life(event{killed, ms(200), false}), 1, 100, 0, "")
			s.add(calm, 1, 150, 160, "ack")
		}, []string{twoLeases}},
		{"two of a lane at once", func(s *story) {
			s.add(calm, 1, 100, 200, "ack")
			s.add(life(), 2, 150, 190, "ack")
		}, []string{outOfOrder, trampled}},
		{"a stale ack was accepted", func(s *story) {
			s.add(life(event{stopped, ms(105), false}, event{continued, ms(3005), false}), 1, 100, 3006, "ack")
			s.add(calm, 1, 3000, 3100, "ack")
			s.add(life(), 2, 3010, 3020, "ack")
		}, []string{trampled}},
		{"handed out again after the ack", func(s *story) {
			s.add(calm, 1, 100, 110, "ack")
			s.add(calm, 2, 111, 120, "ack")
			s.add(calm, 1, 200, 0, "")
			s.add(calm, 2, 210, 220, "ack")
			s.add(life(), 1, 300, 310, "retry").attempt = 1
		}, []string{outOfOrder}},
		{"a drain counted", func(s *story) {
			s.add(calm, 1, 100, 110, "release")
			s.add(calm, 1, 120, 130, "ack").attempt = 2
		}, []string{overcount}},
	} {
		c.check(t)
	}
}

// TestStartsOfADyingWorkerAreOrphans: a worker that has written down that it kills itself may begin another delivery
// before the kernel has ended it. That is over with it.
func TestStartsOfADyingWorkerAreOrphans(t *testing.T) {
	line := func(what, token string) journal.Line {
		return journal.Line{What: what, Token: token, ID: token, Key: token, Body: "{}"}
	}
	ds, err := assemble([]journal.Line{line(journal.Start, "a"), line(journal.Start, "b"), line(journal.Dying, "a"),
		line(journal.Start, "c")}, &incarnation{})
	if err != nil || len(ds) != 3 || ds[0].orphan || !ds[1].orphan || !ds[2].orphan {
		t.Errorf("got %v, %v", ds, err)
	}
}
