package relay

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// parcel is what a claim gave of one topic of the side store.
type parcel struct {
	*Store
	ds   []pawl.Delivery
	sent time.Time // the claim
}

// carry offers the messages to the log and settles them. It tells whether the log
// took something, and what failed.
func (p *parcel) carry() (stored bool, err error) {
	ctx, cancel := context.WithDeadline(p.ctx, p.sent.Add(p.cfg.Lease*2/3))
	defer cancel()
	msgs := make([]pawl.Message, len(p.ds))
	for i := range p.ds {
		msgs[i] = p.message(i)
	}
	receipts, failed := p.log.Append(ctx, store.NewBatch(msgs...))
	items := make([]store.Settlement, len(p.ds))
	for i := range p.ds {
		items[i] = verdict(&p.ds[i], receipts, i, failed)
		stored = stored || items[i].Verdict == store.Ack
	}
	// Also when the process stops: what was brought over should not come again.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.cfg.Lease/3)
	defer cancel()
	_, err = p.side.Settle(end, store.NewBatch(items...))
	return stored, errors.Join(failed, err)
}

// message is one of the messages as the log gets it.
func (p *parcel) message(i int) pawl.Message {
	m := p.ds[i].Message
	m.Topic = strings.TrimPrefix(m.Topic, p.cfg.Prefix)
	m.Unique, m.Delay = pawl.Unique{}, 0
	return m
}

// verdict is what becomes of a message of the side store after it was offered to
// the log.
func verdict(d *pawl.Delivery, receipts []store.Receipt, i int, failed error) store.Settlement {
	st := store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack}
	err := failed
	if receipts != nil {
		err = receipts[i].Err
	}
	if err == nil {
		return st
	}
	st.Failure = store.Failure{Kind: "Relay", Error: err.Error()}
	if failed == nil { // the log refused this one, and took the others
		st.Verdict = store.Dead
		return st
	}
	st.Verdict, st.After = store.Release, patience(d.Waited)
	return st
}

// The bounds of patience.
const (
	leastPatience = time.Second
	mostPatience  = time.Minute
)

// patience is for how long a lane stays closed of which the log did not take the first
// message: for as long again as that has waited. Open, it would keep its place, and as
// many of them as are claimed at once would keep out all others for as long as they fail.
func patience(waited time.Duration) time.Duration {
	return min(max(waited, leastPatience), mostPatience)
}
