package forward

import (
	"sync/atomic"

	"github.com/pawl-dev/pawl/dispatch"
)

// sendGate keeps a process that does not lead from claiming what is to be sent.
type sendGate struct {
	*dispatch.Limiter
	window *gateWindow
}

// gateWindow is the window of the gate's limiter: everything, or nothing.
type gateWindow struct{ open atomic.Bool }

// Size implements [dispatch.Window].
func (w *gateWindow) Size() float64 {
	if w.open.Load() {
		return 1e6
	}
	return 0
}

// Ended implements [dispatch.Window]: nothing is learned.
func (*gateWindow) Ended(dispatch.WindowCall) {}

func newGate(name string) (*sendGate, error) {
	w := &gateWindow{}
	l, err := dispatch.NewLimiter(dispatch.LimitConfig{Name: name, Window: func() dispatch.Window { return w }})
	return &sendGate{l, w}, err
}

// set opens or closes it. Dispatchers look again at once.
func (g *sendGate) set(open bool) {
	g.window.open.Store(open)
	_ = g.Set(0, 0, 0) // it has no numbers; this wakes those who wait for it
}
