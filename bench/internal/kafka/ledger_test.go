package kafka

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"
)

func TestLedgerFindsLossRepetitionAndDisorder(t *testing.T) {
	m := newMaker(1, 64)
	bodies := make([][]byte, 4)
	for i := range bodies {
		_, bodies[i] = m.next()
	}
	cases := map[string]struct {
		order    []int
		wrong    string
		repeated int64
	}{
		"in order": {order: []int{0, 1, 2, 3}},
		"repeated": {order: []int{0, 1, 1, 2, 3}, wrong: "", repeated: 1},
		"lost":     {order: []int{0, 1, 3}, wrong: "3 records instead of 4"},
		"disorder": {order: []int{0, 2, 1, 3}, wrong: "out of the order"},
	}
	for name, c := range cases {
		l := newLedger(len(bodies), 1)
		for _, i := range c.order {
			l.handle(bodies[i], 0, nil)
		}
		err := l.verdict()
		if c.wrong == "" && err != nil || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: verdict = %v", name, err)
		}
		if got := l.repeated.Load(); got != c.repeated {
			t.Errorf("%s: %d repetitions", name, got)
		}
	}
}

// The clock runs from the start of the first record's work to the end of the last.
func TestLedgerTimesTheWorkAlone(t *testing.T) {
	m := newMaker(3, 64)
	l := newLedger(3, 3)
	time.Sleep(50 * time.Millisecond)
	for range 3 {
		_, body := m.next()
		l.handle(body, 10*time.Millisecond, time.Sleep)
	}
	<-l.done
	if got := l.elapsed(); got < 30*time.Millisecond || got > 30*time.Millisecond+
		(time.Since(l.epoch)-80*time.Millisecond) {
		t.Errorf("elapsed = %v", got)
	}
}

// A shorter topic is the beginning of a longer one, and turns count by key.
func TestMakerMakesTheSameRecordsEveryTime(t *testing.T) {
	a, b, turns := newMaker(100, 256), newMaker(100, 256), map[uint32]uint32{}
	for i := range 5000 {
		keyA, bodyA := a.next()
		keyB, bodyB := b.next()
		if string(keyA) != string(keyB) || string(bodyA) != string(bodyB) || len(bodyA) != 256 {
			t.Fatalf("record %d differs: %q and %q", i, keyA, keyB)
		}
		key, turn := binary.BigEndian.Uint32(bodyA[keyAt:]), binary.BigEndian.Uint32(bodyA[turnAt:])
		if turns[key]++; turn != turns[key] {
			t.Fatalf("record %d is turn %d of its key, want %d", i, turn, turns[key])
		}
	}
	if len(turns) != 100 {
		t.Errorf("%d keys instead of 100", len(turns))
	}
}
