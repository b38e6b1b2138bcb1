//go:build linux

package crash

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// TestLogJudge tells histories by hand, and what must be found in them. Numbers are
// milliseconds; the messages 0, 1 and 2 are of one key.
func TestLogJudge(t *testing.T) {
	calm, other := life(), life()
	dies, leaves := life(event{killed, ms(2000), true}), life(event{drained, ms(2000), false})
	warns := life(event{drained, ms(2000), false})
	warns.warned = true
	rest := func(s *story, by *incarnation, from, at int) {
		for seq := from; seq < 3; seq++ {
			s.add(by, seq, at, at+5, "ack")
			at += 10
		}
	}
	for _, c := range []tale{
		{"all is well", func(s *story) { rest(s, calm, 0, 100) }, nil},
		{"retried, and dead", func(s *story) {
			s.add(calm, 0, 100, 105, "retry")
			s.add(calm, 0, 110, 115, "dead")
			rest(s, calm, 1, 120)
		}, nil},
		{"lost", func(s *story) { rest(s, calm, 1, 100) }, []string{lost}},
		{"given up half-way, and nobody took it up", func(s *story) {
			s.add(dies, 0, 100, 0, "")
			rest(s, calm, 1,
				3000)
		}, []string{lost}},
		{"begun before the one before it was finished", func(s *story) {
			s.add(calm, 0, 100, 120, "ack")
			s.add(other, 1, 110, 115, "ack")
			rest(s, calm, 2, 200)
		}, []string{early}},
		{"two at once in a process", func(s *story) {
			s.add(calm, 0, 100, 120, "ack")
			rest(s, calm, 1, 110)
		}, []string{early, inverted}},
		{"back within a process", func(s *story) {
			s.add(calm, 0, 100, 105, "ack")
			s.add(calm, 1, 110, 115, "ack")
			rest(s, calm, 0, 120)
		}, []string{repeated, inverted}},
		{"a batch is in the log twice", func(s *story) { s.log(calm, 0, 1, 0, 1, 2) }, []string{repeated}},
		{"in the log in another order", func(s *story) { s.log(calm, 1, 0, 2) }, []string{early, misplaced}},
		{"finished just before a kill", func(s *story) { s.add(dies, 0, 1000, 1005, "ack"); rest(s, calm, 0, 3000) },
			nil},
		{"finished long before a kill", func(s *story) { s.add(dies, 0, 400, 499, "ack"); rest(s, calm, 0, 3000) },
			[]string{repeated}},
		{"finished before it left", func(s *story) { s.add(leaves, 0, 1900, 1999, "ack"); rest(s, calm, 0, 3000) },
			[]string{repeated}},
		{"finished before it left, and it said so", func(s *story) {
			s.add(warns, 0, 1900, 1999, "ack")
			rest(s, calm,
				0, 3000)
		}, nil},
		{"finished by two, of whom one was killed", func(s *story) {
			s.add(dies, 0, 1900, 1999, "ack")
			s.add(other, 0, 2900, 2999, "ack")
			rest(s, calm, 0, 3000)
		}, []string{repeated}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s story
			c.tell(&s)
			book := newLogbook("t")
			book.slack = commitSlack
			for range 3 {
				book.line(1, "")
			}
			for _, d := range s.all {
				d.id, d.key = fmt.Sprintf("m%06d", d.Seq), "k0"
			}
			found := judgeLog(s.all, book)
			slices.Sort(c.want)
			if got := slices.Sorted(maps.Keys(found.faults)); !slices.Equal(got, c.want) {
				t.Errorf("found %q, want %q: %v", got, c.want, found.faults)
			}
		})
	}
}

// log adds messages that are in the log, and carried out, in this order.
func (s *story) log(by *incarnation, seqs ...int) {
	for i, seq := range seqs {
		s.add(by, seq, 100+10*i, 105+10*i, "ack").token = fmt.Sprintf("fence.1.%d", i)
	}
}
