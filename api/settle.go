package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/wire"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// The verdicts of a worker, and what becomes of its deliveries.
const (
	verdictAck     = "ack"
	verdictFail    = "fail"
	verdictRelease = "release"

	actionAcked    = "acked"
	actionRetry    = "retry"
	actionDead     = "dead"
	actionReleased = "released"
	actionLost     = "lost"
	actionRefused  = "refused"
)

// settleRequest is the body of POST /v1/settle.
type settleRequest struct {
	Settlements []settlement `json:"settlements"`
}

type settlement struct {
	Token        string            `json:"token"`
	Verdict      string            `json:"verdict"`
	Error        string            `json:"error"`
	Kind         string            `json:"kind"`
	Class        string            `json:"class"`
	AfterSeconds float64           `json:"after_seconds"`
	HoldSeconds  float64           `json:"hold_seconds"`
	Attrs        map[string]string `json:"attrs"`
	Emit         []json.RawMessage `json:"emit"`
	Marks        []mark            `json:"marks"`
}

// mark is a mark to be written with an ack.
type mark struct {
	Scope       string  `json:"scope"`
	Key         string  `json:"key"`
	Value       string  `json:"value"`
	ValueBase64 string  `json:"value_base64"`
	ForSeconds  float64 `json:"for_seconds"`
	If          int64   `json:"if"`
	Remove      bool    `json:"remove"`
}

// settled is what became of a delivery.
type settled struct {
	Token  string     `json:"token"`
	Action string     `json:"action"`
	Rule   string     `json:"rule,omitempty"`
	NextAt *time.Time `json:"next_at,omitempty"`
	Error  string     `json:"error,omitempty"`
}

type settledAll struct {
	Results []settled `json:"results"`
}

// check finds everything that is wrong with a request.
func (q *settleRequest) check() error {
	if len(q.Settlements) > MaxItems {
		return tooLarge(fmt.Sprintf("%d settlements; a request has at most %d", len(q.Settlements), MaxItems))
	}
	var faults []wire.Fault
	for i := range q.Settlements {
		q.Settlements[i].check(i, &faults)
	}
	return invalid(faults)
}

func (s *settlement) check(i int, faults *[]wire.Fault) {
	bad := func(wrong bool, field, why string) {
		if wrong {
			*faults = append(*faults, wire.Fault{Field: "settlements[" + strconv.Itoa(i) + "]." + field, Why: why})
		}
	}
	// A time that has passed, counted from now, is now.
	s.AfterSeconds, s.HoldSeconds = max(s.AfterSeconds, 0), max(s.HoldSeconds, 0)
	failed := s.Verdict == verdictFail
	bad(s.Token == "", "token", "is missing")
	bad(len(s.Token) > maxToken, "token", "is longer than any that was given out")
	bad(!slices.Contains([]string{verdictAck, verdictFail, verdictRelease}, s.Verdict), "verdict",
		"is ack, fail or release")
	bad(!slices.Contains([]string{"", "transient", "permanent", "throttled"}, s.Class), "class",
		"is transient, permanent or throttled")
	bad(s.Class != "" && !failed, "class", "goes with fail")
	bad(s.Kind != "" && !failed, "kind", "goes with fail")
	bad(len(s.Attrs) > 0 && !failed, "attrs", "go with fail")
	bad(!inTime(s.AfterSeconds), "after_seconds", outOfTime)
	bad(s.AfterSeconds > 0 && s.Verdict == verdictAck, "after_seconds", "goes with fail and release")
	bad(!inTime(s.HoldSeconds), "hold_seconds", outOfTime)
	bad(len(s.Emit) > 0 && s.Verdict != verdictAck, "emit", "goes with ack")
	bad(len(s.Marks) > 0 && s.Verdict != verdictAck, "marks", "go with ack")
	for i := range s.Marks {
		m := &s.Marks[i]
		at := "marks[" + strconv.Itoa(i) + "]."
		_, err := base64.StdEncoding.DecodeString(m.ValueBase64)
		bad(err != nil, at+"value_base64", "is not base64")
		bad(m.Value != "" && m.ValueBase64 != "", at+"value", "is given beside value_base64")
		if m.ForSeconds < 0 { // it has expired at once
			m.ForSeconds = time.Millisecond.Seconds()
		}
		bad(!inTime(m.ForSeconds), at+"for_seconds", outOfTime)
	}
}

