package forward

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/pawl-dev/pawl/store"
)

// rules are the rules of a pipeline: one entry of the store's state for each source. The version of the
// store's state is the version of the rules; a process keeps a copy and asks for what has changed since.
type rules struct {
	state store.Shared
	name  string // of the pipeline

	reading sync.Mutex    // one asks at a time
	begun   atomic.Uint64 // how often the store was asked
	done    uint64        // the last of these that was answered; guarded by reading

	mu     sync.Mutex
	seen   int64 // version
	source map[Place]*Rule
	id     map[int64]*Rule
}

// errNoRule says that there is no such rule.
var errNoRule = errors.New("there is no such rule")

func newRules(state store.Shared, name string) *rules {
	return &rules{state: state, name: name, source: map[Place]*Rule{}, id: map[int64]*Rule{}}
}

func (r *rules) prefix() string     { return "forward/" + r.name + "/rule/" }
func (r *rules) key(p Place) string { return r.prefix() + p.String() }
func (r *rules) lastIDKey() string  { return "forward/" + r.name + "/last-rule" }

func conflict(err error) bool { return errors.Is(err, store.ErrConflict) }
func notThere(err error) bool { return errors.Is(err, store.ErrNotFound) }

// refresh brings the copy up to date with what was in the store when it was called, at least. Calls at the
// same time share one read.
func (r *rules) refresh(ctx context.Context) error {
	before := r.begun.Load()
	r.reading.Lock()
	defer r.reading.Unlock()
	if r.done > before {
		return nil // another caller asked after this call began
	}
	number := r.begun.Add(1)
	r.mu.Lock()
	seen := r.seen
	r.mu.Unlock()
	for e, err := range r.state.ListState(ctx, r.prefix(), seen) {
		if err != nil {
			return err
		}
		if err := r.take(&e); err != nil {
			return err
		}
	}
	r.done = number
	return nil
}

