package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Fault says what becomes of a call.
type Fault uint8

// The faults. The zero value is none.
const (
	FailBefore Fault = iota + 1 // the call fails and takes no effect
	FailAfter                   // the call takes effect, and its answer is lost
)

// Plan decides the fate of a call by its name: append, claim, extend or settle.
// It may be called concurrently.
type Plan func(op string) Fault

// Faulty returns s with calls that fail by plan. They return
// [store.ErrUnavailable]: whether they took effect is for the caller to find out.
// The optional interfaces of s never fail.
func Faulty(s store.Store, plan Plan) store.Store { return &faulty{Store: s, plan: plan} }

type faulty struct {
	store.Store
	plan Plan
}

// Unwrap returns the store below.
func (f *faulty) Unwrap() store.Store { return f.Store }

var errFault = errors.New("connection reset, on purpose")

// failing makes a call, or not, and loses its answer, or not.
func failing[T any](f *faulty, op string, call func() (T, error)) (T, error) {
	var none T
	fault := f.plan(op)
	if fault == FailBefore {
		return none, &store.Error{Op: op, Code: store.ErrUnavailable, Err: errFault}
	}
	answer, err := call()
	if fault == FailAfter && err == nil {
		return none, &store.Error{Op: op, Code: store.ErrUnavailable, Err: errFault}
	}
	return answer, err
}

func (f *faulty) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	return failing(f, "append", func() ([]store.Receipt, error) { return f.Store.Append(ctx, batch) })
}

func (f *faulty) Claim(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
	return failing(f, "claim", func() ([]pawl.Delivery, error) { return f.Store.Claim(ctx, wants, terms) })
}

func (f *faulty) Extend(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
	return failing(f, "extend", func() ([]pawl.Token, error) { return f.Store.Extend(ctx, by, tokens...) })
}

func (f *faulty) Settle(ctx context.Context, batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	return failing(f, "settle", func() ([]store.Refusal, error) { return f.Store.Settle(ctx, batch) })
}
