package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/wire"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// Bounds of a lease.
const (
	maxTopics    = 100
	maxWait      = 10 * time.Minute
	defaultLease = 30 * time.Second
	defaultBytes = 16 << 20 // of bodies in an answer, if the client says nothing
)

// leaseRequest is the body of POST /v1/lease.
type leaseRequest struct {
	Topics       []string `json:"topics"`
	Limit        *int     `json:"limit"`
	MaxBytes     *int     `json:"max_bytes"`
	WaitSeconds  float64  `json:"wait_seconds"`
	LeaseSeconds *float64 `json:"lease_seconds"`
	Worker       string   `json:"worker"`

	limit, bytes int
	wait, lease  time.Duration
}

// check finds everything that is wrong with a request, and fills in defaults.
func (q *leaseRequest) check() error {
	var faults []wire.Fault
	bad := func(field, why string, args ...any) {
		faults = append(faults, wire.Fault{Field: field, Why: fmt.Sprintf(why, args...)})
	}
	q.limit, q.bytes, q.lease = 1, defaultBytes, defaultLease
	if len(q.Topics) == 0 || len(q.Topics) > maxTopics {
		bad("topics", "are 1 to %d", maxTopics)
	}
	seen := map[string]bool{}
	for i, t := range q.Topics {
		if err, ok := errors.AsType[*pawl.InvalidError](pawl.ValidTopic(t)); ok {
			bad(fmt.Sprintf("topics[%d]", i), "%s", err.Why)
		} else if seen[t] {
			bad(fmt.Sprintf("topics[%d]", i), "is given twice")
		}
		seen[t] = true
	}
	if q.Limit != nil {
		if q.limit = *q.Limit; q.limit < 1 || q.limit > MaxItems {
			bad("limit", "is %d; it goes from 1 to %d", q.limit, MaxItems)
		}
	}
	if q.MaxBytes != nil {
		if q.bytes = *q.MaxBytes; q.bytes < 1 || q.bytes > MaxBody {
			bad("max_bytes", "is %d; it goes from 1 to %d", q.bytes, MaxBody)
		}
	}
	if !(q.WaitSeconds >= 0 && q.WaitSeconds <= maxWait.Seconds()) {
		bad("wait_seconds", "goes from 0 to %.0f", maxWait.Seconds())
	}
	q.wait = seconds(q.WaitSeconds)
	if q.LeaseSeconds != nil {
		q.lease = seconds(*q.LeaseSeconds)
		if q.lease < 20*time.Millisecond || q.lease > store.MaxLease {
			bad("lease_seconds", "goes from 0.02 to %.0f", store.MaxLease.Seconds())
		}
	}
	if backend.AdmitClaim(nil, store.Lease{For: time.Second, Owner: q.Worker}) != nil {
		bad("worker", "is a text of at most 256 bytes")
	}
	return invalid(faults)
}

// outOfTime is why a number of seconds is refused that is not [inTime].
var outOfTime = fmt.Sprintf("goes from 0 to %.0f", pawl.MaxDelay.Seconds())

func inTime(f float64) bool { return f >= 0 && f <= pawl.MaxDelay.Seconds() }

// seconds is a number that was checked, or that a check refuses: what is too long is one second more than the most.
func seconds(f float64) time.Duration {
	if longest := pawl.MaxDelay; f > longest.Seconds() {
		return longest + time.Second
	}
	return time.Duration(f * float64(time.Second))
}

// leaseMessages is POST /v1/lease.
func (x *exchange) leaseMessages() error {
	var q leaseRequest
	if err := x.read(&q); err != nil {
		return err
	}
	if err := x.needTopic(q.Topics...); err != nil {
		return err
	}
	q.Worker = cmp.Or(q.Worker, x.caller.name)
	x.plain = x.local()       // packing costs more than all else that the API does for a lease
	x.api.bodies.give(x.held) // a lease may wait for long
	x.held = 0
	ctx, cancel := x.call()
	key, err := x.api.sealer.get(ctx)
	cancel()
	if err != nil {
		return err
	}
	worker := x.api.workers.enter(&q)
	defer x.api.workers.leave(worker)
	ds, err := x.wait(&q, worker)
	if err != nil {
		return err
	}
	now, sealing := time.Now(), keyed(key)
	if x.r.Context().Err() != nil {
		x.giveBack(ds, worker)
		return nil
	}
	b := []byte(`{"deliveries":[`)
	for i := range ds {
		if i > 0 {
			b = append(b, ',')
		}
		b = wire.AppendLeased(b, &ds[i], seal(sealing, ticketOf(&ds[i], q.Worker, now)))
	}
	x.w.Header().Set("Content-Type", jsonType)
	err = x.write(http.StatusOK, append(b, "]}\n"...))
	if err == nil && len(ds) > 0 {
		if err = x.control.Flush(); errors.Is(err, http.ErrNotSupported) {
			err = nil
		}
	}
	if err != nil { // a client that has it all may go away at once: that is no error
		x.giveBack(ds, worker)
	}
	return nil
}

