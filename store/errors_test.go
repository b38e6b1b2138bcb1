package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-dev/pawl/store"
)

// A hint is found wherever it is in the tree, and the outermost one counts.
func TestHintIsFoundInATree(t *testing.T) {
	full := &store.Error{Op: "append", Code: store.ErrFull, Hint: "make room"}
	bare := &store.Error{Op: "settle", Code: store.ErrUnavailable}
	plain := errors.New("broken")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no error":          {nil, ""},
		"another error":     {plain, ""},
		"none":              {bare, ""},
		"itself":            {full, "make room"},
		"wrapped":           {fmt.Errorf("send: %w", full), "make room"},
		"below one without": {&store.Error{Op: "spill", Code: store.ErrUnavailable, Err: full}, "make room"},
		"the outermost":     {&store.Error{Op: "spill", Err: full, Hint: "look at the fallback"}, "look at the fallback"},
		"joined":            {errors.Join(plain, fmt.Errorf("message 1: %w", errors.Join(bare, full))), "make room"},
	} {
		if got := store.Hint(c.err); got != c.want {
			t.Errorf("%s: hint %q, want %q", name, got, c.want)
		}
	}
}
