package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/store"
)

const (
	minPrefix      = 8 // characters of an id that stand for it
	mostCandidates = 5
)

// AmbiguousError says that several ids begin with what was given.
type AmbiguousError struct {
	Prefix string
	IDs    []string // some of them
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("several ids begin with %q: %s", e.Prefix, strings.Join(e.IDs, ", "))
}

// Complete replaces beginnings of ids, of at least 8 characters, by the only id that begins so. What is an id,
// or begins none, stays as it is.
func Complete(ctx context.Context, s store.Store, given []string) ([]string, error) {
	l, ok := store.As[store.Inspector](s)
	if !ok {
		return given, nil
	}
	begun := map[string][]string{}
	for _, id := range given {
		if len(id) < minPrefix {
			continue
		}
		_, err := l.Get(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			begun[id] = nil
		} else if err != nil {
			return nil, err
		}
	}
	if len(begun) == 0 {
		return given, nil
	}
	if err := findBegun(ctx, s, l, begun); err != nil {
		return nil, err
	}
	whole := slices.Clone(given)
	for i, id := range given {
		switch found := begun[id]; len(found) {
		case 0:
		case 1:
			whole[i] = found[0]
		default:
			return nil, &AmbiguousError{id, found}
		}
	}
	return whole, nil
}

// findBegun looks for the ids that begin with the keys of begun.
func findBegun(ctx context.Context, s store.Store, l store.Inspector, begun map[string][]string) error {
	add := func(id string) {
		for prefix, found := range begun {
			if strings.HasPrefix(id, prefix) && len(found) < mostCandidates && !slices.Contains(found, id) {
				begun[prefix] = append(found, id)
			}
		}
	}
	for r, err := range l.List(ctx, store.Filter{}) {
		if err != nil {
			return err
		}
		add(r.ID)
	}
	d, ok := store.As[store.DeadLetters](s)
	if !ok {
		return nil
	}
	for r, err := range d.Dead(ctx, store.DeadFilter{Brief: true}) {
		if err != nil {
			return err
		}
		add(r.ID)
	}
	return nil
}
