package project

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"
)

// TestFirstChangesDoNotWait: transactions that insert the first changes of a projection do not wait for each
// other's end, be its topic made ahead or not. Two that also wait for each other's rows would be a deadlock.
func TestFirstChangesDoNotWait(t *testing.T) {
	t.Parallel()
	for name, ahead := range map[string]bool{"the topic is there": true, "the topic is not there": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, true)
			if ahead {
				r.ok(r.outbox().OutboxTopic(t.Context(), r.alias))
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			var open []*sql.Tx
			for _, id := range []string{"a", "b", "c"} {
				tx, err := r.db.BeginTx(ctx, nil)
				r.ok(err)
				defer func() { _ = tx.Rollback() }()
				_, err = tx.ExecContext(ctx, `INSERT INTO pawl_outbox (projection, doc_id, op, version, doc)
					VALUES ($1, $2, 'upsert', 1, '{"name":"first"}')`, r.alias, id)
				r.ok(err)
				open = append(open, tx)
			}
			r.ok(open[1].Commit())
			r.ok(open[0].Rollback()) // the first one makes the topic, if there is none
			r.ok(open[2].Commit())
			r.daemon()
			r.drained()
			got := r.index()
			if len(got) != 2 || !strings.Contains(got["b"], "first") || !strings.Contains(got["c"], "first") {
				t.Errorf("b and c were committed, and the index has %q", got)
			}
		})
	}
}
