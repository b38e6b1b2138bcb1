// Package rounds measures several arms in turn, round by round, and compares them.
package rounds

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-dev/pawl/bench/internal/meter"
)

// Arm is one of the things that are compared.
type Arm struct {
	Name    string
	Measure func(context.Context) (float64, error)
}

// Figures are what arms came to, by name and round.
type Figures map[string][]float64

// Turn rotates arms by the round, so that none is always first.
func Turn[A any](arms []A, round int) []A {
	at := round % len(arms)
	return slices.Concat(arms[at:], arms[:at])
}

// Measure measures each arm once a round, and prints every figure with its unit.
func Measure(ctx context.Context, of, unit string, rounds int, arms []Arm) (Figures, error) {
	all := Figures{}
	for round := range rounds {
		for _, a := range Turn(arms, round) {
			figure, err := a.Measure(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", a.Name, err)
			}
			all[a.Name] = append(all[a.Name], figure)
			fmt.Printf("%s, round %d  %-13s %8.0f %s\n", of, round+1, a.Name, figure, unit)
		}
	}
	return all, nil
}

// Compare prints the ratio of two arms, round by round: its median, the lowest and the highest.
func (f Figures) Compare(of, ours, theirs string) {
	if len(f[theirs]) == 0 {
		return
	}
	ratios := make([]float64, len(f[theirs]))
	for i := range ratios {
		ratios[i] = f[ours][i] / f[theirs][i]
	}
	fmt.Printf("%s, %s to %s: %s\n", of, ours, theirs, meter.SpreadOf(ratios).Ratio())
}
