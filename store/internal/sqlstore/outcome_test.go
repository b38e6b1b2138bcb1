package sqlstore

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

func TestOutcomesSurviveTheirEncoding(t *testing.T) {
	bad := &pawl.InvalidError{Field: "id", Why: "is too long"}
	receipts := []store.Receipt{
		{ID: pawl.NewID()},
		{ID: "mine", DuplicateOf: pawl.NewID()},
		{ID: "x", Err: bad},
		{ID: "y", Err: &store.TopicFullError{Topic: "mail", RetryAfter: 1234 * time.Millisecond}},
		{ID: ""},
	}
	got, err := DecodeReceipts(EncodeReceipts(receipts))
	if err != nil || !reflect.DeepEqual(got, receipts) {
		t.Fatal(got, err)
	}
	refusals := []store.Refusal{{Index: 3, Err: pawl.ErrLeaseLost}, {Index: 700, Err: bad}}
	back, err := DecodeRefusals(EncodeRefusals(refusals))
	if err != nil || !reflect.DeepEqual(back, refusals) {
		t.Fatal(back, err)
	}
	if b := EncodeRefusals(nil); len(b) != 0 {
		t.Fatal("nothing refused takes room:", b)
	}
}

func TestCutOffOutcomeIsAnError(t *testing.T) {
	whole := EncodeReceipts([]store.Receipt{{ID: pawl.NewID(), DuplicateOf: "a"}})
	for n := 1; n < len(whole); n++ {
		if _, err := DecodeReceipts(whole[:n]); !errors.Is(err, errOutcome) {
			t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}

func FuzzOutcomesDoNotPanic(f *testing.F) {
	f.Add(EncodeReceipts([]store.Receipt{{ID: "a", Err: errors.New("b")}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = DecodeReceipts(b)
		_, _ = DecodeRefusals(b)
	})
}
