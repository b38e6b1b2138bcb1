package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// lookBack bounds for how long the past of a message is looked for.
const lookBack = 5 * time.Second

// Replayed is how a message came back from the dead letters, as JSON. What is not
// known is null.
type Replayed struct {
	From        *string    `json:"from"` // the topic in which it died
	At          *time.Time `json:"at"`
	By          *string    `json:"by"`
	OperationID *string    `json:"operation_id"`
}

// Removed is how a message was taken out, as JSON.
type Removed struct {
	Action      string    `json:"action"` // cancel or discard
	At          time.Time `json:"at"`
	By          string    `json:"by"`
	Reason      *string   `json:"reason"`
	OperationID *string   `json:"operation_id"`
	// Sure is false where some were refused, this one perhaps.
	Sure bool `json:"sure"`
}

// NotKnown explains an id that is not in the store: who removed it, if the audit has
// that.
func NotKnown(ctx context.Context, s store.Store, id string,
	elsewhere func(context.Context, store.Store) (why, next string)) *Explanation {
	x := &Explanation{
		ID: id, State: "unknown", Situation: SituationUnknown, Why: "unknown: acked or never here", History: []Attempt{},
		Next: Next{Action: "nothing; to know of acked messages for a while: pawl topics set TOPIC --retain 24h"},
	}
	if r := findRemoval(ctx, s, id); r != nil {
		x.Removed, x.Since = r, &r.At
		x.Why = "unknown by now: " + r.words()
		x.Next.Action = "nothing; if it is still needed, send it again"
		return x
	}
	if why, next := elsewhere(ctx, s); why != "" {
		x.Why, x.Next.Action = why, next
	}
	return x
}

func (r *Removed) words() string {
	what, sure, by, why := "cancelled it", "", "", ""
	if r.Action == KindDiscard {
		what = "discarded it, a dead letter,"
	}
	if !r.Sure {
		sure = ", unless it was among those refused then"
	}
	if r.OperationID != nil {
		by = ", operation " + *r.OperationID
	}
	if r.Reason != nil {
		why = Because(*r.Reason)
	}
	return fmt.Sprintf("%s %s at %s%s%s%s", r.By, what, UTC(r.At), by, sure, why)
}

// noted yields the entries of the audit that contain a text in its JSON, the latest change
// first, for as long as it is worth it: it is a courtesy.
func noted(ctx context.Context, s store.Store, containing string) iter.Seq[AuditEntry] {
	return func(yield func(AuditEntry) bool) {
		state, ok := store.As[store.Shared](s)
		needle, err := json.Marshal(containing)
		if !ok || err != nil {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, lookBack)
		defer cancel()
		for e, err := range state.LatestState(ctx, auditPrefix, 0) {
			var a AuditEntry
			if err != nil || bytes.Contains(e.Value, needle) && json.Unmarshal(e.Value, &a) == nil && !yield(a) {
				return
			}
		}
	}
}

// findRemoval looks for who cancelled or discarded a message by its id. Messages that
// were discarded by a filter are not recorded by id.
func findRemoval(ctx context.Context, s store.Store, id string) *Removed {
	for a := range noted(ctx, s, id) {
		if a.Action != "cancel" && a.Action != KindDiscard || a.Filter == nil || !slices.Contains(a.Filter.IDs, id) {
			continue
		}
		o := operationOf(ctx, s, a.OperationID)
		refused := a.Refused
		if o != nil {
			a = o.entry()
			for _, no := range o.Refusal {
				refused = append(refused, no.ID)
			}
		}
		if a.Result.Done == 0 || slices.Contains(refused, id) {
			continue
		}
		return &Removed{Action: a.Action, At: a.At.UTC(), By: a.Who, Reason: known(a.Reason),
			OperationID: known(a.OperationID),
			Sure:        int64(len(refused)) >= a.Result.Refused}
	}
	return nil
}

// operationOf is an operation by its id, nil if it cannot be had.
func operationOf(ctx context.Context, s store.Store, id string) *Operation {
	state, ok := store.As[store.Shared](s)
	if !ok || id == "" {
		return nil
	}
	o, err := (&Operations{State: state}).Get(ctx, id)
	if err != nil {
		return nil
	}
	return o
}

