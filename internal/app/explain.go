package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// The situations that a message can be in. They say more than its state: what it
// is that keeps it there.
const (
	SituationReady    = "ready"    // the next claim with room may take it
	SituationBehind   = "behind"   // another message of its key is before it
	SituationHeld     = "held"     // the last ack closed its lane for a while
	SituationPaused   = "paused"   // nothing of its topic is claimed
	SituationDelayed  = "delayed"  // it was appended, or given back, for later
	SituationRetrying = "retrying" // it failed, and is repeated later
	SituationSuspect  = "suspect"  // workers died of it, perhaps
	SituationLeased   = "leased"
	SituationDead     = "dead"
	SituationReplayed = "replayed" // ready, after it had been dead
	SituationRetained = "retained" // acked, and kept by its topic
)

// Explanation says why a message is where it is, as JSON.
type Explanation struct {
	ID        string      `json:"id"`
	Topic     string      `json:"topic"`
	Key       *string     `json:"key"`
	State     store.State `json:"state"`
	Situation string      `json:"situation"`
	Why       string      `json:"why"`
	Since     time.Time   `json:"since"`
	History   []Attempt   `json:"history"`
	Next      *Next       `json:"next"` // null: nothing happens by itself
	BlockedBy string      `json:"blocked_by,omitempty"`
}

// Next is what happens next by itself, and when; without a time, as soon as
// somebody does it.
type Next struct {
	At     *time.Time `json:"at"`
	Action string     `json:"action"`
}

// Explain says why the message with that id is where it is. What it looks at it
// looks at one after the other: what changes meanwhile may show in part.
func Explain(ctx context.Context, i store.Inspector, t store.Topics, id string) (*Explanation, error) {
	r, err := i.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	form := FormMessage(&r)
	x := &explaining{
		record:      &r,
		Explanation: Explanation{ID: r.ID, Topic: r.Topic, Key: form.Key, State: r.State, History: formAttempts(r.History)},
	}
	switch r.State {
	case store.Leased:
		x.leased()
	case store.Delayed:
		x.delayed()
	case store.IsDead:
		x.dead()
	case store.Acked:
		x.acked()
	default:
		err = x.waiting(ctx, i, t)
	}
	return &x.Explanation, err
}

type explaining struct {
	Explanation
	record *store.Record
}

func (x *explaining) say(situation string, since time.Time, why string, args ...any) {
	x.Situation, x.Since, x.Why = situation, since.UTC(), fmt.Sprintf(why, args...)
}

func (x *explaining) then(at time.Time, action string) { x.Next = &Next{moment(at), action} }

func (x *explaining) leased() {
	l := x.record.Lease
	x.say(SituationLeased, l.StartedAt, "%s works on it, attempt %d, since %s; its lease ends at %s unless it is extended, and at %s in any case",
		l.Owner, x.record.Attempts+1, clock(l.StartedAt), clock(l.Until), clock(l.Deadline))
	x.then(l.Until, "it is claimable again, unless it is settled or extended before")
}

// last is the newest attempt, or nil.
func (x *explaining) last() *store.Attempt {
	if n := len(x.record.History); n > 0 {
		return &x.record.History[n-1]
	}
	return nil
}

func (x *explaining) delayed() {
	r, last := x.record, x.last()
	switch {
	case last != nil && last.NextAt.Equal(r.NotBefore):
		x.say(SituationRetrying, last.EndedAt, "attempt %d failed%s: %s; rule %q repeats it at %s",
			last.Attempt, ofKind(last.Kind), last.Error, last.Rule, clock(r.NotBefore))
	case separate(r):
		x.say(SituationDelayed, r.EnqueuedAt, "it was appended for %s", clock(r.NotBefore))
	case strings.HasPrefix(r.Reason, "released"):
		x.say(SituationDelayed, r.EnqueuedAt, "a worker gave it back for %s: %s; that is no attempt", clock(r.NotBefore), r.Reason)
	default:
		x.say(SituationHeld, r.EnqueuedAt, "its lane is closed until %s: the ack of the message before it asked for that pause", clock(r.NotBefore))
	}
	x.then(r.NotBefore, "it is claimable")
}

func (x *explaining) dead() {
	r := x.record
	rule := ""
	if last := x.last(); last != nil && last.Rule != "" {
		rule = fmt.Sprintf("; rule %q decided that", last.Rule)
	}
	x.say(SituationDead, r.DeadAt, "it is a dead letter%s, after %s: %s%s", ofKind(string(r.Kind)), counted(r.Attempts, "failed attempt"), r.Reason, rule)
}