// wait claims what is there, or waits for it as long as the client wants to.
func (x *exchange) wait(q *leaseRequest, worker *worker) ([]pawl.Delivery, error) {
	if q.wait == 0 {
		ds, _, err := x.claim(q, worker)
		return ds, err
	}
	h := x.api.hub
	w := h.join(q.Topics)
	if w == nil {
		return nil, &Problem{Status: http.StatusTooManyRequests, Title: "too many leases wait",
			Detail: fmt.Sprintf("%d leases wait here already", MaxWaiting), Next: "ask without wait_seconds, or later",
			after: time.Second}
	}
	more := false
	defer func() { h.leave(w, more) }()
	timer := time.NewTimer(q.wait)
	defer timer.Stop()
	for {
		ds, full, err := x.claim(q, worker)
		if err != nil || len(ds) > 0 {
			more = full
			return ds, err
		}
		if !h.rest(w) {
			continue
		}
		select {
		case <-w.woken:
		case <-timer.C:
			return nil, nil
		case <-x.r.Context().Done():
			return nil, nil
		case <-x.api.waits.Done():
			return nil, nil
		}
		if x.r.Context().Err() != nil {
			more = true
			return nil, nil
		}
	}
}

// claim takes what is there. Full: there may be more. A claim takes one message of a lane: clients
// work on what they get at the same time.
func (x *exchange) claim(q *leaseRequest, worker *worker) (ds []pawl.Delivery, full bool, err error) {
	s := x.api.store
	ctx, cancel := x.call()
	defer cancel()
	suspects, alone := x.api.workers.ask(ctx, x.api.store, worker, q)
	defer x.api.workers.asked(worker)
	if suspects < 0 {
		return nil, false, nil // it makes way for a message to be tried alone
	}
	left, bytes := q.limit, q.bytes
	begin := x.api.hub.turn(len(q.Topics))
	for i := range q.Topics {
		topic := q.Topics[(begin+i)%len(q.Topics)]
		got, err := s.Claim(ctx, []store.Want{{Topic: topic, Limit: left, MaxBytes: bytes, Run: 1}},
			store.Lease{For: q.lease, Owner: q.Worker, Suspects: suspects, Alone: alone && len(ds) == 0})
		if err != nil {
			if len(ds) > 0 {
				return ds, false, nil
			}
			return nil, false, err
		}
		x.api.workers.took(worker, got, q.lease, alone && len(ds) == 0)
		for j := range got {
			left, bytes = left-1, bytes-len(got[j].Body)
			suspects = max(suspects-store.Weight(got[j].Rescues), 0)
		}
		ds = append(ds, got...)
		if left <= 0 || bytes <= 0 || worker.solitary() {
			return ds, true, nil
		}
	}
	return ds, false, nil
}

// giveBack releases what a client did not get. It is not counted.
func (x *exchange) giveBack(ds []pawl.Delivery, worker *worker) {
	if len(ds) == 0 {
		return
	}
	batch := store.NewBatch[store.Settlement]()
	for i := range ds {
		batch.Items = append(batch.Items, store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Release,
			Failure: store.Failure{Error: "the client went away before it had the message"}})
		x.api.workers.settled(worker.name, ds[i].Token.Fence)
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	defer cancel()
	if _, err := x.api.store.Settle(ctx, batch); err != nil {
		x.api.config.Logger.Warn("messages that a client did not get come back when their lease ends",
			"messages", len(ds), "error", err)
	}
	for i := range ds {
		x.api.hub.wake(ds[i].Topic)
	}
}

// extendRequest is the body of POST /v1/extend.
type extendRequest struct {
	Tokens    []string `json:"tokens"`
	BySeconds *float64 `json:"by_seconds"`

	by time.Duration
}

type extended struct {
	Lost []string `json:"lost"`
}

// check finds out how far it extends.
func (q *extendRequest) check() error {
	if len(q.Tokens) > MaxItems {
		return tooLarge(fmt.Sprintf("%d tokens; a request has at most %d", len(q.Tokens), MaxItems))
	}
	for i := range q.Tokens {
		if len(q.Tokens[i]) > maxToken {
			return fault(fmt.Sprintf("tokens[%d]", i), "is longer than any that was given out")
		}
	}
	q.by = defaultLease
	if q.BySeconds != nil {
		q.by = seconds(*q.BySeconds)
	}
	if q.by <= 0 || q.by > store.MaxLease {
		return fault("by_seconds", fmt.Sprintf("is over 0 and at most %.0f", store.MaxLease.Seconds()))
	}
	return nil
}

// extendLeases is POST /v1/extend.
func (x *exchange) extendLeases() error {
	var q extendRequest
	if err := x.read(&q); err != nil {
		return err
	}
	ctx, cancel := x.call()
	defer cancel()
	key, err := x.api.sealer.get(ctx)
	if err != nil {
		return err
	}
	answer := extended{Lost: []string{}}
	texts := map[pawl.Token]string{}
	var tokens []pawl.Token
	sealing := keyed(key)
	for _, text := range q.Tokens {
		t, ok := unseal(sealing, text)
		if !ok || !x.caller.over(t.Topic) {
			answer.Lost = append(answer.Lost, text)
			continue
		}
		if _, twice := texts[t.Token]; !twice {
			tokens = append(tokens, t.Token)
		}
		texts[t.Token] = text
		x.api.workers.extended(t.Owner, t.Fence, q.by)
	}
	if len(tokens) > 0 {
		lost, err := x.api.store.Extend(ctx, q.by, tokens...)
		if err != nil {
			return err
		}
		for _, t := range lost {
			answer.Lost = append(answer.Lost, texts[t])
		}
	}
	return x.answer(http.StatusOK, answer)
}
