package typed_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/typed"
)

type order struct{ ID int }

// What is sent as a value comes as that value, and nothing is sent where one cannot be encoded.
func TestValuesComeAsTheyWereSent(t *testing.T) {
	s := memory.New(memory.Config{})
	orders := typed.JSON[order]("orders")
	if err := orders.Send(t.Context(), s, order{1}, order{2}); err != nil {
		t.Fatal(err)
	}
	sum := 0
	add := orders.Handler(func(_ context.Context, o order, _ *pawl.Delivery) error { sum += o.ID; return nil })
	d, err := dispatch.New(s, dispatch.Config{UntilEmpty: true,
		Topics: []dispatch.Topic{{Name: orders.Name, Concurrency: 1, Handler: add}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context()); err != nil || sum != 3 {
		t.Error(sum, err)
	}
	if err := typed.JSON[any]("orders").Send(t.Context(), s, 1, func() {}); err == nil {
		t.Error("a function is JSON")
	}
	if st, err := s.Stats(t.Context(), "orders"); err != nil || st[0].Appended != 2 {
		t.Error(st, err)
	}
	if err := typed.SendTx(t.Context(), s, "no transaction", orders, order{3}); !errors.Is(err, store.ErrUnsupported) {
		t.Error(err)
	}
}

// A topic that nobody has declared and no worker serves is told before anything is sent to it.
func TestUnknownTopicIsTold(t *testing.T) {
	s := memory.New(memory.Config{})
	orders := typed.JSON[order]("orders")
	if err := orders.Known(t.Context(), s); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	// This creates it, with no settings stated.
	if err := typed.JSON[order]("order").Send(t.Context(), s, order{1}); err != nil {
		t.Fatal(err)
	}
	if err := typed.JSON[order]("order").Known(t.Context(), s); !errors.Is(err, store.ErrNotFound) {
		t.Error(err)
	}
	if _, err := s.Declare(t.Context(), store.Declaration{Name: "order", Deadline: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if err := typed.JSON[order]("order").Known(t.Context(), s); err != nil {
		t.Error(err)
	}
	d, err := dispatch.New(s, dispatch.Config{Topics: []dispatch.Topic{{Name: "orders",
		Handler: orders.Handler(func(context.Context, order, *pawl.Delivery) error { return nil })}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- d.Run(ctx) }()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if err = orders.Known(t.Context(), s); err == nil || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		t.Error("a worker serves it:", err)
	}
	end()
	<-done
}
