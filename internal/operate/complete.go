package operate

import (
	"cmp"
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

// flagWords are the words that flags take, of one command or of all.
var flagWords = map[string]string{
	"--group-by of pawl dead ls":           "fingerprint kind topic hour",
	"--group-by of pawl messages ls":       "key",
	"--limits":                             "on off",
	"--log-format":                         "text json",
	"--log-level":                          "debug info warn error",
	"--missed":                             "once skip all",
	"--mode":                               "forward copy",
	"--order":                              "key none",
	"--output":                             "table wide json jsonl",
	"--overlap":                            "queue skip replace",
	"--priority of pawl forward rules add": "critical high vip normal bulk",
	"--priority of pawl forward rules set": "critical high vip normal bulk",
	"--profile":                            "development production",
	"--retry":                              "head tail",
	"--scope":                              "host domain prefix all",
	"--state of pawl cancel":               "waiting delayed",
	"--state of pawl messages ls":          "waiting delayed leased dead acked",
	"--state of pawl wecom replies ls":     "pending sent refused failed",
	"--status":                             strings.Join(OperationStatuses(), " "),
	"--unique-for":                         "forever until-claimed",
}

// FlagWords returns the words that a flag of a command takes, for shells to complete; files reports whether it takes
// the name of a file, or a command. Kind is the word by which its usage calls its value.
func FlagWords(command, flag, kind string) (words []string, files bool) {
	text := cmp.Or(flagWords["--"+flag+" of "+command], flagWords["--"+flag])
	return strings.Fields(text), slices.Contains([]string{"FILE", "DIR", "FOLDER", "CMD", "COMMAND", "PATH"}, kind)
}

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
