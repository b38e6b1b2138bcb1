package relay

import (
	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// row identifies one storing of a message in the side store. The id alone would not do:
// a message that is stored again after the first is gone would be mistaken for it.
type row struct {
	topic, id string
	stored    int64
}

func rowOf(d *pawl.Delivery) row { return row{d.Topic, d.ID, d.EnqueuedAt.UnixNano()} }

// brought has the messages that are in the log and may still be in the side store,
// because the ack failed: they must not be sent again. The oldest are forgotten, so
// that it does not grow for ever; all are forgotten with the process.
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
func (p *moveBatch) had() []bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	had := make([]bool, len(p.ds))
	for i := range p.ds {
		had[i] = p.brought.has(rowOf(&p.ds[i]))
	}
	return had
}

// remember records which acks failed. If the outcome is unknown, all count as failed.
func (p *moveBatch) remember(items []store.Settlement, refused []store.Refusal, err error) {
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
