package spill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// rowBatch is rows of one topic on their way back.
type rowBatch struct {
	*Store
	topic    string
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
	ctx, cancel := context.WithDeadline(p.stop, p.sent.Add(p.cfg.Lease*9/10)) // while it holds them
	defer cancel()
	if resting {
		for _, r := range p.runs {
			p.send(ctx, r)
		}
	} else if p.send(ctx, p.runs...); !p.stored && p.err != nil && len(p.runs) > 1 {
		p.oneByOne(ctx)
	}
	p.mu.Lock()
	h := p.health(p.topic)
	specific := p.stored
	if p.stored {
		h.took()
	} else if p.err != nil {
		specific = p.failing(h, false, p.answered, p.err)
	}
	nextTry := time.Until(h.probeAt)
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
	receipts, err := p.primary.Append(store.Accepted(bound), store.Batch[pawl.Message]{
		ID: partID("compensate", p.topic, items), Items: items})
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
	var buried, failed error
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
				ended, buried = true, r.answers[i].Err
				p.fail(&st, d, store.Dead, buried, "refused by the primary store")
			case i < len(r.answers) && specific:
				ended, failed = true, r.answers[i].Err
				p.fail(&st, d, store.Retry, failed, fmt.Sprintf("try %d of %d", d.Attempt, p.cfg.MaxRetries))
			case r.spoiled != nil && i == len(r.messages) && i == len(r.answers):
				ended, buried = true, r.spoiled
				p.fail(&st, d, store.Dead, buried, "not a row")
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
	p.report(t, failed, buried)
	return true
}

// fail makes a settlement a failure.
func (p *rowBatch) fail(st *store.Settlement, d *pawl.Delivery, v store.Verdict, err error, rule string) {
	action := "dead letter"
	if v == store.Retry && d.Attempt >= p.cfg.MaxRetries {
		v = store.Dead
	}
	if v == store.Retry {
		st.After = min(p.jitter(p.backoff(d.Attempt, err)), pawl.MaxDelay)
		action = "retry in " + st.After.Round(time.Millisecond).String()
	}
	st.Verdict = v
	st.Failure = store.Failure{Kind: KindSpill, Error: err.Error(), Rule: "spill: " + rule, Action: action,
		Worker: p.cfg.Owner, Ran: time.Since(p.sent)}
}

// backoff is how long a row waits after a try that failed. One that was not answered
// in time may have been slow only, as the first ones are when the primary store is
// back: it waits little, twice.
func (p *rowBatch) backoff(attempt int, err error) time.Duration {
	n := attempt - 1
	if errors.Is(err, store.ErrUnknown) {
		switch n {
		case 0:
			return p.cfg.ProbeFirst
		case 1:
			return p.cfg.ProbeMax
		}
		n -= 2
	}
	return store.Doubled(p.cfg.RetryFirst, p.cfg.RetryMax, n)
}

// KindSpill is the kind of a row that could not be brought back.
const KindSpill pawl.Kind = "Spill"

// settled settles, again while the outcome is not known, and ends latches. What it
// cannot settle comes again when its lease has ended, and is settled then: what the
// primary store has is not sent again.
func (p *rowBatch) settled(items []store.Settlement, of []*pawl.Delivery) bool {
	batch := store.NewBatch(items...)
	// Close waits for this: what the primary store has is to be no row any more.
	ctx, cancel := context.WithDeadline(context.WithoutCancel(p.stop), p.sent.Add(p.cfg.Lease))
	defer cancel()
	bound, end := context.WithTimeout(ctx, p.cfg.CloseTimeout/2)
	defer end()
	var refusals []store.Refusal
	for try := 0; ; try++ {
		var err error
		if refusals, err = p.fallback.Settle(bound, batch); err == nil {
			break
		}
		p.trouble("settle", err)
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
			p.gone(p.topic, d.Key, d.ID)
		}
	}
	return true
}

func (p *rowBatch) report(t tallies, failed, buried error) {
	p.tally(p.topic, func(c *Totals) {
		c.Compensated += int64(t.stored)
		c.Proven += int64(t.proven)
		c.CompensationsFailed += int64(t.failed + t.buried)
		c.Buried += int64(t.buried)
	})
	if t.stored > 0 {
		p.cfg.Observer.Compensated(p.topic, t.stored, t.proven)
	}
	if t.failed > 0 {
		p.cfg.Observer.Retried(p.topic, t.failed, failed)
	}
	if t.buried > 0 {
		if buried == nil {
			buried = failed
		}
		p.cfg.Observer.Buried(p.topic, t.buried, buried)
	}
}
