package dispatch

import "github.com/pawl-dev/pawl/store"

// listenLoop lets the store wake the claimer.
func (d *Dispatcher) listenLoop(w store.Waker) {
	names := make([]string, len(d.topics))
	for i, t := range d.topics {
		names[i] = t.Name
	}
	for try := 0; ; try++ {
		ch, err := w.Listen(d.claimIO, names...)
		if err == nil {
			d.listen(ch)
			return
		}
		if !d.sleep(d.outage.backoff(try, d.cfg.Rand)) {
			return
		}
	}
}

func (d *Dispatcher) listen(ch <-chan struct{}) {
	for {
		select {
		case <-ch:
			d.Wake()
		case <-d.stop:
			return
		}
	}
}