// known is nil for no text.
func known(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// clockSkew is by how much the clock of a store and those of processes may differ for a replay to be told from another.
const clockSkew = time.Second

// findReplay looks for the replay of a message that happened last before that moment.
func findReplay(ctx context.Context, s store.Store, r *store.Record, at time.Time) *Replayed {
	found := &Replayed{At: moment(at)}
	for a := range noted(ctx, s, KindReplay) {
		if a.Action != KindReplay || a.Filter == nil || a.At.After(at.Add(clockSkew)) || !a.mayConcern(r) {
			continue
		}
		if o := operationOf(ctx, s, a.OperationID); o != nil && o.EndedAt != nil &&
			o.EndedAt.Before(at.Add(-clockSkew)) {
			continue
		}
		found.By, found.OperationID = known(a.Who), known(a.OperationID)
		switch {
		case a.Filter.Topic != "":
			found.From = &a.Filter.Topic
		case a.Target == "":
			found.From = &r.Topic
		case len(a.From) == 1:
			found.From = &a.From[0]
		}
		return found
	}
	return found
}

// mayConcern reports whether a replay may be the one that brought r where it is.
func (a *AuditEntry) mayConcern(r *store.Record) bool {
	f := a.Filter
	if a.Target != "" && a.Target != r.Topic || a.Target == "" && f.Topic != "" && f.Topic != r.Topic {
		return false
	}
	if len(f.IDs) > 0 {
		return slices.Contains(f.IDs, r.ID)
	}
	d, err := f.filter()
	return err == nil && (d.Key == nil || bytes.Equal(d.Key, r.Key))
}

// in says how r came back.
func (p *Replayed) in(r *store.Record) string {
	from, by := "", ""
	if p.From != nil && *p.From != r.Topic {
		from = " of topic " + *p.From
	}
	if p.By != nil {
		by = ", by " + *p.By
	}
	if p.OperationID != nil {
		by += ", operation " + *p.OperationID
	}
	return fmt.Sprintf("%s and is replayed, time %d, at %s%s", from, r.Replays, UTC(*p.At), by)
}

func (x *explaining) dead(ctx context.Context) {
	r := x.record
	rule := ""
	// The last attempt is not the reason if it was skipped or parked.
	if last := x.last(); last != nil && last.Rule != "" && last.Kind == string(r.Kind) &&
		strings.HasPrefix(last.Action, policy.Dead.String()) {
		rule = fmt.Sprintf("; rule %q decided that", last.Rule)
	}
	x.say(SituationDead, r.DeadAt, "it is a dead letter%s, after %s%s: %s%s", ofKind(string(r.Kind)),
		Counted(r.Attempts, "failed attempt"), replayed(r), r.Reason, rule)
	id := Operands(x.ID)
	x.then(time.Time{}, "nothing by itself; to read it: pawl dead show "+id+", to try again: pawl dead replay "+id)
	if by := r.Resolved; by != nil {
		x.Why += fmt.Sprintf("; %s resolved it at %s%s", by.By, UTC(by.At), Because(by.Note))
		x.then(time.Time{}, "nothing: it is resolved; if it is not: pawl dead reopen "+id)
		return
	}
	if r.Kind != pawl.KindParked || r.Reason != backend.ParkedReason {
		return
	}
	first := parkedBehind(ctx, x.store, r)
	if first == nil {
		x.Why += "; that letter is no longer there"
		return
	}
	x.BlockedBy = first.ID
	x.Why += fmt.Sprintf("; that is %s, which died at %s%s", first.ID, UTC(first.DeadAt), Because(first.Reason))
	x.then(time.Time{},
		fmt.Sprintf(
			"nothing by itself; to read the one before it: pawl dead show %s, to retry both, that one first: pawl dead replay %s",
			Operands(first.ID), Operands(first.ID, x.ID)))
}

// parkedBehind finds the dead letter that a parked one waited behind: the first of
// its lane that died of itself.
func parkedBehind(ctx context.Context, s store.Store, r *store.Record) *store.Record {
	letters, ok := store.As[store.DeadLetters](s)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookBack)
	defer cancel()
	f := store.DeadFilter{Topic: r.Topic, Key: r.Key, Until: r.DeadAt.Add(time.Microsecond), Limit: lookAhead,
		Brief: true}
	for o, err := range letters.Dead(ctx, f) {
		if err != nil {
			return nil
		}
		if o.Kind != pawl.KindParked && o.ID != r.ID {
			return &o
		}
	}
	return nil
}

func (x *explaining) acked(ctx context.Context, t store.Topics) error {
	r := x.record
	if r.AckedAt.IsZero() {
		x.say(SituationRetained, r.EnqueuedAt,
			"it was acked; its topic keeps it until retention removes it, and does not record when it was acked")
		x.then(time.Time{}, "nothing; retention removes it")
		return nil
	}
	x.say(SituationRetained, r.AckedAt, "it was acked at %s, after %s; its topic keeps it for a while", UTC(r.AckedAt),
		Counted(r.Attempts, "failed attempt"))
	x.then(time.Time{}, "nothing; its topic removes it when the retention time is over")
	topic, err := t.Topic(ctx, r.Topic)
	if err != nil || topic.Retain <= 0 {
		return err
	}
	end := r.AckedAt.Add(topic.Retain)
	if now := Now(ctx, x.store); end.Before(now) { // it was kept by another setting
		return nil
	}
	x.then(end, fmt.Sprintf("it is removed: its topic keeps acked messages for %v", topic.Retain))
	return nil
}

// Now is the time by the store's clock, or by this machine's if the store does not tell.
func Now(ctx context.Context, s store.Store) time.Time {
	if entries, ok := store.As[store.Shared](s); ok {
		if now, err := entries.Clock(ctx); err == nil {
			return now
		}
	}
	return time.Now()
}
