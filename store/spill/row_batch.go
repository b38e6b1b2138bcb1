package spill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// rowBatch is rows of one topic on their way back.
type rowBatch struct {
	*Store
	topic    *topic
	sent     time.Time // the claim
	runs     []*run
	answered bool
	stored   bool // the primary store took something
	err      error
}

// singleRuns is how many runs are tried one by one, of a batch that failed as a
// whole, until one is taken. Those behind are given back.
const singleRuns = 3

// carry sends the rows and settles them. It reports whether the primary store takes
// something.
func (p *rowBatch) carry(resting bool) (more bool) {
	ctx, cancel := context.WithDeadline(p.stop, p.sent.Add(p.cfg.pace.lease*9/10)) // while it holds them
	defer cancel()
	if resting {
		for _, r := range p.runs {
			p.send(ctx, r)
		}
	} else if p.send(ctx, p.runs...); !p.stored && p.err != nil && len(p.runs) > 1 {
		p.oneByOne(ctx)
	}
	p.mu.Lock()
	specific := p.stored
	if p.stored {
		p.topic.took()
	} else if p.err != nil {
		specific = p.failing(p.topic, false, p.answered, p.err)
	}
	nextTry := time.Until(p.topic.probeAt)
	p.mu.Unlock()
	return p.settle(specific, max(nextTry, 0)) && (p.stored || p.err == nil)
}

// oneByOne finds out whether single rows are to blame for the failure of all.
func (p *rowBatch) oneByOne(ctx context.Context) {
	for n, r := range p.runs {
		if !p.stored && n == singleRuns {
			for _, r := range p.runs[n:] {
				r.answers = nil
			}
			return
		}
		p.send(ctx, r)
	}
}

// send appends the messages of runs to the primary store in one call, but for those
// that it has already.
func (p *rowBatch) send(ctx context.Context, runs ...*run) {
	if len(p.brought) > maxBrought {
		clear(p.brought)
	}
	var items []pawl.Message
	for _, r := range runs {
		for i := range r.messages {
			if !p.has(&r.rows[i]) {
				items = append(items, r.messages[i])
			}
		}
	}
	answers, full := p.append(ctx, items)
	for _, r := range runs {
		r.answers = make([]store.Receipt, len(r.messages))
		for i := range r.answers {
			a := &r.answers[i]
			if p.has(&r.rows[i]) {
				a.ID = r.rows[i].ID
				continue
			}
			*a, answers = answers[0], answers[1:]
			switch a.Outcome() {
			case store.Stored, store.Duplicate:
				p.stored = true
				p.brought[r.rows[i].ID] = r.rows[i].Headers[HeaderSince]
			case store.Failed, store.Unknown:
				p.answered, p.err = full && says(a.Err), a.Err
			}
		}
	}
}

// append appends messages to the primary store. full: each has an answer of its own.
func (p *rowBatch) append(ctx context.Context, items []pawl.Message) (answers []store.Receipt, full bool) {
	if len(items) == 0 {
		return nil, true
	}
	bound, cancel := p.primaryBound(ctx)
	defer cancel()
	receipts, err := p.primary.Append(backend.Accepted(bound), store.Batch[pawl.Message]{
		ID: partID("compensate", p.topic.name, items), Items: items})
	full = len(receipts) == len(items)
	answers = store.Answers(len(items), receipts, err)
	for i := range answers {
		if !full && answers[i].Outcome() == store.Refused {
			// The call was refused, not its rows: who lost a right may get it back.
			answers[i].Err = &store.Error{Op: "append", Code: store.ErrUnavailable, Err: answers[i].Err}
		}
	}
	return answers, full
}

// maxBrought bounds what is known of rows that were brought back and are there still. If
// it is forgotten they are sent again.
const maxBrought = 100_000

// has reports whether the primary store took this row before, and only its ack is
// missing. A row of the same id that was spilled another time is another one.
func (p *rowBatch) has(row *pawl.Delivery) bool {
	since, ok := p.brought[row.ID]
	return ok && since == row.Headers[HeaderSince]
}

// tallies are what a settle came to.
type tallies struct{ stored, proven, failed, buried int }

