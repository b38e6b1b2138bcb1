package dispatch

import (
	"math"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// runner carries out what was claimed, and judges what became of it.
type runner struct {
	*engine
	events   *events
	throttle *throttle
	settler  *settler
	fallback policy.Policy // when the policy fails
}

// run is consecutive messages of one lane under one lease. Everything in it is
// guarded by Dispatcher.mu, but the deliveries: they belong to the worker.
//
// Times are durations since Dispatcher.began, on the monotonic clock.
type run struct {
	topic *topic
	claim *claim
	ds    []pawl.Delivery
	at    int // index of the next message, or of the one being carried out
	left  int // messages whose settlement the store has not confirmed
	bytes int
	// weight is what it counts as a suspect.
	weight int
	rank   int64
	state  state
	until  time.Duration // when the lease ends, as far as we may trust it
	hard   time.Duration // when the handler's context ends
	last   time.Duration // the store's hard deadline
	call   *call         // set while running
	// A settle must not overtake another one of the same lane: while verdicts are on
	// their way, what follows waits here.
	settling int
	pending  []entry
	lost     bool // its lease is; nothing can be settled any more
	shut     bool // its lane is closed in this process, until the handler returns
	keyed    bool
	tail     bool     // a retry leaves it open, as an ack does
	key      string   // of one with tail
	keys     []string // of its limits, for the message before keysOf
	keysOf   int
	critical bool // of the highest priority: may use reserved slots
	surplus  bool // given back because of what a probe brought
	limited  bool // a limit kept it from beginning once
	full     bool // its lane may have more: it is as long as was asked for
}

// state is where a run is.
type state uint8

const (
	aside   state = iota // in no queue: just claimed
	waiting              // in its topic's queue
	running              // in a worker's hands
	over                 // nothing of it is started or recorded any more
)

// claim is the runs that came with one call, for whoever looks after leases.
type claim struct {
	runs  []run
	live  int           // runs with something left
	pos   int           // in Dispatcher.claims
	sent  time.Duration // when the claim was sent: from then on leases count
	lease time.Duration // how long leases are given for and extended by
	beat  time.Duration // when to extend next
	check time.Duration // when something in it may be due
}

const never = time.Duration(math.MaxInt64)

// margins are how much earlier than the store we consider a lease, or the hard
// deadline, ended: there must be time to stop the handler and to settle.
func leaseMargin(lease time.Duration) time.Duration   { return min(lease/10, time.Second) }
func deadlineMargin(hard time.Duration) time.Duration { return min(hard/5, 5*time.Second) }

// force is when a handler whose context has ended at the deadline is given up: half-way
// to the store's hard deadline.
func (r *run) force() time.Duration { return r.hard + (r.last-r.hard)/2 }

// leased is until when a lease may be trusted that was given or extended for
// that long, by a call that was sent then. One that the hard deadline bounds
// lasts until after the handler is given up: there must be a lease to settle
// that with.
func (r *run) leased(sent, lease time.Duration) time.Duration {
	last := r.last - (r.last-r.hard)/4
	if sent+lease >= r.last {
		return last
	}
	return min(sent+lease-leaseMargin(lease), last)
}

// goesOn reports whether the run goes on in the store after a settlement that has no hold.
func (r *run) goesOn(st *store.Settlement) bool {
	return st.Verdict == store.Ack || st.Verdict == store.Retry && r.tail
}

// tie decides between equal ranks: the order in the store.
func (r *run) tie() int64 { return r.ds[r.at].Token.Seq }

// before reports whether r goes before o in its topic.
func (r *run) before(o *run) bool { return r.rank < o.rank || r.rank == o.rank && r.tie() < o.tie() }

// indexOf returns which message of the run a token is of, -1 if none. Nothing else of
// a message is read: a handler that was given up may still write to it.
func (r *run) indexOf(t pawl.Token) int {
	for i := range r.ds {
		if r.ds[i].Token == t {
			return i
		}
	}
	return -1
}

func (r *run) current() *pawl.Delivery { return &r.ds[r.at] }

// token identifies the run as a whole: its last message is settled last.
func (r *run) token() pawl.Token { return r.ds[len(r.ds)-1].Token }

// lane identifies a lane in this process.
type lane struct {
	topic *topic
	id    int64
	key   string
}

// lane goes by the key where a retry leaves the lane: a store may give it another number
// when it was empty meanwhile.
func (r *run) lane() lane {
	if r.tail {
		return lane{topic: r.topic, key: r.key}
	}
	return lane{topic: r.topic, id: r.ds[0].Token.Lane}
}

// usable reports whether there is time enough to start a message: within the
// lease, and with at least half of the time that its deadline grants.
func (r *run) usable(now time.Duration) bool {
	return now < r.until && now < r.last-(r.ds[0].Deadline)/2
}

// makeRuns cuts what a claim brought into runs.
func (d *runner) makeRuns(ds []pawl.Delivery, sent, lease time.Duration) *claim {
	n := 0
	for i := range ds {
		if i == 0 || !sameRun(&ds[i-1], &ds[i]) {
			n++
		}
	}
	c := &claim{runs: make([]run, 0, n), live: n, sent: sent, lease: lease, beat: sent + lease/3, check: never}
	for i := 0; i < len(ds); {
		end := i + 1
		for end < len(ds) && sameRun(&ds[i], &ds[end]) {
			end++
		}
		r := d.makeRun(ds[i:end:end], sent)
		r.claim = c
		c.check = min(c.check, r.until, r.hard, sent+stale)
		c.runs = append(c.runs, r)
		i = end
	}
	return c
}

func sameRun(a, b *pawl.Delivery) bool {
	return a.Token.Lane == b.Token.Lane && a.Token.Fence == b.Token.Fence && a.Topic == b.Topic
}

func (d *runner) makeRun(ds []pawl.Delivery, sent time.Duration) run {
	first := &ds[0]
	t := d.byName[first.Topic]
	r := run{
		topic: t, ds: ds, left: len(ds), rank: rankOf(t, first), critical: first.Priority == pawl.MaxPriority,
		keyed: first.Key != nil, tail: first.Tail,
		hard: sent + first.Deadline - deadlineMargin(first.Deadline),
		last: sent + first.Deadline, weight: store.Weight(first.Rescues),
	}
	if r.tail {
		r.key = string(first.Key)
	}
	r.until = r.leased(sent, first.LeaseFor)
	for i := range ds {
		r.bytes += ds[i].Size()
	}
	return r
}

// rankOf is the rank of a message, as the store has it, but for what a replay
// or a change of the ageing did: it compares times of the store's clock only.
func rankOf(t *topic, d *pawl.Delivery) int64 {
	return d.EnqueuedAt.Add(d.Delay).UnixMicro() + store.ToCap(d.Priority, t.ageing)
}
