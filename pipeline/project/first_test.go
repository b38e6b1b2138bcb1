package project

import (
	"context"
	"testing"
	"time"
)

// TestFirstChangesDoNotWait: transactions that insert the first changes of a projection do not wait for each
// other's end. Two that also wait for each other's rows would be a deadlock.
func TestFirstChangesDoNotWait(t *testing.T) {
	r := newRig(t, true)
	if err := r.outbox().OutboxTopics(t.Context(), r.alias); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for _, id := range []string{"a", "b"} {
		tx, err := r.db.BeginTx(ctx, nil)
		r.ok(err)
		t.Cleanup(func() { _ = tx.Rollback() })
		_, err = tx.ExecContext(ctx,
			`INSERT INTO pawl_outbox (projection, doc_id, op, version, doc) VALUES ($1, $2, 'upsert', 1, '{}')`,
			r.alias, id)
		r.ok(err)
	}
}
