package spill

import (
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestRowsKeepTheMessage: whatever a message is, its row is one that a store takes,
// and gives it back.
func TestRowsKeepTheMessage(t *testing.T) {
	name := rapid.StringMatching(`[A-Za-z0-9._-]{1,128}`)
	text := rapid.OneOf(rapid.StringN(0, 40, 200), rapid.Just("pawl-spill-topic"), rapid.Just("pawl-spill-packed"))
	rapid.Check(t, func(t *rapid.T) {
		m := pawl.Message{
			ID: "id", Topic: name.Draw(t, "topic"), Body: rapid.SliceOfN(rapid.Byte(), 1, 50).Draw(t, "body"),
			Priority: rapid.IntRange(0, 100).Draw(t, "priority"),
			Delay:    time.Duration(rapid.Int64Range(0, int64(pawl.MaxDelay)).Draw(t, "delay")),
			Headers:  rapid.MapOfN(text, text, 1, 128).Draw(t, "headers"),
		}
		delete(m.Headers, "")
		if rapid.Bool().Draw(t, "keyed") {
			m.Key = rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "key")
		}
		if rapid.Bool().Draw(t, "unique") {
			m.Unique = pawl.Unique{Key: string(rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "unique key")),
				Scope: "\xff scope", For: pawl.Forever}
		}
		if rapid.Bool().Draw(t, "full") {
			m.Headers["filler"] = strings.Repeat("x", pawl.MaxHeaderLen-sizeOf(m.Headers)-len("filler"))
		}
		if m.Validate() != nil {
			t.Skip("no message")
		}
		if len(m.Headers) == 0 {
			m.Headers = nil
		}
		before := maps.Clone(m.Headers)
		row, err := toRow(m, store.Unknown, time.Now(), errors.New(strings.Repeat("\xffé\x00", 500)))
		if err != nil {
			t.Fatal(err)
		}
		if err := row.Validate(); err != nil {
			t.Fatal(err)
		}
		if !maps.Equal(before, m.Headers) {
			t.Fatal("the message was changed")
		}
		if row.Priority != 0 || row.Delay != 0 || row.Unique.Key != "" || row.ID != m.ID ||
			string(row.Key) != string(m.Key) {
			t.Fatalf("row %+v", row)
		}
		got, outcome, err := fromRow(row, 0)
		if err != nil || outcome != store.Unknown || !reflect.DeepEqual(got, m) {
			t.Fatalf("%+v, %s, %v; want %+v", got, outcome, err, m)
		}
		if later, _, _ := fromRow(row, time.Hour); later.Delay != max(0, m.Delay-time.Hour) {
			t.Fatalf("delay %v of %v after an hour", later.Delay, m.Delay)
		}
	})
}

func sizeOf(headers map[string]string) (n int) {
	for k, v := range headers {
		n += len(k) + len(v)
	}
	return n
}

func TestTopicsOfRows(t *testing.T) {
	long := strings.Repeat("x", pawl.MaxTopic-1)
	if got := topicOf("orders"); got != "spill.orders" {
		t.Error(got)
	}
	a, b := topicOf(long+"a"), topicOf(long+"b")
	if a == b || len(a) != pawl.MaxTopic || pawl.ValidTopic(a) != nil {
		t.Errorf("%s and %s", a, b)
	}
}

// TestDamagedRows: a row that is none is refused, not believed.
func TestDamagedRows(t *testing.T) {
	for _, row := range []pawl.Message{
		{ID: "a", Topic: "spill.x"},
		{ID: "a", Topic: "spill.x", Headers: map[string]string{headerPacked: "1"}},
		{ID: "a", Topic: "spill.x", Headers: map[string]string{headerPacked: "1"}, Body: []byte{200, 1, '{'}},
		{ID: "a", Topic: "spill.x", Headers: map[string]string{headerPacked: "1"}, Body: []byte{2, '{', '}'}},
		{ID: "a", Topic: "spill.x", Headers: map[string]string{HeaderTopic: "x", headerRest: "{"}},
	} {
		if m, _, err := fromRow(row, 0); err == nil {
			t.Errorf("%+v became %+v", row, m)
		}
	}
}
