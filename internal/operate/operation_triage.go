package operate

import (
	"context"
	"fmt"

	"github.com/pawl-dev/pawl/store"
)

// prepareTriage is prepare of what only some stores can do.
func (r *Runner) prepareTriage() error {
	o := r.op
	t, ok := store.As[store.Triage](r.Store)
	if !ok {
		return &store.Error{Op: "operation " + o.ID, Code: store.ErrUnsupported,
			Err: fmt.Errorf("it needs %s", store.CanTriage)}
	}
	r.each = func(ctx context.Context, ids []string) (map[string]error, error) {
		switch o.Kind {
		case KindResolve:
			return t.Resolve(ctx, o.Who, o.Reason, ids...)
		case KindReopen:
			return t.Reopen(ctx, ids...)
		default:
			return t.ReplayKeeping(ctx, o.To, ids...)
		}
	}
	return nil
}

// marked tells whether a letter has got the mark that an operation gives, or lost the
// one that it takes away.
func marked(kind string, r *store.Record) bool {
	return kind == KindResolve && r.Resolved != nil || kind == KindReopen && r.Resolved == nil
}
