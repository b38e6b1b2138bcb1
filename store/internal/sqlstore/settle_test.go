package sqlstore

import (
	"reflect"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

func TestByRunFollowsTheLane(t *testing.T) {
	item := func(lane, fence, seq int64) store.Settlement {
		return store.Settlement{Token: pawl.Token{Lane: lane, Fence: fence, Seq: seq}}
	}
	items := []store.Settlement{
		item(-5, 1, 9), item(3, 1, 3), item(-5, 1, 7), item(-5, 2, 8), item(-5, 1, 8), item(2, 1, 2),
	}
	got := ByRun(items, []store.Refusal{{Index: 5}})
	want := []Run{
		{Lane: -5, Fence: 1, Items: []int{2, 4, 0}},
		{Lane: -5, Fence: 2, Items: []int{3}},
		{Lane: 3, Fence: 1, Items: []int{1}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%v; want %v", got, want)
	}
}

func TestAttemptsSurviveTheirEncoding(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 7000, time.UTC)
	retry := store.Settlement{Verdict: store.Retry, After: time.Minute,
		Failure: store.Failure{Kind: "K", Error: "e\x00", Worker: "w", Ran: time.Second}}
	failed := *Decide(&retry, Delivery{Attempts: 1}, now.Add).Failed
	if failed.Error != "e\uFFFD" || !failed.StartedAt.Equal(now.Add(-time.Second)) {
		t.Fatal(failed)
	}
	rescued := RescuedAttempt(1, "host", now, now, now)
	if rescued.Error != "hard deadline passed unsettled" {
		t.Fatal(rescued)
	}
	for _, a := range []store.Attempt{failed, rescued} {
		if got, err := DecodeAttempt(EncodeAttempt(a)); err != nil || !reflect.DeepEqual(got, a) {
			t.Fatal(got, err)
		}
	}
}
