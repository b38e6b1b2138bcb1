package serve

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/statesync"
	"github.com/pawl-dev/pawl/store"
)

// policyTopic is the topic of the state (package statesync) in which operators put overrides of the policy for all
// processes, by names of their own.
const policyTopic = "policy"

// setOverride is an override that an operator has set: JSON with the keys of one in a file.
type setOverride struct{ policy.Override }

// UnmarshalJSON reads it as it would be read in a file.
func (o *setOverride) UnmarshalJSON(text []byte) (err error) {
	o.Override, err = config.ParseOverride(text, Kinds())
	return err
}

// livePolicy is the policy of a file, and over it the overrides that operators have set.
type livePolicy struct {
	*policy.Live
	log  *slog.Logger
	kept *statesync.Topic[setOverride] // nil: not watched
	mu   sync.Mutex
	file *policy.Matrix
	set  map[string]policy.Override
}

func newLivePolicy(file *policy.Matrix, log *slog.Logger) *livePolicy {
	return &livePolicy{Live: policy.NewLive(file), log: log, file: file, set: map[string]policy.Override{}}
}

// load takes the policy of a file that was reloaded.
func (p *livePolicy) load(file *policy.Matrix) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.file = file
	p.swap()
}

// swap puts into effect what is known. An override that would weaken the file, or another one, is left out.
func (p *livePolicy) swap() {
	next, refused := overridden(p.file, p.set)
	if p.kept != nil {
		p.kept.Refused(refused)
	}
	p.Swap(next)
}

// overridden is a matrix with overrides over it by name, and why some of them are not.
func overridden(m *policy.Matrix, set map[string]policy.Override) (*policy.Matrix, map[string]error) {
	var all []policy.Override
	refused, names := map[string]error{}, slices.Sorted(maps.Keys(set))
	for _, name := range names {
		o := set[name]
		o.Origin = "state " + policyTopic + "/" + name
		all = append(all, o)
	}
	for {
		next, err := m.With(all...)
		bad, ok := errors.AsType[*policy.OverrideError](err)
		if !ok {
			return next, refused // there is no other error
		}
		refused[names[bad.Index]] = errors.New(all[bad.Index].Origin + ": " + bad.Field + ": " + bad.Why)
		all, names = slices.Delete(all, bad.Index, bad.Index+1), slices.Delete(names, bad.Index, bad.Index+1)
	}
}

// watch takes what operators set while the process runs. A store without a state has nothing.
func (p *livePolicy) watch(ctx context.Context, kept *statesync.Topic[setOverride]) {
	for v := range kept.Watch(ctx, "") {
		p.mu.Lock()
		p.kept = kept
		if delete(p.set, v.Key); !v.Deleted {
			p.set[v.Key] = v.Value.Override
		}
		p.log.Info("override of the policy set", "name", v.Key, "version", v.Version, "writer", v.Writer,
			"removed", v.Deleted)
		p.swap()
		p.mu.Unlock()
	}
}

// openOverrides opens the overrides in the state; nil if the store keeps none.
func openOverrides(s store.Store, who string, log *slog.Logger) (*statesync.Topic[setOverride], error) {
	if !store.Can(s, store.CanState) {
		return nil, nil
	}
	return statesync.New[setOverride](s, policyTopic, statesync.Config{Writer: who, Logger: log})
}

// Overridden returns a matrix with the overrides over it that operators have set in a store, and why some of them are
// not.
func Overridden(ctx context.Context, s store.Store, m *policy.Matrix) (*policy.Matrix, []error, error) {
	kept, err := openOverrides(s, "", nil)
	if kept == nil || err != nil {
		return m, nil, err
	}
	all, err := kept.List(ctx, "")
	if err != nil {
		return m, nil, err
	}
	set := map[string]policy.Override{}
	for i := range all {
		set[all[i].Key] = all[i].Value.Override
	}
	m, refused := overridden(m, set)
	return m, slices.Collect(maps.Values(refused)), nil
}
