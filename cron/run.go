package cron

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// One process of all that share a store fires. Leadership is a lease in an entry of the state; the leader relies
// on it for a shorter time than the others wait. A leader that lost it without noticing does no harm: a tick is
// admitted once by its unique key, and a record is written only over the version that was read.
const (
	lateFor   = 10 * time.Second // a tick that is no older is late, not missed
	leadFor   = 7 * time.Second  // after which others take over: soon enough for what was due meanwhile
	leadTrust = 5 * time.Second
	leadRenew = 2 * time.Second
	look      = time.Second      // between looks at the lease, and at what was written
	idle      = 2 * look         // between looks while there is no schedule
	anew      = 30 * time.Second // after which all is read, whatever was heard
)

// leader is the entry.
type leader struct {
	Owner string `json:"owner"` // empty: no process leads
	Until int64  `json:"until"` // Unix milliseconds, by the store's clock
	Seen  int64  `json:"seen"`  // the last sign of a leader
}

// rival is the lease of another process, and since when it has not been renewed, by this process's clock: that of the
// store may go back.
type rival struct {
	version int64
	since   time.Time
}

// term is the time in which this process leads.
type term struct {
	*Scheduler
	version  int64     // of the entry
	renewed  time.Time // by this process's clock
	clock    time.Time // by the store's, then
	from, to time.Time // when no process ran, before it
	since    time.Time // when it began to lead
	all      map[string]*live
	after    int64     // the newest version in all
	read     time.Time // when all was read
	quiet    time.Time // until when there is nothing to do, unless something is written
}

// Run takes part in the election until ctx ends, and fires while it leads.
func (s *Scheduler) Run(ctx context.Context) {
	var other rival
	for {
		r := &term{Scheduler: s}
		if s.began.Load() == 0 {
			_, _ = s.present(ctx) // what fails, fails again below
		}
		exist, err := s.any(ctx)
		ok, wait := false, look
		if exist {
			ok, err = r.campaign(ctx, &other)
		} else {
			wait = idle
		}
		if err != nil && ctx.Err() == nil {
			s.Logger.Warn("schedules: no leader could be elected", "error", err)
		}
		if ok {
			s.Logger.Info("schedules: this process fires from now on", "owner", s.Owner)
			r.lead(ctx)
		}
		if store.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// any reports whether there are schedules, or were: without one nobody has to lead.
func (s *Scheduler) any(ctx context.Context) (bool, error) {
	for _, err := range s.entries.ListState(ctx, setPrefix, 0) {
		return err == nil, err
	}
	return false, nil
}

// campaign takes the lease if it is free.
func (r *term) campaign(ctx context.Context, other *rival) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, leadRenew)
	defer cancel()
	now, err := r.present(ctx)
	if err != nil {
		return false, err
	}
	e, err := r.entries.GetState(ctx, leaderKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	var before leader
	_ = json.Unmarshal(e.Value, &before) // what cannot be read leads nobody
	sign, err := r.entries.GetState(ctx, standbyKey)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	if e.Version != other.version {
		*other = rival{e.Version, time.Now()}
	}
	if before.Owner != "" && now.UnixMilli() < before.Until && time.Since(other.since) < leadFor {
		if now.Sub(sign.At) >= leadRenew {
			_, err = r.entries.PutState(ctx, standbyKey, nil, store.AnyVersion, r.Owner)
			return false, err
		}
		return false, nil
	}
	r.version, r.from, r.to = e.Version, time.UnixMilli(before.Seen), time.UnixMilli(r.began.Load())
	if sign.Version > 0 && sign.At.After(r.from) {
		r.from = sign.At
	}
	r.since = now
	err = r.renew(ctx, r.Owner)
	if errors.Is(err, store.ErrConflict) {
		return false, nil
	}
	return err == nil, err
}

// renew makes the lease longer; without an owner it gives it up.
func (r *term) renew(ctx context.Context, owner string) error {
	here := time.Now()
	now, err := r.entries.Clock(ctx)
	if err != nil {
		return err
	}
	text, err := json.Marshal(leader{owner, now.Add(leadFor).UnixMilli(), now.UnixMilli()})
	if err != nil {
		return err
	}
	e, err := r.entries.PutState(ctx, leaderKey, text, r.version, r.Owner)
	if err == nil {
		r.version, r.renewed, r.clock = e.Version, here, now
	}
	return err
}

// now is the store's time.
func (r *term) now() time.Time { return r.clock.Add(time.Since(r.renewed)) }

// lead fires until ctx ends or the lease is lost.
func (r *term) lead(ctx context.Context) {
	defer func() {
		r.pending.Store(0)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leadRenew)
		defer cancel()
		_ = r.renew(ctx, "") // else the lease runs out
	}()
	for {
		if err := r.keep(ctx); err != nil {
			r.Logger.Warn("schedules: this process no longer fires", "error", err)
			return
		}
		wait := look
		if err := r.pass(ctx, &wait); err != nil && ctx.Err() == nil {
			r.Logger.Warn("schedules: a pass failed and is repeated", "error", err)
		}
		if store.Sleep(ctx, max(wait, time.Millisecond)) != nil {
			return
		}
	}
}

