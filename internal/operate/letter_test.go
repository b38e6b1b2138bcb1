package operate

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestLetterComesBack: what was exported is the same when it is read, whatever it
// is made of.
func TestLetterComesBack(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 123_456_000, time.UTC)
	plain := store.Record{Message: pawl.Message{ID: "a", Topic: "t", Body: []byte{}, Headers: map[string]string{}},
		State: store.IsDead, EnqueuedAt: at, DeadAt: at, Fingerprint: "f"}
	full := plain
	full.Message = pawl.Message{ID: "é <&>", Topic: "t", Key: []byte("k\xff"), Priority: 7, Body: []byte("\xff\x00"),
		Headers: map[string]string{"a": "b\x00"},
		Delay:   90 * time.Minute, Unique: pawl.Unique{Key: "u", Scope: "s", For: pawl.Forever}}
	full.Rank, full.Attempts, full.Rescues, full.Lonely, full.Replays = -5, 1, 2, 3, 4
	full.Kind, full.Reason = "K", "why\nso"
	full.History = []store.Attempt{{Attempt: 1, StartedAt: at, EndedAt: at, Worker: "w", Kind: "K", Error: "e\x01",
		Rule: "r", Action: "a", NextAt: at}}
	odd := full
	odd.Unique = pawl.Unique{Key: "u\xff", Scope: "s", For: 17 * time.Minute}
	for _, want := range []store.Record{plain, full, odd} {
		line, err := json.Marshal(FormLetter(&want))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseLetter(line)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s\n%v\ngot  %+v\nwant %+v", line, err, got, want)
		}
	}
}

// TestRescueSaysThatItDecided: the last attempt of a message that killed its
// workers names what made it a dead letter, where it is shown; an export has it as
// the store has.
func TestRescueSaysThatItDecided(t *testing.T) {
	rescued := store.Attempt{Kind: string(pawl.KindRescue), Error: "lease ended unsettled", Action: "rescue"}
	failed := store.Attempt{Attempt: 1, Kind: "K", Rule: "r", Action: "retry"}
	for _, c := range []struct {
		kind    pawl.Kind
		history []store.Attempt
		want    []string
	}{
		{pawl.KindRescue, []store.Attempt{failed, rescued, rescued}, []string{"r: retry", ": rescue", "rescue: dead"}},
		{pawl.KindRescue, []store.Attempt{rescued, failed}, []string{": rescue", "r: retry"}},
		{pawl.KindRescue, nil, nil},
		{pawl.KindParked, []store.Attempt{rescued}, []string{": rescue"}},
		{"K", []store.Attempt{rescued}, []string{": rescue"}},
	} {
		r := store.Record{Kind: c.kind, History: c.history}
		var got []string
		for _, a := range FormDeadLetter(&r).Attempts {
			got = append(got, a.Rule+": "+a.Action)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.kind, got, c.want)
		}
		for i, a := range FormLetter(&r).Attempts {
			if a.Rule != c.history[i].Rule || a.Action != c.history[i].Action {
				t.Errorf("%s: %+v is exported as %+v", c.kind, c.history[i], a)
			}
		}
	}
}

func TestLetterRefuses(t *testing.T) {
	for line, why := range map[string]string{
		``: "not a dead letter", `{"id":"a"} {}`: "follows",
		`{"id":"a","topic":"t","body":"x","body_base64":""}`: "both", `{"id":"a","topic":"t"}`: "neither body",
		`{"id":"a","topic":"t","body":"x","key_base64":"?"}`: "key_base64",
		`{"id":"a","topic":"t","body":"x"}`:                  "dead_at", "\"\xff\"": "UTF-8",
		`{"id":"","topic":"t","body":"x"}`:                    "id is missing",
		`{"id":"a","topic":"t","body":"x","state":"waiting"}`: "state",
	} {
		if _, err := ParseLetter([]byte(line)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v; want %q", line, err, why)
		}
	}
}

// TestLetterErrorsAreAboutTheLine: who wrote a line knows its fields, not our types.
func TestLetterErrorsAreAboutTheLine(t *testing.T) {
	for line, want := range map[string]string{`{"id":7}`: `field "id" cannot be a number`,
		`[]`: `the line cannot be an array`} {
		if _, err := ParseLetter([]byte(line)); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: %v", line, err)
		}
	}
}
