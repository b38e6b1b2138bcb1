package operate

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// countingStore counts the entries of the state that are read.
type countingStore struct {
	*memory.Store
	read int
}

func (c *countingStore) counted(entries iter.Seq2[store.Entry, error]) iter.Seq2[store.Entry, error] {
	return func(yield func(store.Entry, error) bool) {
		for e, err := range entries {
			if c.read++; !yield(e, err) {
				return
			}
		}
	}
}

func (c *countingStore) ListState(ctx context.Context, prefix string, after int64) iter.Seq2[store.Entry, error] {
	return c.counted(c.Store.ListState(ctx, prefix, after))
}

func (c *countingStore) LatestState(ctx context.Context, prefix string, before int64) iter.Seq2[store.Entry, error] {
	return c.counted(c.Store.LatestState(ctx, prefix, before))
}

// TestShowTopicReadsItsEntriesOnly: of the audit it reads what is about the settings of the topic, and these are in the
// list of the whole audit, too.
func TestShowTopicReadsItsEntriesOnly(t *testing.T) {
	s := &countingStore{Store: memory.New(memory.Config{})}
	ctx := t.Context()
	if _, err := s.Declare(ctx, store.Declaration{Name: "mail"}); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		for _, a := range []AuditEntry{{Action: "cancel", Target: "mail"}, {Action: "topics set", Target: "mail.2"}} {
			if err := Audit(ctx, s, a); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, a := range []AuditEntry{{Action: "topics declare", Who: "w", Target: "mail", Change: "deadline 5m to 1m"},
		{Action: "topics set", Who: "ann", Target: "mail", Change: `{"max_waiting":5}`}} {
		if err := Audit(ctx, s, a); err != nil {
			t.Fatal(err)
		}
	}
	shown, err := ShowTopic(ctx, s, s, "mail")
	if err != nil {
		t.Fatal(err)
	}
	if s.read > 10 {
		t.Errorf("%d entries of the state were read", s.read)
	}
	for setting, want := range map[string]string{"max_waiting": "set by ann", "deadline": "declared by w", "park": "default"} {
		if !strings.HasPrefix(shown.Origins[setting], want) {
			t.Errorf("origin of %s: %s, want %s", setting, shown.Origins[setting], want)
		}
	}
	if all, err := ListAudit(ctx, s, AuditFilter{}); err != nil || len(all) != 202 {
		t.Errorf("the audit has %d entries, %v", len(all), err)
	}
}
