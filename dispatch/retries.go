package dispatch

import (
	"context"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/statesync"
	"github.com/pawl-dev/pawl/store"
)

// RetriesOn returns the retries of a topic of s, with the default. If the store keeps retries in the process, as Kafka
// does, the default is that of the policy.
func RetriesOn(s store.Store, r policy.Retries) policy.Retries {
	if r.Attempts == 0 && r.For == 0 && store.Can(s, store.CanDelay) {
		r.For = policy.DefaultRetryFor
	}
	return r
}

// OpenRetries opens the retries that operators have set for topics (`pawl topics set`); nil if the store has no state.
func OpenRetries(s store.Store, log *slog.Logger) *statesync.Topic[policy.Retries] {
	kept, err := statesync.New[policy.Retries](s, policy.RetriesTopic, statesync.Config{Every: time.Second, Logger: log})
	if err != nil {
		return nil
	}
	return kept
}

// WatchRetries tells what is set and every change of it, until ctx ends; a zero value is that nothing is set any more.
func WatchRetries(ctx context.Context, kept *statesync.Topic[policy.Retries],
	set func(topic string, r policy.Retries)) {
	if kept == nil {
		return
	}
	for v := range kept.Watch(ctx, "") {
		if v.Deleted {
			v.Value = policy.Retries{}
		}
		set(v.Key, v.Value)
	}
}

func (d *Dispatcher) watchRetries() {
	WatchRetries(d.claimIO, d.inState, func(topic string, r policy.Retries) {
		if t := d.byName[topic]; t != nil {
			t.kept.Store(&r)
		}
	})
}

// RetriesInState are the figures of the retries that operators have set for topics.
func (d *Dispatcher) RetriesInState() (f statesync.Figures) {
	if d.inState != nil {
		f = d.inState.Figures()
	}
	return f
}

// retries has the retries that an operator or the topic has set.
func (t *topic) retries() policy.Retries {
	if kept := t.kept.Load(); kept != nil {
		return kept.Or(t.Retries)
	}
	return t.Retries
}

// retriesOf returns the retries that a delivery states, or those of r. A message that states for how long it is
// retried, or how often, is bound by neither of its topic.
func retriesOf(del *pawl.Delivery, r policy.Retries) policy.Retries {
	if del == nil {
		return r
	}
	if within, attempts := del.RetriedFor(), del.RetriedUpTo(); within > 0 || attempts > 0 {
		r.For, r.Attempts = within, attempts
	}
	return r
}
