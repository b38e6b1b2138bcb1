package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	usualBudget = 20 * time.Second // of a package that budget.txt does not name
	slowestMost = 10               // packages that are named at the end
	middleFrom  = 5                // packages from which on the one in the middle says how slow the machine is
	failsAt     = 4                // times the budget; above one and a half, a package is only named
)

// parseBudget reads lines of `FOLDER SECONDS`: how long the tests of a package may take.
func parseBudget(text string) (map[string]time.Duration, error) {
	budget := map[string]time.Duration{}
	for n, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("budget.txt:%d: want FOLDER SECONDS: %q", n+1, line)
		}
		seconds, err := strconv.Atoi(fields[1])
		if err != nil || seconds < 1 {
			return nil, fmt.Errorf("budget.txt:%d: seconds are a whole number from 1 on: %q", n+1, line)
		}
		budget[module+fields[0]] = time.Duration(seconds) * time.Second
	}
	return budget, nil
}

// judgeTimes prints the slowest packages and those over their budget, which take more than one and a half times it, and
// returns how many took more than failsAt times: less than that can be a machine that built other packages meanwhile.
// Where the machine is slower than the one of the budgets, or does other work, all packages take longer: each may then
// take as much longer as the one in the middle does.
func (r *report) judgeTimes(budget map[string]time.Duration) (over int) {
	slowest := slices.SortedFunc(maps.Keys(r.took), func(a, b string) int { return cmp.Compare(r.took[b], r.took[a]) })
	slower := r.slower(budget)
	for i, pkg := range slowest {
		allowed := cmp.Or(budget[pkg], usualBudget)
		switch name := strings.TrimPrefix(pkg, module); {
		case float64(r.took[pkg]) > 1.5*slower*float64(allowed):
			if float64(r.took[pkg]) > failsAt*slower*float64(allowed) {
				over++
			}
			fmt.Fprintf(r.out, "SLOW: %s took %v; its budget in dev/skipgate/budget.txt is %v, %.1f times that for all "+
				"packages of this run: make its tests cheaper\n", name, r.took[pkg].Round(time.Second), allowed, slower)
		case i < slowestMost && r.took[pkg] > time.Second:
			fmt.Fprintf(r.out, "took %v: %s\n", r.took[pkg].Round(time.Second), name)
		}
	}
	return over
}

// slower returns how much longer than its budget the package in the middle took, 1 at least. Only packages that the
// budget names count, because the others are far below what they may take.
func (r *report) slower(budget map[string]time.Duration) float64 {
	var ratios []float64
	for pkg, took := range r.took {
		if allowed, ok := budget[pkg]; ok {
			ratios = append(ratios, took.Seconds()/allowed.Seconds())
		}
	}
	if len(ratios) < middleFrom {
		return 1
	}
	slices.Sort(ratios)
	return max(1, ratios[len(ratios)/2])
}
