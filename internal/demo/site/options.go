package site

import (
	"errors"
	"fmt"
)

// DefaultPages is the number of pages the demo serves unless told otherwise.
const DefaultPages = 3000

// Options says how large a site is and what is wrong with it.
type Options struct {
	// Pages is how many pages the site has, at least 1.
	Pages int
	// Seed decides what the pages say, where they link to and which of them have which fault. Equal seeds, equal sites.
	Seed uint64
	// Faults says how many pages have faults; the zero value is none.
	// [DefaultFaults] is what the demo uses.
	Faults FaultRates
}

// FaultRates says how many pages have which fault. The first five are shares
// of all pages, from 0 to 1, rounded up, with a sum of at most 1: a page has
// faults of one kind only. The index has none.
type FaultRates struct {
	// Throttled pages answer 429 to their first one or two requests, with a
	// Retry-After of one second or a date one to two seconds ahead.
	Throttled float64
	// Erroring pages answer 503 or 500 to their first one or two requests.
	Erroring float64
	// Slow pages take 300 to 800 ms for the first byte of their first answer.
	Slow float64
	// Reset pages have their first connection reset in the middle of the body.
	Reset float64
	// Truncated pages end their first body before its Content-Length.
	Truncated float64
	// Broken is the number of pages that no parser can read, ever.
	Broken int
	// Failing is the number of pages that always answer 500.
	Failing int
}

// DefaultFaults returns the rates of the demo: every kind of fault occurs, and
// a polite crawl of [DefaultPages] pages still ends well within a minute. What
// costs time is the 429: a crawler that pauses the whole host for each of them
// stands still for a second or two, so that there are few.
func DefaultFaults() FaultRates {
	return FaultRates{
		Throttled: 0.002, Erroring: 0.01, Slow: 0.005, Reset: 0.005, Truncated: 0.005,
		Broken: 3, Failing: 2,
	}
}

func (o Options) validate() error {
	var errs []error
	if o.Pages < 1 {
		errs = append(errs, fmt.Errorf("pages: %d, want at least 1", o.Pages))
	}
	f := o.Faults
	sum := 0.0
	for _, share := range []struct {
		name string
		of   float64
	}{
		{"throttled", f.Throttled}, {"erroring", f.Erroring}, {"slow", f.Slow},
		{"reset", f.Reset}, {"truncated", f.Truncated},
	} {
		if !(share.of >= 0 && share.of <= 1) { // refuses NaN, too
			errs = append(errs, fmt.Errorf("faults: %s is %v, want a share from 0 to 1", share.name, share.of))
		}
		sum += share.of
	}
	if sum > 1 {
		errs = append(errs, fmt.Errorf("faults: the shares add up to %v, want at most 1", sum))
	}
	if f.Broken < 0 || f.Failing < 0 {
		errs = append(errs, fmt.Errorf("faults: broken is %d and failing is %d, want no negative number", f.Broken,
			f.Failing))
	}
	return errors.Join(errs...)
}
