package kafka

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// An outcome counts where it belongs: what surely is not stored apart from what may be.
func TestOutcomesOfRecordsAreToldApart(t *testing.T) {
	var m made
	m.note(time.Now().Add(-3*time.Millisecond), nil)
	m.note(time.Now().Add(-time.Minute), nil)
	for _, err := range []error{kerr.MessageTooLarge, kerr.NotEnoughReplicas} {
		m.note(time.Now(), err)
	}
	for _, err := range []error{kgo.ErrRecordTimeout, kerr.NotEnoughReplicasAfterAppend,
		errors.New("the line was cut")} {
		m.note(time.Now(), err)
	}
	p := m.figures()
	if p.Stored != 2 || p.Refused != 2 || p.Unknown != 3 {
		t.Errorf("stored %d, refused %d, unknown %d; want 2, 2, 3", p.Stored, p.Refused, p.Unknown)
	}
	if n := len(p.Took.Counts); n != len(p.Took.Bounds)+1 || p.Took.Counts[n-1] != 1 {
		t.Errorf("the minute is not above all bounds: %v", p.Took)
	}
	var sum uint64
	for _, n := range p.Took.Counts {
		sum += n
	}
	if sum != p.Stored || p.Took.Sum < time.Minute {
		t.Errorf("%d durations of %v, want one for each stored record", sum, p.Took.Sum)
	}
}

// Handlers may make up kinds: beyond so many they are one.
func TestKindsOfDeadLettersAreBounded(t *testing.T) {
	var d deathTally
	for i := range 1000 {
		d.note("mail", fmt.Sprintf("Odd%d", i), nil, time.Unix(int64(i), 0))
	}
	d.note("other topic", "Timeout", nil, time.Unix(7, 0))
	all := d.figures()
	if len(all) > maxKinds+2 {
		t.Fatalf("%d kinds", len(all))
	}
	var written uint64
	for _, f := range all {
		written += f.Written
	}
	i := slices.IndexFunc(all, func(f DeadFigures) bool { return f.Kind == "other" })
	if written != 1001 || i < 0 || !all[i].LastAt.Equal(time.Unix(999, 0)) {
		t.Errorf("%d were counted, the rest is %+v", written, all[max(i, 0)])
	}
	if last := all[len(all)-1]; last.Topic != "other topic" || last.Kind != "Timeout" ||
		!last.LastAt.Equal(time.Unix(7, 0)) {
		t.Errorf("a topic's kinds are its own: %+v", last)
	}
}

// The share is of the letters of the last hour, and at most of the last 128.
func TestShareOfTheMostFrequentKey(t *testing.T) {
	now := time.Unix(100_000, 0)
	for name, c := range map[string]struct {
		keys []string // empty: none
		ages []time.Duration
		want float64
	}{
		"half":            {[]string{"ann", "bob"}, nil, 0.5},
		"most":            {[]string{"ann", "bob", "ann", "ann"}, nil, 0.75},
		"without a key":   {[]string{"", "", "", ""}, nil, 0},
		"beside unkeyed":  {[]string{"ann", "", "", ""}, nil, 0.25},
		"old ones do not": {[]string{"ann", "ann", "bob"}, []time.Duration{2 * time.Hour, 2 * time.Hour, 0}, 1},
		"all old":         {[]string{"ann"}, []time.Duration{2 * time.Hour}, 0},
	} {
		var d deathTally
		for i, key := range c.keys {
			at := now
			if c.ages != nil {
				at = now.Add(-c.ages[i])
			}
			var k []byte
			if key != "" {
				k = []byte(key)
			}
			d.note("mail", "Timeout", k, at)
		}
		if got := d.shares(now)["mail"]; got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	var d deathTally
	for range 500 {
		d.note("mail", "Timeout", []byte("ann"), now)
	}
	for i := range 128 {
		d.note("mail", "Timeout", fmt.Append(nil, i), now)
	}
	if got := d.shares(now)["mail"]; got != 1.0/128 {
		t.Errorf("the last 128 have keys of their own: %v", got)
	}
}

func TestEarliest(t *testing.T) {
	for _, c := range [][3]int64{{0, 0, 0}, {0, 5, 5}, {5, 0, 5}, {3, 5, 3}, {5, 3, 3}} {
		if got := earliest(c[0], c[1]); got != c[2] {
			t.Errorf("earliest(%d, %d) = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
