package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// The situations that a message can be in. They are more specific than its state: they
// say what keeps it there.
const (
	SituationReady    = "ready"    // the next claim with room may take it
	SituationBehind   = "behind"   // another message of its key is before it
	SituationHeld     = "held"     // what was before it closed its lane for a while
	SituationPaused   = "paused"   // nothing of its topic is claimed
	SituationLimited  = "limited"  // a rate or limit keeps its topic, or its key, back
	SituationDelayed  = "delayed"  // it was appended, or given back, for later
	SituationRetrying = "retrying" // it failed, and is repeated later
	SituationSuspect  = "suspect"  // its workers died, perhaps because of it
	SituationLeased   = "leased"
	SituationDead     = "dead"
	SituationReplayed = "replayed" // ready, after it had been dead
	SituationRetained = "retained" // acked, and kept by its topic
)

// Explanation says why a message is where it is, as JSON.
type Explanation struct {
	ID        string      `json:"id"`
	Topic     *string     `json:"topic"`
	Key       *string     `json:"key"`
	State     store.State `json:"state"`
	Situation string      `json:"situation"`
	Why       string      `json:"why"`
	Since     *time.Time  `json:"since"`
	History   []Attempt   `json:"history"`
	Next      Next        `json:"next"`
	BlockedBy string      `json:"blocked_by,omitempty"`
	// Lane is its place behind others of its key.
	Lane *LanePlace `json:"lane"`
	// Pause is that of its topic, and AfterPause the situation that remains when
	// the topic goes on.
	Pause      *Pause  `json:"pause"`
	AfterPause *string `json:"after_pause"`
	// Limit names the limit that keeps it back.
	Limit *string `json:"limit"`
	// Served tells of what waits whether a worker carries its topic out.
	Served *bool `json:"served"`
	// Replayed is how it came back, and Removed how it was taken out, as far as the
	// audit tells.
	Replayed *Replayed `json:"replayed"`
	Removed  *Removed  `json:"removed"`
}

// Next is what happens next, and when; without a time, as soon as somebody does it.
type Next struct {
	At     *time.Time `json:"at"`
	Action string     `json:"action"`
}

// Explain says why the message with that id is where it is. It reads one thing after
// the other: concurrent changes may show in part.
func Explain(ctx context.Context, s store.Store, i store.Looker, t store.Topics, id string) (*Explanation, error) {
	r, err := i.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	form := FormMessage(&r)
	x := &explaining{
		store:  s,
		record: &r,
		Explanation: Explanation{ID: r.ID, Topic: &r.Topic, Key: form.Key, State: r.State,
			History: formAttempts(r.History)},
	}
	switch r.State {
	case store.Leased:
		x.leased()
		err = x.heldBack(ctx)
	case store.Delayed:
		err = x.delayed(ctx, t)
	case store.IsDead:
		x.dead(ctx)
	case store.Acked:
		err = x.acked(ctx, t)
	default:
		err = x.waiting(ctx, i, t)
	}
	return &x.Explanation, err
}

type explaining struct {
	Explanation
	store  store.Store
	record *store.Record
}

func (x *explaining) say(situation string, since time.Time, why string, args ...any) {
	x.Situation, x.Since, x.Why = situation, moment(since), fmt.Sprintf(why, args...)
}

func (x *explaining) then(at time.Time, action string) { x.Next = Next{moment(at), action} }

func (x *explaining) leased() {
	l := x.record.Lease
	x.say(SituationLeased, l.StartedAt,
		"%s works on it, attempt %d, since %s; its lease ends at %s unless it is extended, and at %s in any case",
		l.Owner, x.record.Attempts+1, UTC(l.StartedAt), UTC(l.Until), UTC(l.Deadline))
	x.then(l.Until, "it is claimable again, unless it is settled or extended before")
}

// heldBack says of what is leased that a limit may keep it from beginning.
func (x *explaining) heldBack(ctx context.Context) error {
	said, err := announcement(ctx, x.store, x.record.Lease.Owner)
	if err != nil || said == nil {
		return err
	}
	for _, t := range said.Topics {
		if t.Topic == x.record.Topic && t.HeldBack > 0 {
			x.Why += fmt.Sprintf("; %d that it holds wait for a limit, perhaps including this one", t.HeldBack)
		}
	}
	return nil
}

// last is the latest attempt, or nil.
func (x *explaining) last() *store.Attempt {
	if n := len(x.record.History); n > 0 {
		return &x.record.History[n-1]
	}
	return nil
}

// replayed says that a message was dead before.
func replayed(r *store.Record) string {
	if r.Replays == 0 {
		return ""
	}
	return fmt.Sprintf(", since it was replayed (time %d)", r.Replays)
}

func ofKind(kind string) string {
	if kind == "" {
		return ""
	}
	return " (" + kind + ")"
}

// Because is a reason at the end of a sentence; empty for none.
func Because(reason string) string {
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

// UTC is a moment in a sentence.
func UTC(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }
