package mirror_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/mirror"
)

// picky is a store that refuses one message, which it says only when it is asked to
// store it.
type picky struct {
	store.Store
	refuses string
	err     error
}

func (p *picky) Unwrap() store.Store { return p.Store }

func (p *picky) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	kept := store.Batch[pawl.Message]{ID: batch.ID}
	receipts := make([]store.Receipt, len(batch.Items))
	var at []int
	for i, m := range batch.Items {
		if m.ID == p.refuses {
			receipts[i] = store.Receipt{ID: m.ID, Err: p.err}
			continue
		}
		kept.Items, at = append(kept.Items, m), append(at, i)
	}
	some, err := p.Store.Append(ctx, kept)
	for j := range some {
		receipts[at[j]] = some[j]
	}
	return receipts, err
}

// buried are the ids and reasons of dead letters.
func buried(t *testing.T, s *memory.Store) map[string]string {
	t.Helper()
	found := map[string]string{}
	for r, err := range s.Dead(t.Context(), store.DeadFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind != mirror.KindNotCarried {
			t.Errorf("%s is dead of kind %s: %s", r.ID, r.Kind, r.Reason)
		}
		found[r.ID] = r.Reason
	}
	return found
}

func unique(m pawl.Message) pawl.Message {
	m.Unique = pawl.Unique{Key: "u", For: 24 * time.Hour}
	return m
}

// TestCarryBuriesWhatIsRefused: it is a dead letter with a reason, and those behind it
// are carried once, whether the refusal could be known before or not.
func TestCarryBuriesWhatIsRefused(t *testing.T) {
	tooLarge := &store.Error{Op: "append", Code: store.ErrTooLarge}
	for name, c := range map[string]struct {
		second pawl.Message
		over   func(store.Store) store.Store
	}{
		"unique key": {unique(mail("k", 2)), func(s store.Store) store.Store { return s }},
		"surprise":   {mail("k", 2), func(s store.Store) store.Store { return &picky{s, "k-0002", tooLarge} }},
		"known":      {mail("k", 2), func(s store.Store) store.Store { return fussy{s} }},
	} {
		t.Run(name, func(t *testing.T) {
			old, nu := memory.New(memory.Config{}), memory.New(memory.Config{})
			appendAll(t, old, unique(pawl.Message{ID: "holder", Topic: "mail"}))
			appendAll(t, nu, mail("k", 1), c.second, mail("k", 3), mail("k", 4))
			seen := map[string]int{}
			target := &counting{c.over(old), seen}
			n := 0
			for range 4 {
				some, err := mirror.Carry(t.Context(), nu, target, "mail", "mail", 10, "t")
				if n += some; err != nil {
					t.Error(err)
				}
			}
			same(t, "in the old store", listed(t, old, "mail")["k"], []string{"k-0001", "k-0003", "k-0004"})
			if dead := buried(t, nu); n != 3 || len(dead) != 1 || dead["k-0002"] == "" ||
				count(listed(t, nu, "mail")) != 0 {
				t.Errorf("%d are carried, dead are %v, the new store has %v", n, dead, listed(t, nu, "mail"))
			}
			for _, id := range []string{"k-0001", "k-0003", "k-0004"} {
				if seen[id] != 1 {
					t.Errorf("%s was appended %d times", id, seen[id])
				}
			}
		})
	}
}

// fussy says beforehand that it does not take the second message.
type fussy struct{ store.Store }

func (f fussy) Unwrap() store.Store { return f.Store }

func (f fussy) Describe() store.Description {
	d := store.Describe(f.Store)
	d.Refuses = func(m *pawl.Message) error {
		if m.ID == "k-0002" {
			return &store.Error{Op: "append", Code: store.ErrUnsupported}
		}
		return nil
	}
	return d
}

// counting counts how often each message is appended.
type counting struct {
	store.Store
	seen map[string]int
}

func (c *counting) Unwrap() store.Store { return c.Store }

func (c *counting) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	for i := range batch.Items {
		c.seen[batch.Items[i].ID]++
	}
	return c.Store.Append(ctx, batch)
}

// TestCarryKeepsOthersBehind: what may be refused is not overtaken, also where its topic
// parks what follows a dead letter.
func TestCarryKeepsOthersBehind(t *testing.T) {
	old, nu := memory.New(memory.Config{}), memory.New(memory.Config{})
	if _, err := nu.Declare(t.Context(), store.Declaration{Name: "mail", Park: new(true)}); err != nil {
		t.Fatal(err)
	}
	appendAll(t, old, unique(pawl.Message{ID: "holder", Topic: "mail"}))
	appendAll(t, nu, mail("k", 1), unique(mail("k", 2)), mail("k", 3))
	if n, err := mirror.Carry(t.Context(), nu, old, "mail", "mail", 10, "t"); n != 1 || err != nil {
		t.Errorf("carried %d, %v", n, err)
	}
	same(t, "in the old store", listed(t, old, "mail")["k"], []string{"k-0001"})
}

// TestCarryDoesNotBuryForATime: a store that denies or cannot take anything now says
// nothing about the message.
func TestCarryDoesNotBuryForATime(t *testing.T) {
	for _, code := range []error{store.ErrDenied, store.ErrFull, store.ErrUnavailable, store.ErrClosed} {
		old, nu := memory.New(memory.Config{}), memory.New(memory.Config{})
		appendAll(t, nu, mail("k", 1), mail("a", 1))
		_, err := mirror.Carry(t.Context(), nu, &picky{old, "k-0001", &store.Error{Op: "append", Code: code}}, "mail",
			"mail", 10, "t")
		if err == nil || len(buried(t, nu)) != 0 || len(listed(t, nu, "mail")["k"]) != 1 ||
			len(listed(t, old, "mail")["a"]) != 1 {
			t.Errorf("%v: %v, dead are %v, the new store has %v", code, err, buried(t, nu), listed(t, nu, "mail"))
		}
	}
}

// TestReturningEnds with a message that the old store refuses: a worker does each of the
// others once, in order, and no claim fails.
func TestReturningEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, mirror.Config{})
		defer func() { _ = p.Close() }()
		appendAll(t, p.old, unique(pawl.Message{ID: "holder", Topic: "other"}))
		second := unique(mail("k", 2))
		second.Unique.Scope = "s"
		holder := unique(pawl.Message{ID: "holder2", Topic: "other"})
		holder.Unique.Scope = "s"
		appendAll(t, p.old, holder)
		appendAll(t, p.new, mail("k", 1), second, mail("k", 3))
		p.stage(t, "mail", to(mirror.Returning))
		var done []string
		for range 60 {
			ds := claim(t, p, "mail", 10)
			done = append(done, ids(ds)...)
			if len(ds) > 0 {
				ack(t, p, ds)
			}
			time.Sleep(500 * time.Millisecond)
		}
		same(t, "done", done, []string{"k-0001", "k-0003"})
		if left := count(listed(t, p.new, "mail")); left != 0 || len(buried(t, p.new)) != 1 {
			t.Errorf("the new store has %d messages, dead are %v", left, buried(t, p.new))
		}
	})
}