// keep renews the lease when it is time, and fails when it cannot be relied on.
func (r *term) keep(ctx context.Context) error {
	if time.Since(r.renewed) < leadRenew {
		return nil
	}
	short, cancel := context.WithTimeout(ctx, leadRenew)
	defer cancel()
	err := r.renew(short, r.Owner)
	if err == nil || !errors.Is(err, store.ErrConflict) && time.Since(r.renewed) < leadTrust {
		return nil
	}
	return err
}

// pass takes what was written, and fires what is due. It lowers wait to when the next tick is.
func (r *term) pass(ctx context.Context, wait *time.Duration) error {
	news, err := r.readSchedules(ctx)
	if err != nil {
		return err
	}
	// As nearly always: thousands of schedules cost next to nothing. A time that is further away is from before the
	// store's clock was set back.
	if now := r.now(); !news && now.Before(r.quiet) && r.quiet.Sub(now) <= anew {
		*wait = min(*wait, r.quiet.Sub(now))
		return nil
	}
	quiet := r.now().Add(anew)
	r.quiet = time.Time{}
	var failed error
	oldest := int64(0)
	defer func() { r.pending.Store(oldest) }()
	for name, l := range r.all {
		if l.times == nil {
			continue
		}
		err := r.step(ctx, l)
		if errors.Is(err, store.ErrConflict) { // a command wrote the record: the next pass reads it
			*wait, quiet, err = 0, time.Time{}, nil
		}
		if !l.due.IsZero() && (oldest == 0 || l.due.UnixMilli() < oldest) {
			oldest = l.due.UnixMilli()
		}
		if err != nil {
			failed = fmt.Errorf("schedule %s: %w", name, err)
		} else if l.loaded && !l.next.IsZero() && l.next.Before(quiet) {
			quiet = l.next
		}
		if err := r.keep(ctx); err != nil {
			return err
		}
	}
	if *wait = min(*wait, quiet.Sub(r.now())); failed == nil {
		r.quiet = quiet
	}
	return failed
}

// readSchedules takes what was written since the last time, or all, and reports whether that may be something new.
func (r *term) readSchedules(ctx context.Context) (news bool, err error) {
	first, before, after := r.all == nil, r.all, r.after
	if all := first || time.Since(r.read) >= anew; all {
		r.all, after, r.read = map[string]*live{}, 0, time.Now()
	}
	began := after
	if after, err = r.refresh(ctx, r.all, before, after); err != nil {
		r.all = before
		r.read = time.Time{} // all is read again
		return true, err
	}
	r.after = after
	if !first {
		return after > began, nil
	}
	err = r.readRecords(ctx, r.all) // one query instead of one for each schedule
	if err != nil {
		r.all = nil
	}
	return true, err
}

// step fires what is due of a schedule.
func (r *term) step(ctx context.Context, l *live) error {
	if !l.loaded {
		if err := r.load(ctx, l); err != nil {
			return err
		}
	}
	dealt := l.dealtWith(r.now())
	if dealt.Unix() < l.record.Cursor { // the clock was set back by days
		l.next = time.Time{}
	}
	if !l.next.IsZero() && l.next.After(r.now()) && !l.paused() {
		return nil
	}
	if l.next.IsZero() || l.paused() {
		before := l.record.Of
		l.record.Cursor, l.record.Of = dealt.Unix(), l.of()
		if l.paused() {
			if l.record.Of == before {
				return nil
			}
			return r.save(ctx, l) // so that the ticks until the resumption are left out
		}
		l.next = l.times.Next(time.Unix(l.record.Cursor, 0))
	}
	if !l.next.IsZero() && !l.next.After(r.now()) { // the rest is for the next pass: others are due, too
		tick := l.next
		if err := r.fire(ctx, l); err != nil {
			if l.due.IsZero() {
				l.due = tick
			}
			l.next = time.Time{}
			return err
		}
	}
	l.due = time.Time{}
	return nil
}

// due is a tick, and what is to become of it.
type due struct {
	tick   time.Time
	missed bool
	madeUp bool
}

// most is how many ticks are dealt with at once.
const most = 10_000

// fire deals with what is due, at least one tick.
func (r *term) fire(ctx context.Context, l *live) error {
	now := r.now()
	var plan []due
	recent := now.Add(-l.def.Within())
	for at := l.next; !at.IsZero() && !at.After(now); at = l.times.Next(at) {
		if len(plan) >= most && !plan[len(plan)-1].tick.After(recent) {
			break // what is too old to be made up is booked first, and each part of it saved
		}
		d := due{tick: at, missed: now.Sub(at) > lateFor || !at.Before(r.from) && at.Before(r.to)}
		plan = append(plan, d)
	}
	allowed := map[string]int{MissedSkip: 0, MissedAll: maxMadeUp}
	left, ok := allowed[l.def.Missed]
	if !ok {
		left = 1
	}
	for i := len(plan) - 1; i >= 0 && left > 0; i-- {
		if plan[i].missed && !plan[i].tick.Before(recent) {
			plan[i].madeUp = true
			left--
		}
	}
	for i, d := range plan {
		if err := r.book(ctx, l, d, i == len(plan)-1); err != nil {
			return err
		}
		if err := r.keep(ctx); err != nil {
			return err
		}
	}
	return nil
}

