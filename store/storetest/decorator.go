package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/memory"
)

// Decorate puts a decorator over inner, and says how to find out whether a message is
// kept, in whichever store. A nil has asks the decorator itself.
type Decorate func(t testing.TB, inner store.Store) (s store.Store, has func(id string) bool)

// Receipts appends through a decorator to a store that fails in every way in which an
// Append may, and compares what the receipts say with what is kept. A caller that has
// an error goes by the receipts, or by the error where there are none: a message that
// they call stored is not sent again. The messages are of two topics, here and there.
func Receipts(t *testing.T, wrap Decorate) {
	for _, f := range appendFailures {
		t.Run(f.name, func(t *testing.T) {
			for _, lie := range lies(t, wrap, f) {
				t.Error(lie)
			}
		})
	}
}

// appendFailure is a way in which an Append fails.
type appendFailure struct {
	name string
	err  error
	// stored tells of which messages, by their place, are stored all the same.
	stored func(i int) bool
	// each: there are receipts, too, and those of what is not stored have err.
	each bool
}

var (
	unreachable = &store.Error{Op: "append", Code: store.ErrUnavailable, Err: errFault}

	storesNone   = func(int) bool { return false }
	storesSecond = func(i int) bool { return i%2 == 1 }
	storesAll    = func(int) bool { return true }
)

var appendFailures = []appendFailure{
	{name: "not reachable", err: unreachable, stored: storesNone},
	{name: "the answer is lost", err: unreachable, stored: storesAll},
	{name: "half of it is stored and the answer is lost", err: unreachable, stored: storesSecond},
	{name: "the time is over", err: &store.Error{Op: "append", Err: context.DeadlineExceeded}, stored: storesNone},
	{name: "no space is left", err: &store.Error{Op: "append", Code: store.ErrFull, Err: errFault}, stored: storesNone},
	{name: "denied", err: &store.Error{Op: "append", Code: store.ErrDenied, Err: errFault}, stored: storesNone},
	{name: "every other one fails", err: unreachable, stored: storesSecond, each: true},
	{name: "every other one is unknown", err: &store.Error{Op: "append", Code: store.ErrUnknown, Err: errFault},
		stored: storesSecond, each: true},
}

// failingAppend is a store whose appends fail in one way.
type failingAppend struct {
	store.Store
	how appendFailure
}

// Unwrap returns the store below.
func (f *failingAppend) Unwrap() store.Store { return f.Store }

func (f *failingAppend) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	receipts, err := backend.Admit(batch)
	if err != nil {
		return nil, err
	}
	failed := false
	for i := range batch.Items {
		switch {
		case receipts[i].Err != nil:
		case !f.how.stored(i):
			receipts[i].Err, failed = f.how.err, true
		default:
			m := batch.Items[i]
			m.ID = receipts[i].ID
			one, err := f.Store.Append(ctx, store.NewBatch(m))
			if err != nil {
				return nil, err
			}
			receipts[i] = one[0]
		}
	}
	switch {
	case !f.how.each:
		return nil, f.how.err
	case failed:
		return receipts, f.how.err
	default:
		return receipts, nil
	}
}

// lies appends a batch and returns what the answers say that is not so.
func lies(t testing.TB, wrap Decorate, how appendFailure) (found []error) {
	inner := memory.New(memory.Config{})
	s, has := wrap(t, &failingAppend{inner, how})
	if has == nil {
		has = func(id string) bool { return keeps(t, s, id) }
	}
	batch := store.NewBatch(
		pawl.Message{Topic: "here", Body: []byte("0")},
		pawl.Message{Topic: "there", Body: []byte("1")},
		pawl.Message{Topic: "here", Unique: pawl.Unique{Key: "u", For: pawl.Forever}},
		pawl.Message{}, // refused by any store: it has no topic
		pawl.Message{Topic: "here", Key: []byte("k"), Body: []byte("4")},
		pawl.Message{Topic: "there", Key: []byte("l"), Body: []byte("5")},
	)
	for i := range batch.Items {
		batch.Items[i].ID = pawl.NewID()
	}
	n := len(batch.Items)
	lie := func(format string, args ...any) { found = append(found, fmt.Errorf(format, args...)) }
	receipts, err := s.Append(t.Context(), batch)
	if len(receipts) != n && len(receipts) > 0 {
		lie("%d receipts for %d messages", len(receipts), n)
	}
	for i, r := range store.Answers(n, receipts, err) {
		kept, outcome := has(batch.Items[i].ID), r.Outcome()
		if outcome == store.Stored && !kept {
			lie("message %d is called stored and is nowhere", i)
		}
		if kept && (outcome == store.Failed || outcome == store.Refused) {
			lie("message %d is called %s and is kept: %v", i, outcome, r.Err)
		}
		if err == nil && (outcome == store.Failed || outcome == store.Unknown) {
			lie("the outcome of message %d is %s, and the call has no error", i, outcome)
		}
		if len(receipts) == n && r.ID != batch.Items[i].ID {
			lie("the receipt of message %d has the id %q", i, r.ID)
		}
	}
	return found
}

// keeps asks a store for a message.
func keeps(t testing.TB, s store.Store, id string) bool {
	t.Helper()
	looker, ok := store.As[store.Inspector](s)
	if !ok {
		t.Fatalf("%T cannot look messages up", s)
	}
	_, err := looker.Get(t.Context(), id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// Keepers asks several stores for a message: what a decorator over them keeps.
func Keepers(t testing.TB, stores ...store.Store) func(id string) bool {
	return func(id string) bool {
		return slices.ContainsFunc(stores, func(s store.Store) bool { return keeps(t, s, id) })
	}
}
