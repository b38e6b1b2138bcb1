package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// answering is a store whose Append answers as it is told.
type answering struct {
	store.Store
	receipts []store.Receipt
	err      error
}

func (a *answering) Append(context.Context, store.Batch[pawl.Message]) ([]store.Receipt, error) {
	return a.receipts, a.err
}

func TestSendMakesAnErrorOfARefusal(t *testing.T) {
	s := memory.New(memory.Config{})
	good := pawl.Message{Topic: "t", ID: "one"}
	if err := store.Send(t.Context(), s, good); err != nil {
		t.Fatal(err)
	}
	if err := store.Send(t.Context(), s, good); err != nil {
		t.Fatalf("a duplicate is there: %v", err)
	}
	if err := store.Send(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	err := store.Send(t.Context(), s, pawl.Message{Topic: "t"}, pawl.Message{Topic: "no topic"})
	if _, invalid := errors.AsType[*pawl.InvalidError](err); !invalid ||
		!strings.Contains(err.Error(), "message 1 (no topic)") {
		t.Fatalf("error %v; want that of message 1", err)
	}
}

func TestSendKeepsTheErrorOfTheCall(t *testing.T) {
	away := &store.Error{Op: "append", Code: store.ErrUnavailable}
	m := pawl.Message{Topic: "t"}
	if err := store.Send(t.Context(), &answering{err: away}, m); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("error %v", err)
	}
	partly := &answering{err: away, receipts: []store.Receipt{{ID: "a"},
		{ID: "b", Err: &store.Error{Code: store.ErrUnknown}}}}
	if err := store.Send(t.Context(), partly, m, m); !errors.Is(err, store.ErrUnknown) ||
		strings.Contains(err.Error(), "message 0") {
		t.Fatalf("error %v; want that of message 1 only", err)
	}
	if err := store.Send(t.Context(), &answering{}, m); err == nil {
		t.Fatal("no receipt, and no error")
	}
}

// inTx is a store whose transactions are strings.
type inTx struct {
	store.Store
	tx string
}

func (s *inTx) AppendTx(ctx context.Context, tx string, b store.Batch[pawl.Message]) ([]store.Receipt, error) {
	s.tx = tx
	return s.Append(ctx, b)
}

func (s *inTx) AckTx(context.Context, string, pawl.Token) error { return store.ErrUnsupported }

func TestSendTxMakesAnErrorOfARefusal(t *testing.T) {
	s := &inTx{Store: memory.New(memory.Config{})}
	if err := store.SendTx(t.Context(), s, "mine", pawl.Message{Topic: "t"}); err != nil || s.tx != "mine" {
		t.Fatalf("error %v, transaction %q", err, s.tx)
	}
	err := store.SendTx(t.Context(), s, "mine", pawl.Message{Topic: "t"}, pawl.Message{Topic: "no topic"})
	if _, invalid := errors.AsType[*pawl.InvalidError](err); !invalid ||
		!strings.Contains(err.Error(), "message 1 (no topic)") {
		t.Errorf("error %v; want that of message 1", err)
	}
	err = store.SendTx(t.Context(), s, 1, pawl.Message{Topic: "t"})
	if !errors.Is(err, store.ErrUnsupported) || !strings.Contains(err.Error(), "int") {
		t.Errorf("transactions of another type: error %v", err)
	}
}