// book sends the message of a tick, or not, and writes down which. A tick that is missed is written with a later
// one, unless it is the last.
func (r *term) book(ctx context.Context, l *live, d due, last bool) error {
	w := row{Tick: d.tick.Unix(), Action: ActionFired}
	switch {
	case d.madeUp:
		w.Action, w.Why = ActionMadeUp, r.why(l, d)
	case d.missed:
		w.Action, w.Why = ActionMissed, r.why(l, d)
	}
	if w.Action != ActionMissed {
		if err := r.overlap(ctx, l, &w); err != nil {
			return err
		}
	}
	if w.Action == ActionFired || w.Action == ActionMadeUp {
		if _, err := r.append(ctx, l.def.message(l.times, d.tick)); err != nil {
			return err
		}
		l.record.Last = w.Tick
	}
	w.At = r.now().UnixMilli()
	if late := time.UnixMilli(w.At).Sub(d.tick); w.Action == ActionFired && late >= look {
		w.Why = fmt.Sprintf("due %s; fired at %s, %s late; this process fires since %s", d.tick.Format("15:04:05 MST"),
			time.UnixMilli(w.At).In(l.times.zone).Format("15:04:05"), late.Round(time.Millisecond),
			r.since.In(l.times.zone).Format("15:04:05"))
	}
	l.record.add(w)
	if r.Booked != nil {
		r.Booked(l.def.Name, w.run(l.def.Name, l.times.zone))
	}
	l.record.Cursor = w.Tick
	l.next = l.times.Next(d.tick)
	if w.Action == ActionMissed && !last {
		return nil
	}
	return r.save(ctx, l)
}

// overlap looks after the message of the tick before.
func (r *term) overlap(ctx context.Context, l *live, w *row) error {
	if l.record.Last == 0 || l.record.Last == w.Tick || l.def.Overlap != OverlapSkip && l.def.Overlap != OverlapReplace {
		return nil
	}
	id := messageID(l.def.Name, l.record.Last)
	if l.def.Overlap == OverlapReplace {
		return r.replace(ctx, l, id)
	}
	m, err := r.looker.Get(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case m.State == store.Waiting || m.State == store.Delayed || m.State == store.Leased:
		w.Action, w.Why = ActionSkipped, fmt.Sprintf("overlap: skip, and message %s is %s", id, m.State)
	}
	return nil
}

// replace cancels the message of the tick before, if it still waits. That it is about to is written down first: after a
// crash nobody could say who removed the message.
func (r *term) replace(ctx context.Context, l *live, id string) error {
	i, ok := store.As[store.Inspector](r.store, store.CanLookup)
	if !ok {
		return &store.Error{Op: "overlap: replace", Code: store.ErrUnsupported}
	}
	var old *row
	for n := range l.record.Rows {
		w := &l.record.Rows[n]
		if w.Tick == l.record.Last && (w.Action == ActionFired || w.Action == ActionMadeUp || w.Action == ActionReplaced) {
			old = w
		}
	}
	if old == nil {
		return nil
	}
	if old.Action != ActionReplaced {
		m, err := i.Get(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound):
			return nil
		case err != nil:
			return err
		case m.State != store.Waiting && m.State != store.Delayed:
			return nil
		}
		old.Was, old.Action, old.Why = old.Action, ActionReplaced, "its message still waited at the next tick"
		if err := r.save(ctx, l); err != nil {
			return err
		}
	}
	refused, err := i.Cancel(ctx, id)
	if err != nil || !errors.Is(refused[id], store.ErrConflict) {
		return err
	}
	for n := range l.record.Rows { // it has begun meanwhile; saving moved the rows
		if w := &l.record.Rows[n]; w.Tick == l.record.Last && w.Action == ActionReplaced {
			w.Action, w.Why, w.Was = w.Was, "", ""
		}
	}
	return nil
}

// why says why a tick was made up or missed.
func (r *term) why(l *live, d due) string {
	const clock = "15:04:05"
	zone := l.times.zone
	down := "no scheduler fired it within " + lateFor.String()
	if !d.tick.Before(r.from) && d.tick.Before(r.to) {
		down = "no scheduler until " + r.to.In(zone).Format(clock)
		if r.from.Unix() > 0 {
			down = fmt.Sprintf("no scheduler from %s to %s", r.from.In(zone).Format(clock), r.to.In(zone).Format(clock))
		}
	}
	policy := l.def.Missed
	if policy == "" {
		policy = MissedOnce
	}
	what := "made up at " + r.now().In(zone).Format(clock)
	if !d.madeUp {
		what = "not made up"
	}
	due := "15:04 MST"
	if d.tick.Second() != 0 {
		due = clock + " MST"
	}
	return fmt.Sprintf("due %s; %s; %s because missed: %s", d.tick.Format(due), down, what, policy)
}
