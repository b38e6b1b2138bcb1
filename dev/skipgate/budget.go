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

// judgeTimes prints the slowest packages, and returns how many took more than one and a half times their budget.
func (r *report) judgeTimes(budget map[string]time.Duration) (over int) {
	slowest := slices.SortedFunc(maps.Keys(r.took), func(a, b string) int { return cmp.Compare(r.took[b], r.took[a]) })
	for i, pkg := range slowest {
		allowed := cmp.Or(budget[pkg], usualBudget)
		switch name := strings.TrimPrefix(pkg, module); {
		case r.took[pkg] > allowed+allowed/2:
			over++
			fmt.Fprintf(r.out, "SLOW: %s took %v; its budget in dev/skipgate/budget.txt is %v: make its tests cheaper\n",
				name, r.took[pkg].Round(time.Second), allowed)
		case i < slowestMost && r.took[pkg] > time.Second:
			fmt.Fprintf(r.out, "took %v: %s\n", r.took[pkg].Round(time.Second), name)
		}
	}
	return over
}
