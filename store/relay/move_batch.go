package relay

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// mostBytes bounds a call to the log. A claim is bounded like this, too, but not what a
// side store makes of it that compresses: that can only be estimated. It is half of
// what a call takes, so that the log may add something to each message.
const mostBytes = store.MaxBatchBytes / 2

// moveBatch is what a claim gave of one topic of the side store.
type moveBatch struct {
	*Store
	ds      []pawl.Delivery
	sent    time.Time // the claim
	answers []answer  // of the log, to each
}

// answer is the log's answer about a message; the zero value means that the log has it.
type answer struct {
	err   error
	final bool // refused, by a call that took the others
}

// carry offers the messages to the log and settles them. It tells whether the log
// took something, and what failed.
func (p *moveBatch) carry() (stored bool, err error) {
	ctx, cancel := p.bound()
	defer cancel()
	p.answers = make([]answer, len(p.ds))
	failed := p.send(ctx)
	items := make([]store.Settlement, len(p.ds))
	for i := range p.ds {
		items[i] = p.verdict(i)
		stored = stored || items[i].Verdict == store.Ack
	}
	// Also when the process stops: what was brought over should not come again.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Lease/3)
	defer cancel()
	refused, err := p.side.Settle(end, store.NewBatch(items...))
	p.remember(items, refused, err)
	return stored, errors.Join(failed, err)
}

// closeWait is how long Close waits for what is on its way to the log.
const closeWait = 5 * time.Second

// bound is for the calls to the log. Close does not cancel the one that is under way: its
// outcome would be unknown, and all of it would come again.
func (p *moveBatch) bound() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(p.ctx), p.sent.Add(p.cfg.Lease*2/3))
	stop := context.AfterFunc(p.ctx, func() {
		select {
		case <-time.After(closeWait):
			cancel()
		case <-ctx.Done():
		}
	})
	return ctx, func() {
		stop()
		cancel()
	}
}

// send offers the messages to the log, in as many calls as their size asks for. It
// returns the first failure.
func (p *moveBatch) send(ctx context.Context) (failed error) {
	had := p.had()
	closed := map[string]error{} // keys with a failed message, which nothing may overtake
	for next := 0; next < len(p.ds); {
		var msgs []pawl.Message
		var at []int
		for size := 0; next < len(p.ds); next++ {
			if had[next] {
				continue
			}
			m := p.message(next)
			if err := closed[string(m.Key)]; m.Key != nil && err != nil {
				p.answers[next].err = err
				continue
			}
			if size += m.Size(); size > mostBytes && len(msgs) > 0 {
				break
			}
			msgs, at = append(msgs, m), append(at, next)
		}
		if len(msgs) == 0 {
			break
		}
		receipts, err := p.log.Append(store.Accepted(ctx), store.NewBatch(msgs...))
		failed = cmp.Or(failed, err)
		for j, r := range store.Answers(len(msgs), receipts, err) {
			a := answer{err: r.Err, final: err == nil && r.Outcome() == store.Refused}
			p.answers[at[j]] = a
			if a.err != nil && !a.final {
				failed = cmp.Or(failed, a.err)
				if msgs[j].Key != nil {
					closed[string(msgs[j].Key)] = a.err
				}
			}
		}
	}
	return failed
}

// message is one of the messages as the log gets it.
func (p *moveBatch) message(i int) pawl.Message {
	m := p.ds[i].Message
	m.Topic = strings.TrimPrefix(m.Topic, p.cfg.Prefix)
	m.Unique, m.Delay = pawl.Unique{}, 0
	return m
}

// verdict is the settlement of a message of the side store after it was offered to the
// log.
func (p *moveBatch) verdict(i int) store.Settlement {
	d, a := &p.ds[i], p.answers[i]
	st := store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack}
	if a.err == nil {
		return st
	}
	st.Failure = store.Failure{Kind: "Relay", Error: a.err.Error()}
	if a.final {
		st.Verdict = store.Dead
		return st
	}
	st.Verdict, st.After = store.Release, retryPause(d.Waited)
	return st
}

// The bounds of retryPause.
const (
	leastRetryPause = time.Second
	mostRetryPause  = time.Minute
)

// retryPause is for how long a lane stays closed of which the log did not take the first
// message: for as long again as that has waited. Open, it would keep its place, and as
// many of them as are claimed at once would keep out all others for as long as they fail.
func retryPause(waited time.Duration) time.Duration {
	return min(max(waited, leastRetryPause), mostRetryPause)
}
