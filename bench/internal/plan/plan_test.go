package plan

import (
	"slices"
	"testing"
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
			if !slices.Contains(w.Arms, Pawl) || len(w.Arms) < 2 {
				t.Errorf("%s: %s compares %v", s, id, w.Arms)
			}
			sized := w.N > 0
			switch w.Kind {
			case Steady:
				sized = w.Rate > 0 && w.For > SteadyWarmUp
			case Hold:
				sized = w.Depth > 0 && w.For >= Slice && w.For%Slice == 0
			case Append, Burn, Lone:
			}
			if !sized {
				t.Errorf("%s: %s has no size: %+v", s, id, w)
			}
		}
	}
}

func TestFindSizesABurnByArm(t *testing.T) {
	for arm, want := range map[string]int{River: fullBurn, RiverDefaults: riverDefaultsBurn} {
		if w, err := Find(Full, Postgres, "burn", arm); err != nil || w.N != want {
			t.Errorf("Find(%s) = %d, %v; want %d", arm, w.N, err, want)
		}
	}
	if _, err := Find(Quick, Postgres, "burn", RiverDefaults); err == nil {
		t.Error("quick burns River with defaults")
	}
}
