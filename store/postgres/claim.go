package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

// claimer leases messages: those that run beside others, and those that are carried out alone.
type claimer struct {
	*core
	listener *listener
	upkeep   *upkeep
	registry *registry
	settler  *settler
	floors   *floors
}

// claiming is the claim of one topic under way.
type claiming struct {
	topic *topic
	want  store.Want
	terms store.Lease
	fence int64

	before  int  // messages that the call has got so far
	beyond  int  // tickets to ask for besides, because so many stayed in the round before
	ask     int  // tickets to take
	again   bool // lanes were given up that may be claimed at once
	full    bool // the bound on bytes is reached
	suspect bool // there is one
	aim     aim
	room    *int  // what suspects may weigh that the call still takes
	early   []run // suspects that go before the others
	there   bool  // the topic is there and not paused
	version int64
	at      int64 // the server's time
	taken   int64 // tickets
	stayed  int64 // tickets that were picked and left, because the lease of their lane is locked
	known   int   // what was known of tickets that stayed, when it was sent

	priorities int     // that the topic has seen
	tops       []top   // the highest rank taken of each band
	left       []top   // the lowest rank that stayed of each band
	lanes      []int64 // what the claim holds
	heads      []head  // their messages, lane by lane
	arena      []byte  // their bytes
}

type top struct{ band, rank, seq int64 }

// short reports whether there were fewer tickets than asked for.
func (c *claiming) short() bool { return c.taken+c.stayed < int64(c.ask) }

// head is one of the first messages of a lane.
type head struct {
	lane, seq, rank int64
	replays         int
	attempts        int
	rescues         int
	seen            bool  // it was given out before
	late            bool  // others have come in before what was given out of its lane
	upto            int64 // the last that was given out of its lane
	called          bool  // the message whose ticket was taken for the lane is there
	cut             bool  // its body did not travel
	first, last     int64 // the run as it is written down
	topic           int32
	d               pawl.Delivery
}

// Claim implements [store.Store].
func (s *claimer) Claim(ctx context.Context, wants []store.Want, terms store.Lease) ([]pawl.Delivery, error) {
	if err := backend.AdmitClaim(wants, terms); err != nil {
		return nil, err
	}
	ctx, done, err := s.enter(ctx, "claim")
	if err != nil {
		return nil, err
	}
	defer done()
	if err := s.upkeep.sweepIfDue(ctx); err != nil {
		return nil, s.fail("claim", err)
	}
	cs, err := s.claimings(ctx, wants, terms)
	if err != nil || len(cs) == 0 {
		return nil, s.fail("claim", err)
	}
	if all, ds, err := s.first(ctx, cs); all {
		return ds, s.fail("claim", err)
	}
	ds, err := s.claimAll(ctx, cs)
	if err == nil && len(ds) == 0 {
		for _, c := range cs { // what seemed better than a suspect was not there
			runs, failed := s.claimSuspects(ctx, c)
			ds, err = deliveries(ds, runs), cmp.Or(err, failed)
		}
	}
	if len(ds) > 0 {
		err = nil
	}
	return ds, s.fail("claim", err)
}

// claimings returns the claims of wanted topics that are there.
func (s *claimer) claimings(ctx context.Context, wants []store.Want, terms store.Lease) (cs []*claiming, err error) {
	room := terms.Suspects
	for _, w := range wants {
		if w.Limit == 0 {
			continue
		}
		t, err := s.registry.known(ctx, w.Topic)
		if err != nil {
			return nil, err
		}
		if t == nil {
			continue
		}
		if w.Run == 0 {
			w.Run = store.DefaultRun
		}
		cs = append(cs, &claiming{topic: t, want: w, terms: terms, fence: sqlstore.NewFence(), room: &room})
	}
	return cs, nil
}

// claimAll claims topic by topic, each in a transaction of its own, all in one round trip.
// Claimed messages are given out even if another topic failed: no other process could have them
// until the lease ends.
func (s *claimer) claimAll(ctx context.Context, cs []*claiming) (ds []pawl.Delivery, err error) {
	wanting := slices.DeleteFunc(slices.Clone(cs), func(c *claiming) bool { return c.want.Limit <= 0 })
	var errs []error
	if len(wanting) > 0 {
		errs = s.sendClaims(ctx, wanting)
	}
	for i, c := range wanting {
		runs, failed := []run(nil), errs[i]
		if failed == nil {
			s.upkeep.sweeper.sawSuspect(c.topic.id, c.suspect)
			runs, failed = s.finish(ctx, c)
		} else {
			s.lost(c, failed)
		}
		if failed == nil {
			runs, failed = s.claimMore(ctx, c, runs)
		}
		if failed != nil {
			err = failed
		}
		c.early = append(c.early, runs...)
	}
	for _, c := range cs {
		ds = deliveries(ds, c.early)
	}
	if len(ds) > 0 {
		return ds, nil
	}
	return nil, s.fail("claim", err)
}

// lost is for a claim that could not be sent, or was not answered. Others may have passed over
// the rows that it had locked: the next claims look everywhere.
func (s *claimer) lost(c *claiming, err error) {
	if !isServer(err) {
		s.upkeep.tracker.orphan(c.fence)
	}
	s.floors.drop(c.topic.id)
}