func (x *explaining) acked() {
	r := x.record
	x.say(SituationRetained, r.AckedAt, "it was acked at %s, after %s; its topic keeps it for a while", clock(r.AckedAt), counted(r.Attempts, "failed attempt"))
}

// waiting looks for what a message waits for: from what stops all of its topic to
// what concerns it alone.
func (x *explaining) waiting(ctx context.Context, i store.Inspector, t store.Topics) error {
	stats, err := t.Stats(ctx, x.Topic)
	if err != nil {
		return err
	}
	if len(stats) == 0 {
		return errors.New("its topic is gone")
	}
	topic := &stats[0]
	before, err := x.before(ctx, i, topic)
	if err != nil {
		return err
	}
	r, visible := x.record, x.visible(topic)
	x.then(time.Time{}, "the next worker with room claims it, by its rank")
	switch p := topic.Paused; {
	case p != nil:
		x.say(SituationPaused, p.Since, "%s paused its topic%s", p.By, because(p.Reason))
		x.then(p.Until, "the topic goes on")
		if p.Until.IsZero() {
			x.then(time.Time{}, "somebody resumes the topic: pawl topics resume "+x.Topic)
		}
	case before != nil:
		x.BlockedBy = before.ID
		x.say(SituationBehind, visible, "messages of one key are carried out one after the other, and before it is %s, %s", before.ID, place(before))
		x.then(time.Time{}, "it is claimable when that one is done")
	case r.Rescues > 0:
		x.say(SituationSuspect, visible, "%s died, or lost the lease, while at it; so it is carried out alone, and is a dead letter after %d more",
			counted(r.Rescues, "worker"), max(store.LonelyRescues-r.Lonely, 1))
	case r.Reason == "replayed":
		x.say(SituationReplayed, visible, "it was a dead letter and is replayed, time %d", r.Replays)
	default:
		x.say(SituationReady, visible, "nothing is in its way: it waits for a worker with room; %d wait in its topic, %d are worked on", topic.Waiting, topic.Leased)
	}
	return nil
}

// visible is since when it could have been claimed.
func (x *explaining) visible(topic *store.TopicStats) time.Time {
	since := joined(x.record, topic)
	if last := x.last(); last != nil && last.EndedAt.After(since) {
		since = last.EndedAt
		if !last.NextAt.IsZero() {
			since = last.NextAt
		}
	}
	return since
}

// lookAhead bounds how many messages of a lane are looked at.
const lookAhead = 10_000

// before finds the message of the same key that has to end first: the one that is
// worked on, or whose repetition the lane waits for, else the oldest.
func (x *explaining) before(ctx context.Context, i store.Inspector, topic *store.TopicStats) (first *store.Record, err error) {
	if len(x.record.Key) == 0 || topic.Order != store.OrderKey {
		return nil, nil
	}
	mine := joined(x.record, topic)
	passed := false // what ties was appended in the order of the list, if it has one priority
	for r, err := range i.List(ctx, store.Filter{Topic: x.Topic, Key: x.record.Key, Limit: lookAhead}) {
		if err != nil {
			return nil, err
		}
		switch {
		case r.ID == x.ID:
			passed = true
		case r.State == store.Leased, r.State == store.Delayed && !separate(&r):
			return &r, nil
		case r.State == store.Waiting:
			at := joined(&r, topic)
			tied := at.Equal(mine) && r.Priority == x.record.Priority && !passed
			if (at.Before(mine) || tied) && (first == nil || at.Before(joined(first, topic))) {
				first = &r
			}
		}
	}
	return first, nil
}

// separate tells whether a delayed message is no part of its lane yet: it joins
// that when it is due.
func separate(r *store.Record) bool {
	return r.Delay > 0 && r.Attempts+r.Rescues == 0 && r.Reason == "appended"
}

// joined is when a message joined its lane, as its rank tells: a replayed one
// joined it again. Where the topic's ageing was changed meanwhile, nearly.
func joined(r *store.Record, topic *store.TopicStats) time.Time {
	return time.UnixMicro(r.Rank).Add(-time.Duration(pawl.MaxPriority-r.Priority) * topic.Ageing)
}

// place says where a message is.
func place(r *store.Record) string {
	switch {
	case r.State == store.Leased:
		return "which " + r.Lease.Owner + " works on"
	case r.State == store.Delayed && r.Attempts > 0:
		return "which failed and is repeated at " + clock(r.NotBefore)
	case r.State == store.Delayed:
		return "which is not due before " + clock(r.NotBefore)
	default:
		return "which waits, too"
	}
}

func ofKind(kind string) string {
	if kind == "" {
		return ""
	}
	return " (" + kind + ")"
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// clock is a moment in a sentence.
func clock(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }
