package storetest

import (
	"slices"
	"time"
)

// shrink leaves out steps for as long as something still fails, and for at most
// half a minute.
func shrink(steps []step, failed *randomFailure, try func([]step) *randomFailure) *randomFailure {
	end := time.Now().Add(30 * time.Second)
	for size := len(steps) / 2; size > 0; {
		smaller := false
		for at := 0; at < len(steps) && time.Now().Before(end); {
			fewer := slices.Concat(steps[:at], steps[min(at+size, len(steps)):])
			if f := try(fewer); f != nil {
				steps, failed, smaller = fewer, f, true
			} else {
				at += size
			}
		}
		if !smaller || size > 1 {
			size /= 2
		}
	}
	return failed
}
