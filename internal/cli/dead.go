package cli

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) dead() *cobra.Command {
	return noun("dead", "Dead letters: list, show, replay, edit, resolve, discard, export, import",
		`A message that cannot be carried out becomes a dead letter: complete, with every
attempt and the reason. It stays until it is replayed or discarded. One that has been
dealt with in another way can be marked as resolved: it stays, but is not counted.`,
		s.deadLs(), s.deadReport(), s.deadShow(), s.deadReplay(), s.deadEdit(), s.deadResolve(), s.deadReopen(),
		s.deadDiscard(), s.deadExport(),
		s.deadImport())
}

// deadFilter is the flags that select dead letters.
type deadFilter struct {
	topic, key, kind, reason, fingerprint, search string
	since, until                                  point
	limit                                         int
	attrs                                         []string
	resolved                                      bool
}

// add defines the flags. reasonFlag is the name of the one for the reason.
func (f *deadFilter) add(fl *pflag.FlagSet, reasonFlag string) {
	f.since.back, f.until.back = true, true
	fl.StringVar(&f.topic, "topic", "", "only this topic")
	fl.StringVar(&f.key, "key", "", "only this key")
	fl.StringVar(&f.kind, "kind", "", "only this kind of error")
	fl.StringVar(&f.reason, reasonFlag, "", "only those whose reason contains `TEXT`, ignoring case")
	fl.StringVar(&f.fingerprint, "fingerprint", "", "only failures with this fingerprint")
	fl.StringVar(&f.search, "search", "",
		"only those that have `TEXT` anywhere, ignoring case: reason, errors, id, key, headers, body")
	fl.StringArrayVar(&f.attrs, "attr", nil, "only failures that stated this fact: `NAME=VALUE`; may be repeated")
	fl.Var(&f.since, "since", "only what died then or later; or how long ago")
	fl.Var(&f.until, "until", "only what died before; or how long ago")
	fl.BoolVar(&f.resolved, "resolved", false, "those that are resolved, instead of those that are open")
	fl.IntVar(&f.limit, "limit", 0, "at most this many (0: all)")
}

// filter is what the flags say.
func (f *deadFilter) filter() store.DeadFilter {
	d := store.DeadFilter{
		Topic: f.topic, Kind: pawl.Kind(f.kind), Reason: f.reason, Fingerprint: f.fingerprint, Text: f.search,
		Since: f.since.Time, Until: f.until.Time, Limit: f.limit,
		Resolved: new(f.resolved), Attrs: attrsOf(f.attrs),
	}
	if f.key != "" {
		d.Key = []byte(f.key)
	}
	return d
}

// check refuses what can match nothing.
func (f *deadFilter) check() error {
	if f.limit < 0 {
		return usage("use 0 for no limit", "--limit is %d", f.limit)
	}
	if err := checkAttrs(f.attrs); err != nil {
		return err
	}
	if !f.since.IsZero() && !f.until.IsZero() && !f.since.Before(f.until.Time) {
		return usage("give the earlier time to --since", "--since %s is not before --until %s", f.since.text,
			f.until.text)
	}
	return nil
}

// selects tells whether the flags select anything; a limit alone does not.
func (f *deadFilter) selects() bool {
	return f.topic+f.key+f.kind+f.reason+f.fingerprint+f.search+f.since.text+f.until.text != "" || len(f.attrs) > 0 ||
		f.resolved
}

// selection is what an operation is about: ids, or a filter, or plainly all.
func (f *deadFilter) selection(c *cobra.Command, ids []string, all bool) (operate.Selection, error) {
	next := fmt.Sprintf("give ids, or flags such as --topic, or --all; `%s --help` has examples", c.CommandPath())
	if err := f.check(); err != nil {
		return operate.Selection{}, err
	}
	switch {
	case len(ids) > 0 && (f.selects() || all || f.limit > 0):
		return operate.Selection{}, usage(next, "ids and flags that select cannot be combined")
	case len(ids) == 0 && !f.selects() && !all:
		return operate.Selection{}, usage(next, "nothing is selected")
	}
	return operate.Selection{Filter: f.filter(), IDs: unique(ids)}, nil
}

// unique drops repetitions.
func unique(ids []string) []string {
	seen := map[string]bool{}
	var kept []string
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			kept = append(kept, id)
		}
	}
	return kept
}
