package storetest_test

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/store"
)

// brokenResolve is DeadLetters of which some methods are replaced.
type brokenResolve struct {
	*broken
	store.DeadLetters
	onKeep    func(topic string, ids []string) (map[string]error, error)
	onResolve func(note *string)
	onReopen  func() (skip bool)
}

func (t *brokenResolve) ReplayKeeping(ctx context.Context, topic string, ids ...string) (map[string]error, error) {
	if t.onKeep != nil {
		return t.onKeep(topic, ids)
	}
	return t.DeadLetters.ReplayKeeping(ctx, topic, ids...)
}

func (t *brokenResolve) Resolve(ctx context.Context, by, note string, ids ...string) (map[string]error, error) {
	if t.onResolve != nil {
		t.onResolve(&note)
	}
	return t.DeadLetters.Resolve(ctx, by, note, ids...)
}

func (t *brokenResolve) Reopen(ctx context.Context, ids ...string) (map[string]error, error) {
	if t.onReopen != nil && t.onReopen() {
		ids = nil
	}
	return t.DeadLetters.Reopen(ctx, ids...)
}

func resolveMutants() []mutant {
	resolve := func(set func(*brokenResolve)) breakage {
		return func(b *broken) store.Store {
			inner, _ := store.As[store.DeadLetters](b.Store)
			t := &brokenResolve{broken: b, DeadLetters: inner}
			set(t)
			return t
		}
	}
	return []mutant{
		{"keepsNothing", resolve(func(t *brokenResolve) {
			t.onKeep = func(topic string, ids []string) (map[string]error, error) {
				dead, _ := store.As[store.DeadLetters](t.broken.Store)
				return dead.Replay(context.Background(), topic, ids...)
			}
		}), []string{"ReplayKeepsAttempts"}},
		{"noteIsLost", resolve(func(t *brokenResolve) { t.onResolve = func(note *string) { *note = "" } }),
			[]string{"ResolvedStaysDead", "ResolveReplacesTheMark", "ImportKeepsTheMark"}},
		{"neverReopened", resolve(func(t *brokenResolve) { t.onReopen = func() bool { return true } }),
			[]string{"ResolvedIsNotOpen", "ResolveReplacesTheMark", "ResolveRefuses"}},
	}
}

// forcefulRemover removes what has messages, too, or nothing at all.
type forcefulRemover struct {
	*broken
	store.Topics
	idle bool
}

func (r *forcefulRemover) RemoveTopic(ctx context.Context, name string) error {
	if r.idle {
		return nil
	}
	if err := r.Topics.RemoveTopic(ctx, name); errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

func removeMutants() []mutant {
	remover := func(idle bool) breakage {
		return func(b *broken) store.Store {
			inner, _ := store.As[store.Topics](b.Store)
			return &forcefulRemover{broken: b, Topics: inner, idle: idle}
		}
	}
	return []mutant{
		{"removesNothing", remover(true), []string{"RemovedTopicIsGone", "RemoveTakesWhatIsRetained",
			"RemovedTopicIsMadeAnew", "RemoveOfNoneIsNotFound"}},
		{"removeIsSilent", remover(false), []string{"RemoveRefusesMessages"}},
	}
}
