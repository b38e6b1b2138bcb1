package operate

import "time"

// pace spreads work evenly. What was missed is made up for within a quarter of a
// second, and no more: there are no bursts.
type pace struct {
	perSecond float64
	due       time.Time
}

// next is when n more may be done.
func (p *pace) next(now time.Time, n int) time.Time {
	if p.perSecond <= 0 {
		return now
	}
	if p.due.IsZero() {
		p.due = now
	} else if floor := now.Add(-time.Second / 4); p.due.Before(floor) {
		p.due = floor
	}
	p.due = p.due.Add(time.Duration(float64(n) / p.perSecond * float64(time.Second)))
	return p.due
}
