package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"

	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/statesync"
	"github.com/pawl-dev/pawl/store"
)

// limitsTopic is the topic of the state (package statesync) in which operators set limits of all processes, by name.
const limitsTopic = "limits"

// ownLimit begins the key of the limit that a topic has of its own. No other limit has a slash in its name.
const ownLimit = "topics/"

// limitSet are the numbers of a limit that an operator has set. They count before those of the file; nil: that of the
// file counts.
type limitSet struct {
	Rate        *float64 `json:"rate"` // a second
	Burst       *int     `json:"burst"`
	Concurrency *int     `json:"concurrency"`
}

// UnmarshalJSON refuses what no limit may be set to.
func (l *limitSet) UnmarshalJSON(text []byte) error {
	type plain limitSet
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode((*plain)(l)); err != nil {
		return err
	}
	probe, err := dispatch.NewLimiter(dispatch.LimitConfig{Name: limitsTopic, Rate: 1})
	if err == nil {
		err = probe.Check(*cmp.Or(l.Rate, new(1.0)), *cmp.Or(l.Burst, new(0)), *cmp.Or(l.Concurrency, new(0)))
	}
	if err != nil {
		return err
	}
	if *l == (limitSet{}) {
		return errors.New("it sets none of rate, burst and concurrency")
	}
	return nil
}

// CheckState refuses a value that the daemons would not take from a topic of the state that is theirs.
func CheckState(topic string, value []byte) error {
	switch topic {
	case limitsTopic:
		return json.Unmarshal(value, new(limitSet))
	case policyTopic:
		return json.Unmarshal(value, new(setOverride))
	case policy.RetriesTopic:
		return json.Unmarshal(value, new(policy.Retries))
	}
	return nil
}

// apply sets a limit to the numbers of a file, and to those of an operator before them; nil: as they are. With an
// error, it changes nothing. Only a reload gives it a file.
func (l *limit) apply(file *config.Limit, set *limitSet) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	by, of := cmp.Or(set, &l.set), cmp.Or(file, &l.now)
	if err := l.Set(*cmp.Or(by.Rate, &of.PerSecond), *cmp.Or(by.Burst, &of.Burst),
		*cmp.Or(by.Concurrency, &of.Concurrency)); err != nil {
		return err
	}
	l.set = *by
	if file != nil {
		l.now = *file
	}
	return nil
}

// watch gives limits the numbers that operators set while the process runs.
func (all limits) watch(ctx context.Context, kept *statesync.Topic[limitSet], log *slog.Logger) {
	refused := map[string]error{}
	for v := range kept.Watch(ctx, "") {
		l := all[v.Key]
		if l == nil {
			continue // of another process
		}
		err := l.apply(nil, &v.Value) // the value of a removal is empty
		if delete(refused, v.Key); err != nil {
			refused[v.Key] = err
		}
		if kept.Refused(refused); err != nil {
			continue
		}
		log.Info("limit set", "limit", v.Key, "version", v.Version, "writer", v.Writer)
	}
}

// openState opens what operators set in the state; a store that keeps none has nothing.
func (d *Daemon) openState() (err error) {
	if !store.Can(d.store, store.CanState) {
		return nil
	}
	if d.overrides, err = openOverrides(d.store, d.owner(), d.Logger); err != nil {
		return err
	}
	d.limitState, err = statesync.New[limitSet](d.store, limitsTopic,
		statesync.Config{Writer: d.owner(), Logger: d.Logger})
	return err
}

// stateFigures are the figures of what operators set in the state, by topic, for the metrics.
func (d *Daemon) stateFigures() map[string]statesync.Figures {
	return map[string]statesync.Figures{limitsTopic: d.limitState.Figures(), policyTopic: d.overrides.Figures(),
		policy.RetriesTopic: d.dispatcher.RetriesInState()}
}

// stateIgnored counts versions that this process did not take over, by reason.
func (d *Daemon) stateIgnored(set func(value float64, labels ...string)) {
	for topic, f := range d.stateFigures() {
		for why, n := range map[string]int64{"stale": f.Stale, "poisoned": f.Poisoned, "skipped": f.Skipped,
			"refused": f.Refused} {
			set(float64(n), topic, why)
		}
	}
}

// stateValuesIgnored says how many values this process ignores now.
func (d *Daemon) stateValuesIgnored(set func(value float64, labels ...string)) {
	for topic, f := range d.stateFigures() {
		set(float64(f.Ignored), topic)
	}
}