// settleDeliveries is POST /v1/settle.
func (x *exchange) settleDeliveries() error {
	var q settleRequest
	if err := x.read(&q); err != nil {
		return err
	}
	x.plain = x.local()
	id, err := x.idempotency("settle")
	if err != nil {
		return err
	}
	ctx, cancel := x.call()
	defer cancel()
	key, err := x.api.sealer.get(ctx)
	if err != nil {
		return err
	}
	v := verdicts{exchange: x, results: make([]settled, len(q.Settlements)),
		batch: store.Batch[store.Settlement]{ID: id}}
	if id == "" {
		v.batch.ID = pawl.NewID()
	}
	now, sealing := time.Now(), keyed(key)
	for i := range q.Settlements {
		v.judge(i, &q.Settlements[i], sealing, now)
	}
	if id != "" {
		if err := v.again(ctx, id, &q, now); err != nil {
			return err
		}
	}
	if err := v.settle(ctx); err != nil {
		return settleFailed(err)
	}
	return x.answer(http.StatusOK, settledAll{v.results})
}

func settleFailed(err error) error {
	p := problemOf(err)
	if p.Status == http.StatusServiceUnavailable {
		p.Detail = "it is not known whether the settlements took effect: " + p.Detail
		p.Next = "repeat the request: what took effect is lost or answers the same under one Idempotency-Key"
	}
	return p
}

// verdicts is a settle under way.
type verdicts struct {
	*exchange
	results []settled
	batch   store.Batch[store.Settlement]
	at      []int // the results that items of the batch are about
	tickets []ticket
	told    []dispatch.Event
}

// judge makes a settlement of what a worker said, or refuses it.
func (v *verdicts) judge(i int, s *settlement, sealing hash.Hash, now time.Time) {
	out := &v.results[i]
	out.Token = s.Token
	t, ok := unseal(sealing, s.Token)
	if !ok || !v.caller.over(t.Topic) {
		out.Action = actionLost
		return
	}
	d := t.delivery()
	d.Hold(seconds(s.HoldSeconds))
	st := store.Settlement{Token: t.Token, ID: t.ID}
	event := dispatch.Event{Topic: t.Topic, Attempt: t.Attempt, Delivery: d}
	j := v.api.judge
	j.Owner = t.Owner
	switch s.Verdict {
	case verdictAck:
		err := v.emits(d, s, now)
		if err == nil {
			st, err = j.Ack(d)
		}
		if err != nil {
			out.Action, out.Error = actionRefused, err.Error()
			return
		}
		out.Action, event.Phase = actionAcked, "Completed"
	case verdictRelease:
		st.Verdict, st.After, st.Hold = store.Release, min(seconds(s.AfterSeconds), pawl.MaxPause), d.HoldFor()
		st.Failure = store.Failure{Error: store.Text(cmp.Or(s.Error, "the worker gave it back"))}
		out.Action, event.Phase, event.Released = actionReleased, policy.Failed, true
		event.Err = pawl.Release(st.After, st.Failure.Error)
	default:
		topic := dispatch.Topic{Name: t.Topic, Retries: v.api.config.Retries(t.Topic)}
		event.Err = s.failure()
		st, event.Decision = j.Fail(&topic, d, event.Err, max(now.Sub(t.Leased), 0))
		out.Rule, event.Phase = event.Decision.Rule, policy.Failed
		if t.Attempt > 1 {
			event.Phase = policy.Again
		}
		out.Action = decided[st.Verdict]
	}
	if st.After > 0 {
		out.NextAt = new(now.Add(st.After).UTC())
	}
	v.batch.Items = append(v.batch.Items, st)
	v.at, v.tickets, v.told = append(v.at, i), append(v.tickets, t), append(v.told, event)
}

// decided are the actions that the policy may decide on.
var decided = map[store.Verdict]string{store.Retry: actionRetry, store.Dead: actionDead, store.Ack: actionAcked}

