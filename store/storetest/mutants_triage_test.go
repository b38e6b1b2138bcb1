package storetest_test

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/store"
)

// brokenTriage is a Triage of which some methods are replaced.
type brokenTriage struct {
	*broken
	store.Triage
	onKeep    func(topic string, ids []string) (map[string]error, error)
	onResolve func(note *string)
	onReopen  func() (skip bool)
}

func (t *brokenTriage) ReplayKeeping(ctx context.Context, topic string, ids ...string) (map[string]error, error) {
	if t.onKeep != nil {
		return t.onKeep(topic, ids)
	}
	return t.Triage.ReplayKeeping(ctx, topic, ids...)
}

func (t *brokenTriage) Resolve(ctx context.Context, by, note string, ids ...string) (map[string]error, error) {
	if t.onResolve != nil {
		t.onResolve(&note)
	}
	return t.Triage.Resolve(ctx, by, note, ids...)
}

func (t *brokenTriage) Reopen(ctx context.Context, ids ...string) (map[string]error, error) {
	if t.onReopen != nil && t.onReopen() {
		ids = nil
	}
	return t.Triage.Reopen(ctx, ids...)
}

func triageMutants() []mutant {
	triage := func(set func(*brokenTriage)) breakage {
		return func(b *broken) store.Store {
			inner, _ := store.As[store.Triage](b.Store)
			t := &brokenTriage{broken: b, Triage: inner}
			set(t)
			return t
		}
	}
	return []mutant{
		{"keepsNothing", triage(func(t *brokenTriage) {
			t.onKeep = func(topic string, ids []string) (map[string]error, error) {
				dead, _ := store.As[store.DeadLetters](t.broken.Store)
				return dead.Replay(context.Background(), topic, ids...)
			}
		}), []string{"ReplayKeepsAttempts"}},
		{"noteIsLost", triage(func(t *brokenTriage) { t.onResolve = func(note *string) { *note = "" } }),
			[]string{"ResolvedStaysDead", "ResolveReplacesTheMark", "BuryKeepsTheMark"}},
		{"neverReopened", triage(func(t *brokenTriage) { t.onReopen = func() bool { return true } }),
			[]string{"ResolvedIsNotOpen", "ResolveReplacesTheMark", "ResolveRefuses"}},
	}
}

// forcefulRemover removes what has messages, too, or nothing at all.
type forcefulRemover struct {
	*broken
	store.TopicRemover
	idle bool
}

func (r *forcefulRemover) RemoveTopic(ctx context.Context, name string) error {
	if r.idle {
		return nil
	}
	if err := r.TopicRemover.RemoveTopic(ctx, name); errors.Is(err, store.ErrNotFound) {
		return err
	}
	return nil
}

func removeMutants() []mutant {
	remover := func(idle bool) breakage {
		return func(b *broken) store.Store {
			inner, _ := store.As[store.TopicRemover](b.Store)
			return &forcefulRemover{broken: b, TopicRemover: inner, idle: idle}
		}
	}
	return []mutant{
		{"removesNothing", remover(true), []string{"RemovedTopicIsGone", "RemoveTakesWhatIsRetained",
			"RemovedTopicIsMadeAnew", "RemoveOfNoneIsNotFound"}},
		{"removeIsSilent", remover(false), []string{"RemoveRefusesMessages"}},
	}
}
