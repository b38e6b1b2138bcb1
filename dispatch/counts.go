package dispatch

import (
	"errors"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// counts are how the deliveries of a topic ended. They are guarded by
// Dispatcher.mu.
type counts struct {
	acked, retried, dead, released, lost, invalid int64
	// untold are those of lost that this process detected itself and has not yet
	// reported to the observer.
	untold int
	// seconds holds how many ended in each of the last seconds.
	seconds [window + 1]second
}

type second struct {
	at int64
	n  int64
}

// window is how many seconds a rate looks back.
const window = 10

func (c *counts) count(st *store.Settlement, o *outcome, now time.Duration) {
	switch st.Verdict {
	case store.Ack:
		c.acked++
	case store.Retry:
		c.retried++
	case store.Dead:
		c.dead++
	case store.Release:
		c.released += int64(o.n)
		return
	}
	at := int64(now / time.Second)
	s := &c.seconds[at%int64(len(c.seconds))]
	if s.at != at {
		*s = second{at: at}
	}
	s.n++
}

func (c *counts) refuse(err error, n int) {
	if errors.Is(err, pawl.ErrLeaseLost) {
		c.lost += int64(n)
	} else {
		c.invalid += int64(n)
	}
}

// rate is how many deliveries a second ended lately: in the last full seconds,
// fewer at the start.
func (c *counts) rate(now time.Duration) float64 {
	at := int64(now / time.Second)
	full := min(at, window)
	if full == 0 {
		return 0
	}
	var n int64
	for _, s := range c.seconds {
		if s.at >= at-full && s.at < at {
			n += s.n
		}
	}
	return float64(n) / float64(full)
}

// sums gathers, for the observer, what a batch came to.
type sums map[*topic]*topicSums

type topicSums struct {
	ran     []time.Duration
	keys    [][]byte // of ran
	done    []time.Duration
	verdict [store.Release + 1]int
	lost    int
	invalid int
}

func (s sums) add(o *outcome, st *store.Settlement, err error, now time.Duration) {
	t := s[o.run.topic]
	if t == nil {
		t = &topicSums{}
		s[o.run.topic] = t
	}
	if o.ran >= 0 {
		t.ran = append(t.ran, o.ran)
		var key []byte // all of a run have the same
		if !o.given {
			key = o.run.ds[0].Key
		}
		t.keys = append(t.keys, key)
	}
	switch {
	case err == nil:
		t.verdict[st.Verdict]++
		if st.Verdict == store.Ack && o.waited >= 0 {
			t.done = append(t.done, o.waited+now-o.run.claim.sent)
		}
	case errors.Is(err, pawl.ErrLeaseLost):
		t.lost += o.n
	default:
		t.invalid += o.n
	}
}

func (s sums) report(o Observer) {
	keyed, _ := o.(KeyObserver)
	for t, sum := range s {
		if len(sum.ran) > 0 {
			o.Ran(t.Name, sum.ran)
			if keyed != nil {
				keyed.RanKeys(t.Name, sum.keys, sum.ran)
			}
		}
		for v, n := range sum.verdict {
			if n == 0 {
				continue
			}
			done := sum.done
			if store.Verdict(v) != store.Ack {
				done = nil
			}
			o.Settled(t.Name, store.Verdict(v).String(), n, done)
		}
		if sum.lost > 0 {
			o.Refused(t.Name, "lease_lost", sum.lost)
		}
		if sum.invalid > 0 {
			o.Refused(t.Name, "invalid", sum.invalid)
		}
	}
}