// take takes an entry of the store into the copy.
func (r *rules) take(e *store.Entry) error {
	place, err := parsePlace(e.Key[len(r.prefix()):])
	if err != nil {
		return fmt.Errorf("the entry %s of the store's state: %w", e.Key, err)
	}
	var next *Rule
	if len(e.Value) > 0 { // an empty one was removed
		next = &Rule{}
		if err := json.Unmarshal(e.Value, next); err != nil {
			return fmt.Errorf("the entry %s of the store's state: %w", e.Key, err)
		}
		if err := next.prepare(); err != nil {
			return fmt.Errorf("rule %d: %w", next.ID, err)
		}
		next.UpdatedAt, next.version = e.At, e.Version
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = max(r.seen, e.Version)
	old := r.source[place]
	if old != nil && old.version >= e.Version {
		return nil // what this process wrote is newer than what it reads
	}
	if old != nil {
		delete(r.source, place)
		if r.id[old.ID] == old {
			delete(r.id, old.ID)
		}
	}
	if next != nil {
		r.source[place], r.id[next.ID] = next, next
	}
	return nil
}

// of returns the rule for a message: that of its topic, or that of its chat; nil if there is none.
func (r *rules) of(p Place) *Rule {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rule := r.source[p]; rule != nil {
		return rule
	}
	return r.source[Place{Chat: p.Chat}]
}

// byID returns a rule, or errNoRule.
func (r *rules) byID(id int64) (*Rule, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rule := r.id[id]; rule != nil {
		return rule, nil
	}
	return nil, fmt.Errorf("rule %d: %w", id, errNoRule)
}

func (r *rules) all() []*Rule {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(maps.Values(r.id), func(a, b *Rule) int { return cmp.Compare(a.ID, b.ID) })
}

// add stores a new rule and gives it an id. A source that has one already is store.ErrConflict.
func (r *rules) add(ctx context.Context, rule Rule, by string) (*Rule, error) {
	if err := rule.prepare(); err != nil {
		return nil, err
	}
	if old := r.exact(rule.Source); old != nil {
		return nil, &store.Error{Op: "add a rule for " + rule.Source.String(), Code: store.ErrConflict,
			Err: fmt.Errorf("rule %d is there", old.ID), Hint: fmt.Sprintf("change it with `pawl forward rules set %d`",
				old.ID)}
	}
	version, err := r.vacant(ctx, rule.Source)
	if err != nil {
		return nil, err
	}
	if rule.ID, err = r.nextID(ctx); err != nil {
		return nil, err
	}
	rule.version = version
	return r.write(ctx, &rule, by)
}

func (r *rules) exact(p Place) *Rule {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source[p]
}

// vacant returns the version of what is left of a rule that was removed; 0 if there never was one.
func (r *rules) vacant(ctx context.Context, p Place) (int64, error) {
	e, err := r.state.GetState(ctx, r.key(p))
	switch {
	case notThere(err):
		return 0, nil
	case err != nil:
		return 0, err
	case len(e.Value) > 0:
		return 0, &store.Error{Op: "add a rule for " + p.String(), Code: store.ErrConflict,
			Err: errors.New("there is one already")}
	}
	return e.Version, nil
}

func (r *rules) nextID(ctx context.Context) (int64, error) {
	for {
		e, err := r.state.GetState(ctx, r.lastIDKey())
		if err != nil && !notThere(err) {
			return 0, err
		}
		id, _ := strconv.ParseInt(string(e.Value), 10, 64)
		id++
		_, err = r.state.PutState(ctx, r.lastIDKey(), strconv.AppendInt(nil, id, 10), e.Version, "forward")
		if !conflict(err) {
			return id, err
		}
	}
}

// write stores a rule that must still be at its version, and takes it into the copy.
func (r *rules) write(ctx context.Context, rule *Rule, by string) (*Rule, error) {
	rule.UpdatedBy = by
	value, err := json.Marshal(rule)
	if err != nil {
		return nil, err
	}
	return r.put(ctx, rule.Source, value, rule.version, by)
}

// put stores the entry of a place, also in the copy. It leaves the version up to which this process has read: earlier
// entries of others may not have been read yet. An empty value removes the rule.
func (r *rules) put(ctx context.Context, at Place, value []byte, version int64, by string) (*Rule, error) {
	e, err := r.state.PutState(ctx, r.key(at), value, version, by)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	seen := r.seen
	r.mu.Unlock()
	if err := r.take(&e); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = seen
	return r.source[at], nil
}

// change changes a rule, also under concurrent changes. It returns the rule before and after.
func (r *rules) change(ctx context.Context, id int64, by string, do func(*Rule) error) (old, now *Rule, err error) {
	old, err = r.insist(ctx, id, func(old *Rule) error {
		next := old.clone()
		if err := do(next); err != nil {
			return err
		}
		if err := next.prepare(); err != nil {
			return err
		}
		now, err = r.write(ctx, next, by)
		return err
	})
	return old, now, err
}

// insist repeats what is to be done to a rule while others change it at the same time. It returns the rule before.
func (r *rules) insist(ctx context.Context, id int64, do func(old *Rule) error) (*Rule, error) {
	for {
		old, err := r.byID(id)
		if err == nil {
			err = do(old)
		}
		if !conflict(err) {
			return old, err
		}
		if err := r.refresh(ctx); err != nil {
			return nil, err
		}
	}
}

// remove removes a rule. Messages that already wait for its targets are still sent.
func (r *rules) remove(ctx context.Context, id int64, by string) (*Rule, error) {
	return r.insist(ctx, id, func(old *Rule) error {
		_, err := r.put(ctx, old.Source, nil, old.version, by)
		return err
	})
}

// moved gives a group that became a supergroup its new number, wherever rules name it. It may be repeated.
func (r *rules) moved(ctx context.Context, from, to int64) (changed []*Rule, err error) {
	const by = "telegram"
	for _, rule := range r.all() {
		if rule.Source.Chat == from {
			next := *rule.clone()
			next.move(from, to)
			next.version, err = r.vacant(ctx, next.Source)
			if err != nil && !conflict(err) {
				return changed, err
			}
			if err == nil { // otherwise the new group has a rule already, which counts
				if _, err := r.write(ctx, &next, by); err != nil && !conflict(err) {
					return changed, err
				}
				changed = append(changed, rule)
			}
			if _, err := r.put(ctx, rule.Source, nil, store.AnyVersion, by); err != nil {
				return changed, err
			}
		}
		rule = r.current(rule.ID)
		if rule == nil || !slices.ContainsFunc(rule.Targets, func(p Place) bool { return p.Chat == from }) {
			continue
		}
		if _, _, err := r.change(ctx, rule.ID, by, func(n *Rule) error {
			n.move(from, to)
			return nil
		}); err != nil {
			return changed, err
		}
		changed = append(changed, rule)
	}
	return changed, nil
}

func (r *rules) current(id int64) *Rule {
	rule, _ := r.byID(id)
	return rule
}
