package relay

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// row is a message as it was stored in the side store once. By its id alone, one that
// is stored anew when the first is gone would be taken for it.
type row struct {
	topic, id string
	stored    int64
}

func rowOf(d *pawl.Delivery) row { return row{d.Topic, d.ID, d.EnqueuedAt.UnixNano()} }

// brought is what the log has and the side store may still have, because the ack did
// not count: it is not to be sent again. The oldest are forgotten, so that it does not
// grow by what never comes again; and all of it is, with the process.
type brought struct{ young, old map[row]bool }

// mostBrought is how many of the youngest are remembered in any case.
const mostBrought = 10_000

func (b *brought) has(r row) bool { return b.young[r] || b.old[r] }

func (b *brought) drop(r row) {
	delete(b.young, r)
	delete(b.old, r)
}

func (b *brought) add(r row) {
	if len(b.young) >= mostBrought {
		b.young, b.old = nil, b.young
	}
	if b.young == nil {
		b.young = map[row]bool{}
	}
	b.young[r] = true
}

// had tells which messages the log has already.
func (p *parcel) had() []bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	had := make([]bool, len(p.ds))
	for i := range p.ds {
		had[i] = p.brought.has(rowOf(&p.ds[i]))
	}
	return had
}

// remember takes note of which acks did not count. Where the outcome is not known, it
// is as if none had.
func (p *parcel) remember(items []store.Settlement, refused []store.Refusal, err error) {
	left := map[int]bool{}
	for _, r := range refused {
		left[r.Index] = true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range items {
		switch r := rowOf(&p.ds[i]); {
		case items[i].Verdict != store.Ack:
		case err != nil || left[i]:
			p.brought.add(r)
		default:
			p.brought.drop(r)
		}
	}
}
