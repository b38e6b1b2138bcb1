package backend

import (
	"cmp"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// AdmitPaces checks a Reserve, and fills in defaults.
func AdmitPaces(paces []store.Pace) ([]store.Pace, error) {
	if len(paces) > store.MaxBatch {
		return nil, tooLarge("reserve", "%d keys; the limit is %d", len(paces), store.MaxBatch)
	}
	all, seen := make([]store.Pace, len(paces)), make(map[string]bool, len(paces))
	for i, p := range paces {
		p.Burst = cmp.Or(p.Burst, 1)
		if err := validatePace(&p); err != nil {
			return nil, err
		}
		if seen[p.Key] {
			return nil, pawl.Invalid("pace key", "%.80q is twice in one call", p.Key)
		}
		all[i], seen[p.Key] = p, true
	}
	return all, nil
}

func validatePace(p *store.Pace) error {
	switch {
	case p.Key == "" || len(p.Key) > pawl.MaxKey:
		return pawl.Invalid("pace key", "is %d bytes long; it has 1 to %d", len(p.Key), pawl.MaxKey)
	case p.Every <= 0 || p.Burst < 1 || p.Every > pawl.MaxDelay/time.Duration(p.Burst):
		return pawl.Invalid("pace", "of %v with a burst of %d; a burst is at least 1 and takes up to %v", p.Every,
			p.Burst, pawl.MaxDelay)
	case p.N < 0 || p.N > p.Burst || p.Within < 0 || p.Within > pawl.MaxDelay || p.Hold < 0 || p.Hold > pawl.MaxDelay:
		return pawl.Invalid("pace", "asks for %d of a burst of %d within %v, or a hold of %v", p.N, p.Burst, p.Within,
			p.Hold)
	case (p.N > 0) == (p.Hold > 0):
		return pawl.Invalid("pace", "asks for %d permits and a hold of %v; ask for one of them", p.N, p.Hold)
	}
	return nil
}
