package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// Three messages of one key are carried out in order; the second one cannot be
// read by anybody and becomes a dead letter.
func ExampleDispatcher_Run() {
	ctx := context.Background()
	s := memory.New(memory.Config{})
	var mails []pawl.Message
	for _, text := range []string{"welcome", "???", "goodbye"} {
		mails = append(mails, pawl.Message{Topic: "mail", Key: []byte("ann"), Body: []byte(text)})
	}
	if _, err := s.Append(ctx, store.NewBatch(mails...)); err != nil {
		fmt.Println(err)
		return
	}
	d, err := dispatch.New(s, dispatch.Config{
		Topics: []dispatch.Topic{{Name: "mail", Handler: pawl.HandlerFunc(func(_ context.Context,
			d *pawl.Delivery) error {
			if string(d.Body) == "???" {
				return pawl.Permanent(errors.New("not a mail"))
			}
			fmt.Printf("to %s: %s\n", d.Key, d.Body)
			return nil // acked
		})}},
		Logger:     slog.New(slog.DiscardHandler),
		UntilEmpty: true, // without it, Run ends with its context
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := d.Run(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for dead, err := range s.Dead(ctx, store.DeadFilter{}) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("dead:", dead.Reason)
	}
	// Output:
	// to ann: welcome
	// to ann: goodbye
	// dead: not a mail
}
