package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// prepare declares settings and reads the values that ranks are made of. It waits for a
// store that is not reachable, and returns errors that a person must deal with.
func (d *Dispatcher) prepare(ctx context.Context) error {
	topics, ok := store.As[store.Topics](d.store)
	if !ok {
		return nil
	}
	for _, t := range d.topics {
		for try := 0; ; try++ {
			err := d.prepareTopic(ctx, topics, t)
			if err == nil || ctx.Err() != nil {
				break
			}
			if d.endsRun(err) {
				return fmt.Errorf("prepare topic %s: %w", t.Name, err)
			}
			if !d.pause(ctx, d.outage.backoff(try, d.cfg.Rand)) {
				break
			}
		}
	}
	return nil
}

func (d *Dispatcher) prepareTopic(ctx context.Context, topics store.Topics, t *topic) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	began := time.Now()
	var now store.Topic
	var err error
	if t.Settings.States() {
		now, err = topics.Declare(ctx, t.Settings)
	} else {
		now, err = topics.Topic(ctx, t.Name)
	}
	if errors.Is(err, store.ErrNotFound) {
		now, err = store.NewTopic(t.Name), nil // an append will create it
	}
	if ctx.Err() == nil || err == nil {
		d.called("prepare", began, 1, err)
	}
	if err == nil {
		t.ageing = now.Ageing
	}
	return err
}

// pause waits; false if Run is to end.
func (d *engine) pause(ctx context.Context, length time.Duration) bool {
	t := time.NewTimer(length)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-d.stop:
	}
	return false
}

// isEmpty asks the store whether nothing is left to do in any topic. It asks
// seldom, and not before nothing is held here.
func (d *claimer) isEmpty() bool {
	d.mu.Lock()
	now := d.engine.now()
	ask := d.held == 0 && d.claiming == 0 && d.zombies == 0 && now >= d.nextLook
	if ask {
		d.nextLook = now + min(firstLook<<min(d.looks, 10), maxLook)
		d.looks++
	} else if d.held > 0 {
		d.looks = 0
	}
	d.mu.Unlock()
	if !ask {
		return false
	}
	topics, _ := store.As[store.Topics](d.store)
	ctx, cancel := context.WithTimeout(d.claimIO, settleTimeout)
	defer cancel()
	began := time.Now()
	stats, err := topics.Stats(ctx, d.engine.names()...)
	d.called("stats", began, len(stats), err)
	left := int64(0)
	for _, s := range stats {
		left += s.Waiting + s.Delayed + s.Leased
	}
	return err == nil && left == 0
}

const (
	firstLook = 10 * time.Millisecond
	maxLook   = time.Second
)
