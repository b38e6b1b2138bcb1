package guide_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

func Example_order() {
	s := memory.New(memory.Config{})
	for i := range 3 {
		send(s, pawl.Message{Topic: "chat", Key: []byte("room-1"), Body: fmt.Append(nil, "line ", i)})
	}

	chat := pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error {
		fmt.Printf("%s: %s\n", d.Key, d.Body)
		d.Hold(10 * time.Millisecond) // nothing of room-1 for that long, in no process
		return nil
	})
	drain(s, dispatch.Topic{
		Name: "chat", Handler: chat,
		Settings: store.Declaration{Order: store.OrderKey}, // declared when Run starts
	})
	// Output:
	// room-1: line 0
	// room-1: line 1
	// room-1: line 2
}

func Example_limits() {
	s := memory.New(memory.Config{})
	send(s, pawl.Message{Topic: "pages", Key: []byte("example.org"), Body: []byte("/")})

	perHost, err := dispatch.NewLimiter(dispatch.LimitConfig{
		Name: "hosts",
		By:   func(d *pawl.Delivery) string { return string(d.Key) },
		Rate: 2, Burst: 1, Concurrency: 1, // each host by itself
	})
	if err != nil {
		log.Fatal(err)
	}
	api, err := dispatch.NewLimiter(dispatch.LimitConfig{
		Name: "api", Adaptive: 64, // as many at once as it answers well, 64 at most
	})
	if err != nil {
		log.Fatal(err)
	}

	fetch := pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error {
		done, err := api.Acquire(ctx, "") // around one call instead of a whole delivery
		if err != nil {
			return err
		}
		err = errors.New("503 Service Unavailable") // what the call returned
		done(pawl.Throttled(err, 0))
		fmt.Printf("%s%s\n", d.Key, d.Body)
		return nil
	})
	drain(s, dispatch.Topic{Name: "pages", Handler: fetch, Limits: []*dispatch.Limiter{perHost}})
	// Output: example.org/
}

func Example_state() {
	ctx, s := context.Background(), memory.New(memory.Config{})

	marks, ok := store.As[store.Shared](s, store.CanMarks)
	if !ok {
		log.Fatal("this store keeps no marks: use a second one")
	}
	for range 2 {
		receipts, err := marks.PutMarks(ctx, pawl.Mark{
			Scope: "paid/2026-11", Key: "invoice-42", Value: []byte("ref 9"), For: 90 * 24 * time.Hour,
		})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(receipts[0].Put) // the first writer wins
	}
	have, err := marks.GetMarks(ctx, "paid/2026-11", "invoice-42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(have["invoice-42"].Value))
	// Output:
	// true
	// false
	// ref 9
}

func Example_policy() {
	s := memory.New(memory.Config{})
	send(s, pawl.Message{ID: "a", Topic: "orders"})

	matrix, err := policy.NewMatrixOf(nil, append(policy.Builtin(), policy.Rule{
		ID:          "shop",
		Match:       policy.Match{Kind: "ShopDown"},
		Backoff:     policy.Backoff{Shape: policy.Exponential, Base: time.Millisecond, Max: time.Minute},
		MaxAttempts: 3,
	}))
	if err != nil {
		log.Fatal(err)
	}
	orders := pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
		return pawl.OfKind("ShopDown", errors.New("no route to host"))
	})
	d, err := dispatch.New(s, dispatch.Config{
		Topics:     []dispatch.Topic{{Name: "orders", Handler: orders}},
		Policy:     matrix,
		UntilEmpty: true,
	})
	if err != nil {
		log.Fatal(err)
	}

	if err := d.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
	for letter := range s.Dead(context.Background(), store.DeadFilter{Kind: "ShopDown"}) {
		fmt.Println(letter.ID, len(letter.History), "attempts")
	}
	// Output: a 3 attempts
}
