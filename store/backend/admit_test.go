package backend_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

func TestAdmitRefusesItemsByThemselves(t *testing.T) {
	batch := store.NewBatch(pawl.Message{Topic: "t"}, pawl.Message{}, pawl.Message{Topic: "t", ID: "mine"})
	got, err := backend.Admit(batch)
	if err != nil || got[0].Err != nil || got[0].ID == "" || got[1].Err == nil || got[2].ID != "mine" {
		t.Fatal(got, err)
	}
	if batch.Items[0].ID != "" {
		t.Fatal("the caller's message was changed")
	}
}

func TestCallsHaveLimits(t *testing.T) {
	big := pawl.Message{Topic: "t", Body: make([]byte, pawl.MaxBody)}
	bodies := store.Batch[pawl.Message]{}
	for range store.MaxBatchBytes/pawl.MaxBody + 1 {
		bodies.Items = append(bodies.Items, big)
	}
	_, size := backend.Admit(bodies)
	_, count := backend.Admit(store.Batch[pawl.Message]{Items: make([]pawl.Message, store.MaxBatch+1)})
	_, settles := backend.AdmitSettle(store.Batch[store.Settlement]{Items: make([]store.Settlement, store.MaxBatch+1)})
	claim := backend.AdmitClaim([]store.Want{{Limit: store.MaxBatch}, {Limit: 1}}, store.Lease{For: 1})
	extend := backend.AdmitExtend(1, make([]pawl.Token, store.MaxBatch+1))
	for name, err := range map[string]error{"bytes": size, "count": count, "settle": settles, "claim": claim,
		"extend": extend} {
		if !errors.Is(err, store.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, err := range map[string]error{
		"no lease":       backend.AdmitClaim(nil, store.Lease{}),
		"negative limit": backend.AdmitClaim([]store.Want{{Limit: -1}}, store.Lease{For: 1}),
		"extend by 0":    backend.AdmitExtend(0, nil),
	} {
		if !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFactsFitEveryStore(t *testing.T) {
	long := strings.Repeat("é", pawl.MaxAttrValue)
	got := backend.FitAttrs(map[string]string{"": "no name", "host": "a\x00", "long": "x" + long})
	if len(got) != 2 || got["host"] != "a\uFFFD" || got["long"] != "x"+long[:pawl.MaxAttrValue-2] {
		t.Errorf("%q", got)
	}
}
