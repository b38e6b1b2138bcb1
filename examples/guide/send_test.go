package guide_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

func Example_send() {
	ctx, s := context.Background(), memory.New(memory.Config{})

	err := store.Send(ctx, s,
		pawl.Message{Topic: "mail", Key: []byte("ann"), Body: []byte("welcome")},
		pawl.Message{Topic: "mail", Key: []byte("ann"), Body: []byte("survey"), Delay: 72 * time.Hour},
		pawl.Message{Topic: "mail", Body: []byte("password reset"), Priority: pawl.MaxPriority},
		pawl.Message{Topic: "digest", Unique: pawl.Unique{Key: "ann/2026-11-23", For: 24 * time.Hour}},
	)
	if err != nil {
		log.Fatal(err) // names each message that was not stored, by its index
	}

	for m := range s.List(ctx, store.Filter{}) {
		fmt.Println(m.State, m.Topic, m.Priority)
	}
	// Unordered output:
	// waiting mail 0
	// delayed mail 0
	// waiting mail 100
	// waiting digest 0
}

func Example_append() {
	ctx, s := context.Background(), memory.New(memory.Config{})

	batch := store.NewBatch(pawl.Message{ID: "order-42", Topic: "ship", Body: []byte("42")})
	for range 3 {
		receipts, err := s.Append(ctx, batch)
		if errors.Is(err, store.ErrUnavailable) {
			continue // perhaps stored: the same batch again changes nothing and tells
		}
		if err != nil {
			log.Fatal(err)
		}
		for _, r := range receipts {
			fmt.Println(r.ID, r.Outcome(), r.DuplicateOf)
		}
		break
	}
	// Output: order-42 stored
}

func Example_hint() {
	ctx, s := context.Background(), memory.New(memory.Config{})

	failed := func(err error) {
		fmt.Println("error:", err)
		if hint := store.Hint(err); hint != "" {
			fmt.Println("next: ", hint)
		}
		if e, ok := errors.AsType[*store.Error](err); ok {
			fmt.Println("while:", e.Op)
		}
		if errors.Is(err, store.ErrConflict) {
			fmt.Println("nothing was changed")
		}
	}
	if _, err := s.Append(ctx, store.NewBatch(pawl.Message{Topic: "mail"})); err != nil {
		failed(err)
	}
	for _, order := range []store.Order{store.OrderKey, store.OrderNone} {
		if _, err := s.Declare(ctx, store.Declaration{Name: "mail", Order: order}); err != nil {
			failed(fmt.Errorf("start: %w", err))
		}
	}
	// Output:
	// error: start: topic mail: conflict: order is "key", not "none", and there are messages
	// next:  let the topic run empty first, or use another topic
	// while: topic mail
	// nothing was changed
}
