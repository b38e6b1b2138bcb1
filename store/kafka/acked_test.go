package kafka_test

import (
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// A log does not say what was acked: a listing of it is refused, and not empty.
func TestListRefusesTheAcked(t *testing.T) {
	in := instance(t, kafka.Config{Brokers: fakeBrokers(t), Create: kafka.Creation{Partitions: 1, Replicas: 1}})
	look, ok := store.As[store.Inspector](in.Store)
	if !ok {
		t.Fatal("it cannot be looked at")
	}
	for _, err := range look.List(t.Context(), store.Filter{State: store.Acked}) {
		if errors.Is(err, store.ErrUnsupported) {
			return
		}
		t.Fatal(err)
	}
	t.Fatal("an empty listing")
}
