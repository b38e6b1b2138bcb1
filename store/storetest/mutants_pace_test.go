package storetest_test

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// brokenPaces are rates of which some rules are broken.
type brokenPaces struct {
	*broken
	store.Shared
	onPace  func(*store.Pace)
	onPaced func([]store.Pace, []store.Paced)
}

func (b *brokenPaces) Reserve(ctx context.Context, paces ...store.Pace) ([]store.Paced, error) {
	asked := slices.Clone(paces)
	for i := range paces {
		if b.onPace != nil {
			b.onPace(&asked[i])
		}
	}
	answers, err := b.Shared.Reserve(ctx, asked...)
	if b.onPaced != nil {
		b.onPaced(paces, answers)
	}
	return answers, err
}

func paceMutants() []mutant {
	asking := func(change func(*store.Pace)) breakage {
		return func(b *broken) store.Store {
			inner, _ := store.As[store.Shared](b.Store, store.CanPace)
			return &brokenPaces{broken: b, Shared: inner, onPace: change}
		}
	}
	answering := func(change func([]store.Pace, []store.Paced)) breakage {
		return func(b *broken) store.Store {
			inner, _ := store.As[store.Shared](b.Store, store.CanPace)
			return &brokenPaces{broken: b, Shared: inner, onPaced: change}
		}
	}
	return []mutant{
		{"paceTakesWhateverTheWait", asking(func(p *store.Pace) {
			if p.N > 0 && p.Within == 0 {
				p.Within = 1000 * time.Hour
			}
		}), []string{"PermitsComeInTurn"}},
		{"paceHasOneKey", asking(func(p *store.Pace) { p.Key = strings.ToLower(p.Key) }), []string{"PacesAreByKey"}},
		{"paceHoldsAMoment", asking(func(p *store.Pace) {
			if p.Hold > 0 && p.Hold <= time.Hour {
				p.Hold = time.Minute
			}
		}), []string{"HoldsAreForAll"}},
		{"paceTakesNoMoreThanOne", asking(func(p *store.Pace) { p.N = min(p.N, 1) }),
			[]string{"PermitsComeInTurn", "PacesAreForgotten"}},
		{"paceSaysNoWait", answering(func(_ []store.Pace, answers []store.Paced) {
			for i := range answers {
				answers[i].Wait = 0
			}
		}), []string{"PermitsComeInTurn", "HoldsAreForAll"}},
		{"paceAnswersByKey", answering(func(paces []store.Pace, answers []store.Paced) {
			if slices.IsSortedFunc(paces, func(a, b store.Pace) int { return strings.Compare(a.Key, b.Key) }) {
				return
			}
			slices.Reverse(answers)
		}), []string{"PacesAreByKey"}},
	}
}
