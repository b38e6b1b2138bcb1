package guide_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/typed"
)

// drain carries out all that is there, and returns.
func drain(s store.Store, topics ...dispatch.Topic) {
	d, err := dispatch.New(s, dispatch.Config{Topics: topics, UntilEmpty: true})
	if err != nil {
		log.Fatal(err)
	}
	if err := d.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func send(s store.Store, msgs ...pawl.Message) {
	if err := store.Send(context.Background(), s, msgs...); err != nil {
		log.Fatal(err)
	}
}

func Example_handle() {
	ctx, s := context.Background(), memory.New(memory.Config{})
	send(s, pawl.Message{Topic: "mail", Key: []byte("ann"), Body: []byte("welcome")})

	mail := pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error {
		fmt.Printf("attempt %d for %s: %s\n", d.Attempt, d.Key, d.Body)
		return nil
	})
	d, err := dispatch.New(s, dispatch.Config{
		Topics:     []dispatch.Topic{{Name: "mail", Handler: mail, Concurrency: 16}},
		UntilEmpty: true,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := d.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: attempt 1 for ann: welcome
}

type order struct {
	ID    int
	Total float64
}

func Example_typed() {
	s, ctx := memory.New(memory.Config{}), context.Background()
	orders := typed.JSON[order]("orders") // one value for those that send and those that handle
	if err := orders.Send(ctx, s, order{ID: 42, Total: 9.5}); err != nil {
		log.Fatal(err)
	}
	handler := orders.Handler(func(ctx context.Context, o order, d *pawl.Delivery) error {
		fmt.Println(o.ID, o.Total)
		return nil
	})

	drain(s, dispatch.Topic{Name: orders.Name, Handler: handler})
	// Output: 42 9.5
}

func Example_batch() {
	s := memory.New(memory.Config{})
	for i := range 5 {
		send(s, pawl.Message{ID: fmt.Sprint("m", i), Topic: "rows", Body: fmt.Append(nil, i)})
	}

	insert := pawl.BatchHandlerFunc(func(ctx context.Context, ds []*pawl.Delivery) []error {
		verdicts := make([]error, len(ds))
		for i, d := range ds {
			if string(d.Body) == "3" {
				verdicts[i] = pawl.Permanent(errors.New("three is refused"))
			}
		}
		fmt.Println(len(ds), "rows")
		return verdicts
	})

	drain(s, dispatch.Topic{Name: "rows", Batch: insert, BatchSize: 500})
	for letter := range s.Dead(context.Background(), store.DeadFilter{}) {
		fmt.Println(letter.ID, letter.Reason)
	}
	// Output:
	// 5 rows
	// m3 three is refused
}

func Example_emit() {
	s := memory.New(memory.Config{})
	send(s, pawl.Message{Topic: "checkout", Body: []byte("42")})

	checkout := pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error {
		d.Emit(
			pawl.Message{Topic: "invoice", Body: d.Body},
			pawl.Message{Topic: "ship", Body: d.Body, Delay: time.Millisecond},
		)
		return nil // both are stored together with the ack, or neither
	})

	show := pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
		fmt.Println(d.Topic, string(d.Body))
		return nil
	})
	drain(s, dispatch.Topic{Name: "checkout", Handler: checkout}, dispatch.Topic{Name: "invoice", Handler: show},
		dispatch.Topic{Name: "ship", Handler: show})
	// Unordered output:
	// invoice 42
	// ship 42
}

func Example_errors() {
	classify := func(resp *http.Response) error {
		err := fmt.Errorf("the shop answered %s", resp.Status)
		err = pawl.WithAttrs(err, map[string]string{"http_status": fmt.Sprint(resp.StatusCode)})
		switch resp.StatusCode {
		case http.StatusOK:
			return nil // acked
		case http.StatusTooManyRequests:
			return pawl.Throttled(err, 30*time.Second) // repeated then; no attempt is counted
		case http.StatusLocked:
			return pawl.Release(time.Minute, "the shop is closed") // given back; not tried
		case http.StatusBadRequest:
			return pawl.Permanent(pawl.OfKind("BadOrder", err)) // dead letter at once
		default:
			return err // repeated with backoff, as the policy says
		}
	}

	s := memory.New(memory.Config{})
	send(s, pawl.Message{ID: "a", Topic: "orders"})
	drain(s, dispatch.Topic{Name: "orders", Handler: pawl.HandlerFunc(func(context.Context, *pawl.Delivery) error {
		return classify(&http.Response{StatusCode: 400, Status: "400 Bad Request"})
	})})
	for letter := range s.Dead(context.Background(), store.DeadFilter{}) {
		fmt.Println(letter.ID, letter.Kind, letter.Reason)
	}
	// Output: a BadOrder the shop answered 400 Bad Request
}
