package storetest_test

import (
	"context"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/storetest"
)

// hasty returns the receipts of [backend.Admit] beside an error that came without any.
type hasty struct{ store.Store }

func (h hasty) Unwrap() store.Store { return h.Store }

func (h hasty) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	receipts, err := backend.Admit(batch)
	if err != nil {
		return nil, err
	}
	got, err := h.Store.Append(ctx, batch)
	copy(receipts, got)
	return receipts, err
}

// forgetful returns an error alone, though the receipts say what is stored.
type forgetful struct{ store.Store }

func (f forgetful) Unwrap() store.Store { return f.Store }

func (f forgetful) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	receipts, err := f.Store.Append(ctx, batch)
	if err != nil {
		return nil, &store.Error{Op: "append", Code: store.ErrFull, Err: err}
	}
	return receipts, nil
}

// TestReceiptsOfDecorators: a decorator whose receipts lie is found out, and one that
// passes on what it hears is not.
func TestReceiptsOfDecorators(t *testing.T) {
	storetest.Receipts(t, func(_ testing.TB, inner store.Store) (store.Store, func(string) bool) { return inner, nil })
	for name, wrap := range map[string]func(store.Store) store.Store{
		"receipts that nobody gave": func(s store.Store) store.Store { return hasty{s} },
		"receipts that are lost":    func(s store.Store) store.Store { return forgetful{s} },
	} {
		if !storetest.Lies(t, func(_ testing.TB, inner store.Store) (store.Store,
			func(string) bool) {
			return wrap(inner), nil
		}) {
			t.Errorf("%s are not noticed", name)
		}
	}
}
