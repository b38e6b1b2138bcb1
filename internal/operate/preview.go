package operate

import (
	"context"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/store"
)

// EditPreview is what an edit would make of a dead letter, as JSON.
type EditPreview struct {
	ID     string `json:"id"`
	Before string `json:"before"`
	After  string `json:"after"`
	Error  string `json:"error,omitempty"` // why it would be refused, and stay dead
}

const (
	previewed   = 5
	previewText = 64 << 10
)

// Preview runs an edit on the first few dead letters of a selection, and changes none.
func Preview(ctx context.Context, s store.Store, d store.DeadLetters, sel Selection,
	edit string) ([]EditPreview, error) {
	apply, err := ParsePatch(edit)
	if err != nil {
		return nil, err
	}
	all := []EditPreview{}
	try := func(r *store.Record, err error) error {
		if err != nil || len(all) == previewed {
			return err
		}
		p := EditPreview{ID: r.ID, Before: previewOf(r.Body)}
		if after, err := apply(ctx, r.Body); err != nil {
			p.Error = err.Error()
		} else {
			p.After = previewOf(after)
		}
		all = append(all, p)
		return nil
	}
	if len(sel.IDs) > 0 {
		_, err = eachID(ctx, s, sel.IDs[:min(len(sel.IDs), previewed)], try)
		return all, err
	}
	sel.Filter.Brief, sel.Filter.Limit = false, previewed
	for r, err := range d.Dead(ctx, sel.Filter) {
		if err := try(&r, err); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func previewOf(body []byte) string {
	if !utf8.Valid(body) {
		return "(no text)"
	}
	return string(body[:min(len(body), previewText)])
}