// failure is the error that a worker reports.
func (s *settlement) failure() error {
	err := errors.New(store.Text(cmp.Or(s.Error, "the worker reported a failure")))
	after := seconds(s.AfterSeconds)
	switch s.Class {
	case "permanent":
		err = pawl.Permanent(err)
	case "throttled":
		err = pawl.Throttled(err, after)
	default:
		if after > 0 {
			err = pawl.NotBefore(err, after)
		}
	}
	if s.Kind != "" {
		err = pawl.OfKind(pawl.Kind(s.Kind), err)
	}
	if len(s.Attrs) > 0 {
		err = pawl.WithAttrs(err, s.Attrs)
	}
	return err
}

// emits gives a delivery what goes with its ack.
func (v *verdicts) emits(d *pawl.Delivery, s *settlement, now time.Time) error {
	for i, data := range s.Emit {
		draft, faults, err := wire.ReadEmit(data)
		switch {
		case err != nil:
			return fmt.Errorf("emit[%d]: %w", i, err)
		case len(faults) > 0:
			return fmt.Errorf("emit[%d].%s %s", i, faults[0].Field, faults[0].Why)
		case !v.caller.over(draft.Topic):
			return fmt.Errorf("emit[%d]: topic %q is not of %s", i, draft.Topic, v.caller.name)
		}
		m := draft.At(now)
		if err := m.Validate(); err != nil {
			return fmt.Errorf("emit[%d]: %w", i, err)
		}
		d.Emit(m)
	}
	for i := range s.Marks {
		m := &s.Marks[i]
		value := []byte(m.Value)
		if m.ValueBase64 != "" {
			value, _ = base64.StdEncoding.DecodeString(m.ValueBase64) // checked before
		}
		if len(m.Scope) >= len(keyScope) && m.Scope[:len(keyScope)] == keyScope {
			return fmt.Errorf("marks[%d]: scopes that begin with %s are the API's own", i, keyScope)
		}
		d.Mark(pawl.Mark{Scope: m.Scope, Key: m.Key, Value: value, For: seconds(m.ForSeconds), If: m.If,
			Remove: m.Remove})
	}
	return nil
}

// answered is what is remembered of a settle under its key, before it takes effect: the request,
// and what was decided.
type answered struct {
	Sum     [sha256.Size]byte `json:"sum"`
	Results []settled         `json:"results"`
}

// again gives a request that was here before the answer that it had then. The store gives it its
// outcome.
func (v *verdicts) again(ctx context.Context, id string, q *settleRequest, now time.Time) error {
	said, err := json.Marshal(q)
	if err != nil {
		return err
	}
	mine := answered{Sum: sha256.Sum256(said), Results: v.results}
	text, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	got, err := v.remember(ctx, "settle", id, text)
	if err != nil {
		return err
	}
	var first answered
	if err := json.Unmarshal(got, &first); err != nil || len(first.Results) != len(v.results) || first.Sum != mine.Sum {
		return otherRequest()
	}
	v.results = first.Results
	for n, i := range v.at {
		if next := v.results[i].NextAt; next != nil {
			v.batch.Items[n].After = max(next.Sub(now), 0)
		}
	}
	return nil
}

// settle takes effect, and says of each what became of it.
func (v *verdicts) settle(ctx context.Context) error {
	if len(v.batch.Items) == 0 {
		return nil
	}
	refused, err := v.api.store.Settle(ctx, v.batch)
	if err != nil {
		return err
	}
	bad := map[int]error{}
	for _, r := range refused {
		bad[r.Index] = r.Err
	}
	woken := map[string]bool{}
	for n, i := range v.at {
		t, out := &v.tickets[n], &v.results[i]
		if err := bad[n]; err != nil {
			lost := errors.Is(err, pawl.ErrLeaseLost)
			*out = settled{Token: out.Token, Action: actionLost}
			if !lost {
				out.Action, out.Error = actionRefused, err.Error()
				continue
			}
		} else if v.api.config.Events != nil {
			v.api.config.Events.Event(v.told[n].Filled())
		}
		v.api.workers.settled(t.Owner, t.Fence)
		woken[t.Topic] = true
	}
	for topic := range woken {
		v.api.hub.wake(topic) // what is behind in a lane may go on
	}
	return nil
}
