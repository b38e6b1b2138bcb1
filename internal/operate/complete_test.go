package operate

import (
	"errors"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestCompleteIDs by their beginnings: of messages and dead letters, if only one begins so.
func TestCompleteIDs(t *testing.T) {
	s := memory.New(memory.Config{})
	var msgs []pawl.Message
	for _, id := range []string{"order-1000", "order-1001", "invoice-1", "invoice-12"} {
		msgs = append(msgs, pawl.Message{Topic: "t", ID: id})
	}
	_, err := s.Append(t.Context(), store.NewBatch(msgs...))
	if err != nil {
		t.Fatal(err)
	}
	if no, err := s.Skip(t.Context(), "", "order-1001"); err != nil || len(no) > 0 {
		t.Fatal(no, err)
	}
	for given, want := range map[string]string{
		"order-1001": "order-1001", "order-1000": "order-1000", "invoice-1": "invoice-1", "invoice-12": "invoice-12",
		"order-": "order-", "unknown-": "unknown-",
	} {
		if got, err := Complete(t.Context(), s, []string{given}); err != nil || got[0] != want {
			t.Errorf("%s: %q, %v", given, got, err)
		}
	}
	_, err = Complete(t.Context(), s, []string{"order-100"})
	several, ok := errors.AsType[*AmbiguousError](err)
	if !ok || !slices.Equal(several.IDs, []string{"order-1000", "order-1001"}) {
		t.Errorf("of two: %v", err)
	}
	if got, err := Complete(t.Context(), s, []string{"none", "order-1001", "invoice-"}); err == nil {
		t.Errorf("of two among others: %q", got)
	}
}
