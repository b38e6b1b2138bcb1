package plan

import (
	"slices"
	"testing"
	"time"
)

func TestEveryWorkHasPawlAPeerAndASize(t *testing.T) {
	for _, s := range []Scale{Quick, Full} {
		seen := map[string]bool{}
		for _, w := range Works(s) {
			id := w.Suite + "/" + w.Name
			if seen[id] {
				t.Errorf("%s: %s is there twice", s, id)
			}
			seen[id] = true
			if !slices.ContainsFunc(w.Arms, IsPawl) || !slices.ContainsFunc(w.Arms,
				func(arm string) bool { return !IsPawl(arm) }) {
				t.Errorf("%s: %s compares %v", s, id, w.Arms)
			}
			sized := w.N > 0
			switch w.Kind {
			case Steady:
				sized = w.Rate > 0 && w.For > SteadyWarmUp
			case Drill:
				sized = w.Rate > 0 && w.For >= DrillSlices*time.Second
			case Hold:
				sized = w.Depth > 0 && w.For >= Slice && w.For%Slice == 0
			case Paced:
				sized = w.Rate > 0 && w.For > PacedWarmUp
			case Consume:
				sized = w.N > 0 && w.Keys > 0
			case Append, Burn, Lone:
			}
			if !sized {
				t.Errorf("%s: %s has no size: %+v", s, id, w)
			}
		}
	}
}

func TestFindSizesABurnByArm(t *testing.T) {
	for arm, want := range map[string]int{River: 100_000, RiverDefaults: defaultsBurn[RiverDefaults]} {
		if w, err := Find(Full, Postgres, "burn", arm); err != nil || w.N != want {
			t.Errorf("Find(%s) = %d, %v; want %d", arm, w.N, err, want)
		}
	}
	if _, err := Find(Quick, Postgres, "burn", RiverDefaults); err == nil {
		t.Error("quick burns River with defaults")
	}
}

// Every arm that would take minutes reads a shorter topic; all topics are written.
func TestSizesAreThoseOfTheArms(t *testing.T) {
	for _, w := range Works(Full) {
		if w.Kind != Consume {
			continue
		}
		for _, arm := range w.Arms {
			found, err := Find(Full, Kafka, w.Name, arm)
			if err != nil || !slices.Contains(w.Sizes(""), found.N) || !slices.Equal(w.Sizes(arm), []int{found.N}) {
				t.Errorf("%s of %s reads %d of %v, %v", arm, w.Name, found.N, w.Sizes(""), err)
			}
			if perSecond := 12_000.0; arm == PerPartition && w.Takes > 0 &&
				float64(found.N) > 60*perSecond*float64(w.Takes.Milliseconds()) {
				t.Errorf("%s of %s takes more than a minute with %d records", arm, w.Name, found.N)
			}
		}
	}
}
