// Command hello appends a message to an embedded store and carries it out.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/sqlite"
)

func main() {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Config{Path: "hello.db"})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	mail := pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
		fmt.Printf("attempt %d for %s: %s\n", d.Attempt, d.Key, d.Body)
		return nil // acked; an error would be retried, or end as a dead letter
	})
	m := pawl.Message{Topic: "mail", Key: []byte("ann"), Body: []byte("welcome")}
	if err := store.Send(ctx, s, m); err != nil {
		log.Fatal(err)
	}
	d, err := dispatch.New(s, dispatch.Config{
		Topics:     []dispatch.Topic{{Name: "mail", Handler: mail, Concurrency: 16}},
		UntilEmpty: true, // leave it out to run until ctx ends
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := d.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
