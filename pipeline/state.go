package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// ReadState decodes the JSON of an entry into v and returns its version. Where there is no entry, or an empty one,
// v stays as it is; without an entry the version is 0.
func ReadState(ctx context.Context, s store.Shared, key string, v any) (version int64, err error) {
	e, err := s.GetState(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return 0, nil
	}
	if err == nil && len(e.Value) > 0 {
		if err = json.Unmarshal(e.Value, v); err != nil {
			err = fmt.Errorf("the state %s: %w", key, err)
		}
	}
	return e.Version, err
}

// WriteState stores v as JSON if the entry still has that version, which it replaces by the new one; else it is
// [store.ErrConflict].
func WriteState(ctx context.Context, s store.Shared, key string, v any, version *int64, by string) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	e, err := s.PutState(ctx, key, text, *version, by)
	if err == nil {
		*version = e.Version
	}
	return err
}

// ReadMark decodes the JSON of a mark into v and returns its version; without a mark it is 0, and v stays as it is.
func ReadMark(ctx context.Context, m store.Shared, scope, key string, v any) (version int64, err error) {
	marks, err := m.GetMarks(ctx, scope, key)
	if err == nil && marks[key].Version != 0 {
		err = json.Unmarshal(marks[key].Value, v)
	}
	return marks[key].Version, err
}

// WriteMark writes v as the JSON of a mark, and reports what became of it. A precondition that does not hold is no
// error: the receipt says so.
func WriteMark(ctx context.Context, m store.Shared, mark pawl.Mark, v any) (store.MarkReceipt, error) {
	var err error
	if mark.Value, err = json.Marshal(v); err != nil {
		return store.MarkReceipt{}, err
	}
	return PutMark(ctx, m, mark)
}

// PutMark writes one mark, as [store.Shared] does several.
func PutMark(ctx context.Context, m store.Shared, mark pawl.Mark) (store.MarkReceipt, error) {
	receipts, err := m.PutMarks(ctx, mark)
	if err != nil {
		return store.MarkReceipt{}, err
	}
	return receipts[0], receipts[0].Err
}

// Need sets part to what a store has of a type, or adds its name to those that are missing.
func Need[T any](s store.Store, part *T, name string, missing *[]string, needs ...store.Capability) {
	var ok bool
	if *part, ok = store.As[T](s, needs...); !ok {
		*missing = append(*missing, name)
	}
}
