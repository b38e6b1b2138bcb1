package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// claims measures what it costs to claim and settle a batch while so many rows are pending.
func claims(ctx context.Context, s *settings, name string) error {
	d, err := newDatabase(ctx, s, name)
	if err != nil {
		return err
	}
	defer d.close()
	topic := projection + "." + outboxStage
	var first time.Duration
	last := 1.0
	pending := 0
	for _, depth := range s.claims {
		for pending < depth {
			n := min(depth-pending, 2000)
			msgs := make([]pawl.Message, n)
			for i := range msgs {
				msgs[i] = pawl.Message{Topic: topic, Key: []byte(id(pending + i)), Body: []byte(document(pending + i)),
					Headers: map[string]string{"op": "upsert", "version": "1"}}
			}
			if _, err := d.store.Append(ctx, store.NewBatch(msgs...)); err != nil {
				return err
			}
			pending += n
		}
		if err := d.settled(ctx, name); err != nil {
			return err
		}
		const times = 10
		began := time.Now()
		for range times {
			n, err := d.claim(ctx, topic)
			if err != nil {
				return err
			}
			pending -= n
		}
		took := time.Since(began) / times
		if first == 0 {
			first = took
		}
		last = took.Seconds() / first.Seconds()
		fmt.Printf("%s, %7d pending: %.1f ms to claim and settle %d\n", name, depth, took.Seconds()*1000, batch)
	}
	fmt.Printf("%s, claim at the deepest to the first: %.2f×\n", name, last)
	return nil
}

// settled lets the database do what is due after many inserts, which is no cost of a claim.
func (d *database) settled(ctx context.Context, name string) error {
	if name != "postgres" {
		_, err := d.app.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
		return err
	}
	_, err := d.app.ExecContext(ctx, "VACUUM ANALYZE")
	return err
}

// claim takes a batch and settles it.
func (d *database) claim(ctx context.Context, topic string) (int, error) {
	got, err := d.store.Claim(ctx, []store.Want{{Topic: topic, Limit: batch}},
		store.Lease{For: time.Minute, Owner: "projectbench"})
	if err != nil {
		return 0, err
	}
	if len(got) != batch {
		return 0, fmt.Errorf("%d messages were claimed, want %d", len(got), batch)
	}
	settlements := make([]store.Settlement, len(got))
	for i := range got {
		settlements[i] = store.Settlement{Token: got[i].Token, ID: got[i].ID, Verdict: store.Ack}
	}
	_, err = d.store.Settle(ctx, store.NewBatch(settlements...))
	return len(got), err
}
