package api

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// appender gathers single appends: while one call is on its way, what comes next waits for the
// next call, together.
type appender struct {
	store store.Store
	queue chan *toAppend
}

type toAppend struct {
	msgs []pawl.Message
	got  []store.Receipt
	err  error
	done chan struct{}
}

const (
	appenders   = 2       // calls at once
	gathered    = 1000    // messages of a call
	gatherBytes = 4 << 20 // from so many bytes on, a request is a call of its own
)

func newAppender(a *API) *appender {
	p := &appender{store: a.store, queue: make(chan *toAppend, gathered)}
	for range appenders {
		a.wg.Go(func() { p.loop(a.ctx) })
	}
	return p
}

// do appends messages. It ends with the store's answer, whatever becomes of the client.
func (p *appender) do(ctx context.Context, msgs []pawl.Message) ([]store.Receipt, error) {
	size := 0
	for i := range msgs {
		size += msgs[i].Size()
	}
	t := &toAppend{msgs: msgs, done: make(chan struct{})}
	if len(msgs) == 1 && size < gatherBytes/8 {
		select {
		case p.queue <- t:
			<-t.done
			return t.got, t.err
		default:
		}
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	return p.store.Append(call, store.NewBatch(msgs...))
}

func (p *appender) loop(ctx context.Context) {
	var batch []*toAppend
	for {
		select {
		case first := <-p.queue:
			batch = append(batch[:0], first)
		case <-ctx.Done():
			p.refuse()
			return
		}
		size := batch[0].msgs[0].Size()
	more:
		for len(batch) < gathered && size < gatherBytes {
			select {
			case t := <-p.queue:
				batch = append(batch, t)
				size += t.msgs[0].Size()
			default:
				break more
			}
		}
		p.call(batch)
	}
}

// refuse answers those that come too late.
func (p *appender) refuse() {
	for {
		select {
		case t := <-p.queue:
			t.err = store.ErrClosed
			close(t.done)
		default:
			return
		}
	}
}

func (p *appender) call(batch []*toAppend) {
	all := make([]pawl.Message, len(batch))
	for i, t := range batch {
		all[i] = t.msgs[0]
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTime)
	got, err := p.store.Append(ctx, store.NewBatch(all...))
	cancel()
	for i, t := range batch {
		if t.err = err; i < len(got) {
			t.got = got[i : i+1]
			if got[i].Err == nil && err != nil && len(got) == len(batch) {
				t.err = nil // the store knows the outcome of each
			}
		}
		close(t.done)
	}
}