// sendClaims sends the two statements of each claim, which take and which read; an error for
// each. A claim that the server rolled back is sent again if it is the only one. A claim that
// was taken and could not be read is given up.
func (s *claimer) sendClaims(ctx context.Context, cs []*claiming) (errs []error) {
	groups := make([]group, 0, 2*len(cs))
	for _, c := range cs {
		groups = append(groups, s.hot(group{c.take(s)}), s.hot(group{c.readLanes(s)}))
	}
	err := s.again(ctx, func() error {
		conn, err := acquire(ctx, s.back)
		if err != nil {
			return err
		}
		defer conn.Release()
		all := s.send(ctx, conn.Conn().PgConn(), groups...)
		taken := false
		errs = make([]error, len(cs))
		for i, c := range cs {
			errs[i], taken = all[2*i], taken || all[2*i] == nil
			if errs[i] == nil && all[2*i+1] != nil { // taken, and not to be read
				errs[i] = all[2*i+1]
				s.upkeep.tracker.orphan(c.fence)
			}
		}
		if !taken && (len(errs) == 1 || !isServer(errs[0])) {
			return errs[0] // nothing was claimed if it was never sent
		}
		return nil
	})
	if errs == nil {
		errs = slices.Repeat([]error{err}, len(cs))
	}
	return errs
}

// moreRounds is how often a claim goes on when it got something.
const moreRounds = 4

// claimMore goes on while a claim got less than it wanted although there were enough tickets:
// several of them were for one lane, or for a busy one.
func (s *claimer) claimMore(ctx context.Context, c *claiming, runs []run) ([]run, error) {
	for round := 0; ; round++ {
		given, bytes := 0, 0
		for i := range runs {
			for j := range runs[i].heads[:runs[i].give] {
				given, bytes = given+1, bytes+runs[i].heads[j].d.Size()
			}
		}
		rest := c.want.Limit - given
		if !c.there || c.full || c.short() && !c.again || rest <= 0 ||
			c.want.MaxBytes > 0 && bytes >= c.want.MaxBytes ||
			given > 0 && round >= moreRounds || ctx.Err() != nil {
			return runs, nil
		}
		if given == 0 && c.stayed == 0 {
			if err := s.dropBusy(ctx, c); err != nil {
				return runs, err
			}
		}
		more := &claiming{topic: c.topic, want: c.want, terms: c.terms, fence: sqlstore.NewFence(),
			before: c.before + given, beyond: int(2 * c.stayed), room: c.room}
		more.want.Limit = rest
		if c.want.MaxBytes > 0 {
			more.want.MaxBytes -= bytes
		}
		if err := s.sendClaims(ctx, []*claiming{more})[0]; err != nil {
			s.lost(more, err)
			return runs, err
		}
		got, err := s.finish(ctx, more)
		if err != nil {
			return runs, err
		}
		runs = append(runs, got...)
		c.topic, c.there, c.full, c.again = more.topic, more.there, more.full, more.again
		c.taken, c.stayed, c.ask = more.taken, more.stayed, more.ask
	}
}

// dropBusy drops tickets for lanes that are busy, many at a time.
func (s *claimer) dropBusy(ctx context.Context, c *claiming) error {
	const most = 2000
	for dropped := int64(most); dropped >= most/2; {
		err := s.call(ctx, s.back, read(dropBusy, set(&dropped, row.int8), int4Value(c.topic.id), int8Value(most)))
		if err != nil {
			return err
		}
	}
	return nil
}

// deliveries adds the messages of runs that are given out, lanes by rank.
func deliveries(ds []pawl.Delivery, runs []run) []pawl.Delivery {
	slices.SortStableFunc(runs, byRank)
	for _, r := range runs {
		for i := range r.heads[:r.give] {
			ds = append(ds, r.heads[i].d)
		}
	}
	return ds
}

// args are the parameters 2 to 7 of the statement that takes tickets.
func (c *claiming) args(s *claimer) [][]byte {
	return [][]byte{
		int8Value(int64(c.ask)), int8Value(c.fence), int8Value(micros(c.terms.For)), textValue(c.terms.Owner),
		boolValue(c.aim == alone), s.skewValue(),
	}
}

// take takes tickets and writes down the claim.
func (c *claiming) take(s *claimer) step {
	var bands, ranks []int64
	if !s.exact {
		bands, ranks, c.known = s.floors.of(c.topic)
	}
	c.ask = s.floors.tickets(c.topic, c.want) + c.beyond
	args := append([][]byte{int4Value(c.topic.id)}, c.args(s)...)
	take := takeTickets
	if s.floors.onePriority(c.topic.id) {
		take = takeOnePriority
	}
	return read(take, c.header, append(args, int8Array(bands), int8Array(ranks))...)
}

// header reads the result of the first statement of a claim.
func (c *claiming) header(r row) error {
	if r.int8(0) == 0 {
		c.there, c.version, c.suspect, c.lanes, c.priorities = true, r.int8(1), r.int8(2) > 0, r.int8s(3),
			int(r.int8(4))
		c.at = r.micros(5)
		c.taken, c.stayed, c.tops, c.left, c.heads, c.arena = 0, 0, nil, nil, nil, nil
		return nil
	}
	if n := r.int8(2); n <= 0 { // 0: picked in its band, and not among the best of all
		c.stayed -= n
		c.left = append(c.left, top{band: r.int8(0), rank: r.int8(1)})
		return nil
	}
	c.taken += r.int8(2)
	c.tops = append(c.tops, top{r.int8(0), r.int8(1), r.int8(4)})
	return nil
}

func (c *claiming) readLanes(s *claimer) step {
	args := [][]byte{int8Value(c.fence), int8Value(int64(c.want.Limit)), int8Value(int64(c.want.Run))}
	if c.want.MaxBytes == 0 {
		return read(readLanes, c.row, args...)
	}
	return read(readWithin, c.row, append(args, int8Value(int64(c.want.MaxBytes)))...)
}
