package kafka

import (
	"context"
	"errors"
	"iter"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// unindexed has the methods of optional interfaces that need an index, which a log lacks.
type unindexed struct{}

// unsupported is the error of a part of the contract that a log does not keep.
func unsupported(op string, c store.Capability) error {
	return &store.Error{Op: op, Code: store.ErrUnsupported, Err: errors.New(Description().Capabilities[c].Note)}
}

func (unindexed) Cancel(context.Context, ...string) (map[string]error, error) {
	return nil, unsupported("cancel", store.CanLookup)
}

func (unindexed) RunNow(context.Context, ...string) (map[string]error, error) {
	return nil, unsupported("run now", store.CanLookup)
}

func (unindexed) Skip(context.Context, string, ...string) (map[string]error, error) {
	return nil, unsupported("skip", store.CanLookup)
}

func (unindexed) PutMarks(context.Context, ...pawl.Mark) ([]store.MarkReceipt, error) {
	return nil, unsupported("put marks", store.CanMarks)
}

func (unindexed) GetMarks(context.Context, string, ...string) (map[string]store.Marked, error) {
	return nil, unsupported("get marks", store.CanMarks)
}

func (unindexed) ListMarks(context.Context, string, string) iter.Seq2[store.Marked, error] {
	return func(yield func(store.Marked, error) bool) {
		yield(store.Marked{}, unsupported("list marks", store.CanMarks))
	}
}

func (unindexed) Forget(context.Context, string) error {
	return unsupported("forget marks", store.CanMarks)
}

func (unindexed) Reserve(context.Context, ...store.Pace) ([]store.Paced, error) {
	return nil, unsupported("reserve", store.CanPace)
}

func (unindexed) ReplayKeeping(context.Context, string, ...string) (map[string]error, error) {
	return nil, unsupported("replay keeping attempts", store.CanResolve)
}

func (unindexed) Resolve(context.Context, string, string, ...string) (map[string]error, error) {
	return nil, unsupported("resolve", store.CanResolve)
}

func (unindexed) Reopen(context.Context, ...string) (map[string]error, error) {
	return nil, unsupported("reopen", store.CanResolve)
}

func (unindexed) RemoveTopic(context.Context, string) error {
	return unsupported("remove topic", store.CanRemove)
}