// settle settles the rows by their answers. specific: a failure is that of the row,
// and counts.
func (p *rowBatch) settle(specific bool, nextTry time.Duration) bool {
	var items []store.Settlement
	var of []*pawl.Delivery
	var t tallies
	for _, r := range p.runs {
		for i := range r.rows {
			d := &r.rows[i]
			st := store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack}
			ended := false
			switch {
			case i < len(r.answers) && r.answers[i].Err == nil:
				t.stored++
				if r.answers[i].DuplicateOf == d.ID {
					t.proven++
				}
			case i < len(r.answers) && r.answers[i].Outcome() == store.Refused &&
				!errors.Is(r.answers[i].Err, store.ErrClosed):
				ended = true
				p.fail(&st, d, store.Dead, r.answers[i].Err, "refused by the primary store")
			case i < len(r.answers) && specific:
				ended = true
				p.fail(&st, d, store.Retry, r.answers[i].Err,
					fmt.Sprintf("try %d of %d", d.Attempt, p.cfg.pace.maxRetries))
			case r.spoiled != nil && i == len(r.messages) && i == len(r.answers):
				ended = true
				p.fail(&st, d, store.Dead, r.spoiled, "not a row")
			default:
				ended = true
				st.Verdict = store.Release
				if i < len(r.answers) {
					st.After, st.Failure.Error = nextTry, r.answers[i].Err.Error()
				}
			}
			switch st.Verdict {
			case store.Dead:
				t.buried++
			case store.Retry:
				t.failed++
			}
			items, of = append(items, st), append(of, d)
			if ended {
				break
			}
		}
	}
	if !p.settled(items, of) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &p.topic.Totals
	c.Compensated += int64(t.stored)
	c.Proven += int64(t.proven)
	c.CompensationsFailed += int64(t.failed + t.buried)
	c.Buried += int64(t.buried)
	return true
}

// fail makes a settlement a failure.
func (p *rowBatch) fail(st *store.Settlement, d *pawl.Delivery, v store.Verdict, err error, rule string) {
	action := "dead letter"
	if v == store.Retry && d.Attempt >= p.cfg.pace.maxRetries {
		v = store.Dead
	}
	if v == store.Retry {
		st.After = min(jitter(p.backoff(d.Attempt, err)), pawl.MaxDelay)
		action = "retry in " + st.After.Round(time.Millisecond).String()
	}
	st.Verdict = v
	st.Failure = store.Failure{Kind: KindSpill, Error: err.Error(), Rule: "spill: " + rule, Action: action,
		Ran: time.Since(p.sent)}
}

// backoff is how long a row waits after a try that failed. One that was not answered
// in time may have been slow only, as the first ones are when the primary store is
// back: it waits little, twice.
func (p *rowBatch) backoff(attempt int, err error) time.Duration {
	n := attempt - 1
	if errors.Is(err, store.ErrUnknown) {
		switch n {
		case 0:
			return p.cfg.pace.probeFirst
		case 1:
			return p.cfg.pace.probeMax
		}
		n -= 2
	}
	return store.Doubled(p.cfg.pace.retryFirst, p.cfg.pace.retryMax, n)
}

// KindSpill is the kind of a row that could not be brought back.
const KindSpill pawl.Kind = "Spill"

// settled settles, again while the outcome is not known, and forgets what is gone. What it
// cannot settle comes again when its lease has ended, and is settled then: what the
// primary store has is not sent again.
func (p *rowBatch) settled(items []store.Settlement, of []*pawl.Delivery) bool {
	batch := store.NewBatch(items...)
	// Close waits for this: what the primary store has is to be no row any more.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(p.stop), p.sent.Add(p.cfg.pace.lease))
	defer cancel()
	bound, end := context.WithTimeout(ctx, closeTimeout/2)
	defer end()
	var refusals []store.Refusal
	for try := 0; ; try++ {
		var err error
		if refusals, err = p.fallback.Settle(bound, batch); err == nil {
			break
		}
		if !errors.Is(err, store.ErrUnavailable) ||
			store.Sleep(bound, store.Doubled(10*time.Millisecond, time.Second, try)) != nil {
			return false
		}
	}
	lost := map[int]bool{}
	for _, r := range refusals {
		lost[r.Index] = true
	}
	for i, d := range of {
		if v := items[i].Verdict; !lost[i] && (v == store.Ack || v == store.Dead) {
			delete(p.brought, d.ID)
			p.gone(d)
		}
	}
	return true
}

// gone says that a row is in the fallback store no more.
func (p *rowBatch) gone(row *pawl.Delivery) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.topic.latched[string(row.Key)] == row.ID {
		delete(p.topic.latched, string(row.Key))
	}
}
