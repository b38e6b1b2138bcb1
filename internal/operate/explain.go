package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/observe"
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
	SituationUnknown  = "unknown"  // acked, or never here
)

// Explanation says why a message is where it is, as JSON.
type Explanation struct {
	ID        string      `json:"id"`
	Topic     *string     `json:"topic"`
	Key       *string     `json:"key"`
	State     store.State `json:"state"`
	Situation string      `json:"situation"`
	Why       string      `json:"why"`
	Cause     *Cause      `json:"cause"`
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
	Trace
}

// Trace is where the trace of a message is, as JSON.
type Trace struct {
	TraceID  string `json:"trace_id,omitempty"`
	TraceURL string `json:"trace_url,omitempty"`
}

// Next is what happens next, and when; without a time, as soon as somebody does it.
type Next struct {
	At     *time.Time `json:"at"`
	Action string     `json:"action"`
}

// Explain says why the message with that id is where it is. It reads one thing after
// the other: concurrent changes may show in part.
func Explain(ctx context.Context, s store.Store, i store.Inspector, t store.Topics, id string) (*Explanation, error) {
	r, err := i.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	form := FormMessage(&r)
	x := &explaining{
		store:  s,
		record: &r,
		Explanation: Explanation{ID: r.ID, Topic: &r.Topic, Key: form.Key, State: r.State, Cause: causeOf(&r),
			History: formAttempts(r.History), Trace: Trace{TraceID: observe.TraceIn(r.Headers)}},
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
	entries, ok := store.As[store.Shared](x.store)
	if !ok {
		return nil
	}
	workers, _, err := registered(ctx, entries)
	holder := workers[x.record.Lease.Owner]
	if err != nil || holder == nil {
		return err
	}
	for _, t := range holder.Topics {
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

// ShellWord is a text as one word of a command for a shell.
func ShellWord(text string) string {
	if text != "" && !strings.ContainsAny(text, " \t\n*?[]{}()<>|&;$`\\\"'~#!") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Operands are names as the last words of a command for a shell.
func Operands(names ...string) string {
	words := make([]string, 0, 1+len(names))
	if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "-") }) {
		words = append(words, "--") // they are no flags
	}
	for _, name := range names {
		words = append(words, ShellWord(name))
	}
	return strings.Join(words, " ")
}

// Counted says how many there are of something; many is its plural, if that is not made with an s.
func Counted[N int | int64](n N, one string, many ...string) string {
	switch {
	case n == 1:
		return "1 " + one
	case len(many) > 0:
		return fmt.Sprint(n, " ", many[0])
	}
	return fmt.Sprint(n, " ", one, "s")
}

// UTC is a moment in a sentence.
func UTC(t time.Time) string { return t.UTC().Format(time.DateTime) + " UTC" }

func (x *explaining) delayed(ctx context.Context, t store.Topics) error {
	r, last := x.record, x.last()
	cause := r.Cause()
	switch {
	case last != nil && last.Throttled && last.NextAt.Equal(r.NotBefore):
		x.say(SituationRetrying, last.EndedAt,
			"it was throttled for the %d. time since %s%s: %s; rule %q retries it at %s; throttling does not count as an attempt, and %s so far",
			r.Throttles, UTC(r.ThrottledSince), ofKind(last.Kind), last.Error, last.Rule, UTC(r.NotBefore),
			Counted(r.Attempts, "failed attempt"))
	case last != nil && last.NextAt.Equal(r.NotBefore):
		x.say(SituationRetrying, last.EndedAt, "attempt %d failed%s: %s; rule %q retries it at %s",
			last.Attempt, ofKind(last.Kind), last.Error, last.Rule, UTC(r.NotBefore))
	case separate(r):
		x.say(SituationDelayed, r.EnqueuedAt, "it was appended for %s", UTC(r.NotBefore))
	case cause.Code == store.CauseLimited:
		x.Limit = &cause.By
		x.say(SituationLimited, r.EnqueuedAt, "limit %q lets it begin at %s; waiting does not count as an attempt",
			cause.By, UTC(r.NotBefore))
	case cause.Code == store.CauseReleased:
		x.say(SituationDelayed, r.EnqueuedAt, "a worker gave it back for %s: %s; that does not count as an attempt",
			UTC(r.NotBefore), r.Reason)
	default:
		x.say(SituationHeld, r.EnqueuedAt,
			"its lane is closed until %s, by what was before it: an ack that asked for a pause (a hold)",
			UTC(r.NotBefore))
	}
	x.then(r.NotBefore, "it is claimable")
	stats, err := t.Stats(ctx, r.Topic)
	if err != nil || len(stats) == 0 || stats[0].Paused == nil {
		return err
	}
	x.delayedAndPaused(stats[0].Paused)
	return nil
}

// delayedAndPaused says of what is not due yet that its topic is paused, too: the
// later end counts.
func (x *explaining) delayedAndPaused(p *store.Pause) {
	x.Pause = formPause(p)
	x.Why += "; and " + pausedBy(p)
	resume := "pawl topics resume " + x.record.Topic
	switch due := x.record.NotBefore; {
	case p.Until.IsZero():
		x.then(due, "it is claimable at the earliest; somebody has to resume the topic first: "+resume)
	case p.Until.After(due):
		x.then(p.Until, "the pause ends, and it is claimable; sooner, but not before "+UTC(due)+
			", if somebody resumes the topic: "+resume)
	default:
		x.then(due, "it is claimable; the pause has ended by then")
	}
}

// pausedBy says who paused a topic, and for how long.
func pausedBy(p *store.Pause) string {
	until := ""
	if !p.Until.IsZero() {
		until = " until " + UTC(p.Until)
	}
	return p.By + " paused its topic" + until + Because(p.Reason)
}

// waiting looks for what a message waits for: what concerns it, its lane or the
// workers, and then what stops all of its topic.
func (x *explaining) waiting(ctx context.Context, i store.Inspector, t store.Topics) error {
	stats, err := t.Stats(ctx, x.record.Topic)
	if err != nil {
		return err
	}
	if len(stats) == 0 {
		return errors.New("its topic is gone")
	}
	topic := &stats[0]
	if err := x.unpaused(ctx, i, topic); err != nil {
		return err
	}
	if topic.Paused != nil {
		x.paused(topic.Paused)
	}
	return nil
}

// paused says that the topic is paused, and what remains after that.
func (x *explaining) paused(p *store.Pause) {
	x.Pause, x.AfterPause = formPause(p), new(x.Situation)
	then := "; then " + x.Next.Action
	x.say(SituationPaused, p.Since, "%s; when it goes on: %s", pausedBy(p), x.Why)
	if resume := "pawl topics resume " + x.record.Topic; p.Until.IsZero() {
		x.then(time.Time{}, "somebody resumes the topic: "+resume+then)
	} else {
		x.then(p.Until, "the topic goes on, sooner if somebody resumes it: "+resume+then)
	}
}

// unpaused looks for what a message waits for as if its topic was not paused.
func (x *explaining) unpaused(ctx context.Context, i store.Inspector, topic *store.TopicStats) error {
	before, err := x.before(ctx, i, topic)
	if err != nil {
		return err
	}
	service, err := servedBy(ctx, x.store, i, topic)
	if err != nil {
		return err
	}
	r, visible := x.record, x.visible(topic)
	x.Served = service.served
	if service.results {
		x.say(SituationReady, visible, "it is a result: its program reads the topic from beginning to end, and no worker claims it")
		x.then(time.Time{}, "its program reads it")
		return nil
	}
	x.then(time.Time{}, "the next worker with room claims it, by its rank")
	if r.Cause().Code == store.CauseReplayed {
		x.Replayed = findReplay(ctx, x.store, r, joined(r, topic))
	}
	switch {
	case before != nil:
		x.behind(before, visible)
	case r.Rescues >= store.SuspectAfter:
		x.suspected(ctx, topic, visible)
	case r.Cause().Code == store.CauseReplayed:
		x.say(SituationReplayed, visible, "it was a dead letter%s", x.Replayed.in(r))
	case service.limit != "":
		return x.limited(ctx, i, topic, service, visible)
	case service.none():
		x.say(SituationReady, visible,
			"nothing is in its way, but no worker is known to serve the topic; its topic has %d waiting, %d leased",
			topic.Waiting, topic.Leased)
	case x.blind():
		x.say(SituationReady, visible,
			"nothing that can be seen from here is in its way; another process may work on it, or retry it later: "+
				"this store does not tell what other processes hold; its topic has %d waiting, %d leased",
			topic.Waiting, topic.Leased)
		x.then(time.Time{}, "the worker that has its lane processes it, unless one is doing so already")
	default:
		x.say(SituationReady, visible,
			"nothing is in its way: it waits for a worker with room; its topic has %d waiting, %d leased",
			topic.Waiting, topic.Leased)
	}
	if service.none() {
		x.unserved()
	}
	return nil
}

// blind reports whether the store knows of the leases of this process only.
func (x *explaining) blind() bool {
	return !store.Can(x.store, store.CanLookup)
}

// unserved says that no worker is known, and how to start one.
func (x *explaining) unserved() {
	start := StartWorker(x.record.Topic)
	switch x.Situation {
	case SituationReady:
		x.then(time.Time{}, start)
	case SituationBehind:
		x.Why += "; and no worker is known to serve the topic"
		x.Next.Action += "; for that, " + start
	default:
		x.Why += "; but no worker is known to serve the topic"
		x.then(time.Time{}, start)
	}
}

// StartWorker says how to start a worker of a topic.
func StartWorker(topic string) string {
	return "start a worker: pawl work " + topic + " --exec CMD, `pawl up`, or your own program"
}

// limited says which limit keeps it back and, of a plain rate, about how long.
func (x *explaining) limited(ctx context.Context, i store.Inspector, topic *store.TopicStats, by *service,
	visible time.Time) error {
	x.Limit = &by.limit
	x.say(SituationLimited, visible,
		"limit %q holds its topic back in %s, and in every other worker; its topic has %d waiting, %d leased",
		by.limit, by.owner, topic.Waiting, topic.Leased)
	x.then(time.Time{}, "a worker begins it when the limit allows, by its rank")
	if by.perSecond <= 0 {
		return nil
	}
	n := by.heldBack
	for r, err := range i.List(ctx, store.Filter{Topic: topic.Name, State: store.Waiting, Limit: lookLimited}) {
		if err != nil {
			return err
		}
		if n++; r.ID == x.ID {
			wait := time.Duration(float64(n) / by.perSecond * float64(time.Second))
			x.then(by.now.Add(wait), "about then the limit lets it begin, if nothing of a higher rank comes")
			break
		}
	}
	return nil
}

// lookLimited bounds among how many messages of a topic a place is looked for.
const lookLimited = 200

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
