package sqlite

// clockSlack is how precisely the file knows the latest time, in microseconds.
const clockSlack = 1_000_000

// sooner moves the ends of durations by as much as the clock was set back.
var sooner = []string{
	`UPDATE pawl_closed SET at = at - ?1`,
	`UPDATE pawl_lease SET until = until - ?1, hard = hard - ?1, started = started - ?1`,
	`UPDATE pawl_mark SET until = until - ?1 WHERE scope = x''`, // permits of [Store.Reserve]
}

// setBack reports whether the clock is behind the latest time at which something was written.
func (k *work) setBack() bool { return k.state.clock-k.now > clockSlack }

// followClock keeps leases, retries, holds and permits from lasting longer by as much as
// the clock was set back. It is for transactions that write.
func (k *work) followClock() error {
	if !k.setBack() {
		return nil
	}
	if err := k.execAll(sooner, k.state.clock-k.now); err != nil {
		return err
	}
	k.state.clock, k.state.closedDue, k.state.leaseDue = k.now, k.now, k.now // bounds that are too early cost a look
	return nil
}
