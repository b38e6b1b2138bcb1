package sqlite

// clockSlack is how precisely the file knows the latest time, in microseconds.
const clockSlack = 1_000_000

// sooner moves the ends of durations by as much as the clock was set back.
var sooner = []string{
	`UPDATE pawl_closed SET at = at - ?1`,
	`UPDATE pawl_lease SET until = until - ?1, hard = hard - ?1, started = started - ?1`,
	`UPDATE pawl_mark SET until = until - ?1 WHERE until IS NOT NULL`, // permits of [Store.Reserve], too
	`UPDATE pawl_uniq SET until = until - ?1 WHERE until > 0 AND until < 0x7fffffffffffffff`,
	`UPDATE pawl_topic SET paused_since = paused_since - ?1, paused_until = paused_until - ?1 WHERE paused_until > 0`,
}

// setBack reports whether the clock is behind the latest time at which something was written.
func (k *work) setBack() bool { return k.state.clock-k.now > clockSlack }

// followClock keeps leases, retries, holds, pauses, unique keys, marks and permits from lasting longer by as much as
// the clock was set back. It is for transactions that write.
func (k *work) followClock() error {
	if !k.setBack() {
		return nil
	}
	if err := k.execAll(sooner, k.state.clock-k.now); err != nil {
		return err
	}
	k.state.settings++ // of pauses
	if err := k.topics.load(k.db, k.state.settings); err != nil {
		return err
	}
	k.state.clock, k.state.closedDue, k.state.leaseDue = k.now, k.now, k.now // bounds that are too early cost a look
	return nil
}
