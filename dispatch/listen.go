package dispatch

import "github.com/pawl-dev/pawl/store"

// listenLoop lets the store wake the claimer.
func (d *claimer) listenLoop(w store.Waker) {
	for try := 0; ; try++ {
		ch, err := w.Listen(d.claimIO, d.engine.names()...)
		if err == nil {
			d.listen(ch)
			return
		}
		if !d.engine.pause(d.claimIO, d.outage.backoff(try, d.cfg.Rand)) {
			return
		}
	}
}

// names are those of all topics.
func (d *engine) names() []string {
	names := make([]string, len(d.topics))
	for i, t := range d.topics {
		names[i] = t.Name
	}
	return names
}

func (d *claimer) listen(ch <-chan struct{}) {
	for {
		select {
		case <-ch:
			d.Wake()
		case <-d.stop:
			return
		}
	}
}
