package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/store"
)

// TopicChange is what is to change in the settings of a topic. A nil field stays as it is.
type TopicChange struct {
	Order                    *store.Order
	Retry                    *string // head or tail
	Deadline, Ageing, Retain *time.Duration
	Park                     *bool
	MaxWaiting               *int64
	IfVersion                *int64 // the settings must be at this version
}

// changes reports whether c changes anything.
func (c *TopicChange) changes() bool {
	rest := *c
	rest.IfVersion = nil
	return rest != TopicChange{}
}

// Validate reports everything in c that no topic takes, each as a [*pawl.InvalidError].
func (c *TopicChange) Validate() error {
	var faults pawl.Faults
	for _, one := range []TopicChange{{Order: c.Order}, {Retry: c.Retry}, {Deadline: c.Deadline}, {Ageing: c.Ageing},
		{Retain: c.Retain}, {MaxWaiting: c.MaxWaiting}} {
		t := store.NewTopic("any")
		faults.Add(one.apply(&t))
	}
	return faults.Err()
}

// apply changes t, and reports the first thing that is wrong with it then.
func (c *TopicChange) apply(t *store.Topic) error {
	set(&t.Order, c.Order)
	set(&t.Deadline, c.Deadline)
	set(&t.Ageing, c.Ageing)
	set(&t.Retain, c.Retain)
	set(&t.Park, c.Park)
	set(&t.MaxWaiting, c.MaxWaiting)
	if c.Retry != nil {
		if t.Tail = *c.Retry == "tail"; !t.Tail && *c.Retry != "head" {
			return pawl.Invalid("retry", "is %q; it is head or tail", *c.Retry)
		}
	}
	return t.Validate()
}

// SetTopic declares a topic whose settings nobody has stated, and alters another; with dry it only says what the
// settings would be. Without a change it returns the settings.
func SetTopic(ctx context.Context, topics store.Topics, name string, c TopicChange, dry bool) (store.Topic, error) {
	now, err := topics.Topic(ctx, name)
	missing := errors.Is(err, store.ErrNotFound)
	if missing {
		now = store.NewTopic(name)
	} else if err != nil {
		return now, err
	}
	switch {
	case !c.changes() && missing:
		return now, err
	case c.IfVersion != nil && *c.IfVersion != now.Version:
		return now, &store.Error{Op: "set topic " + name, Code: store.ErrConflict,
			Err:  fmt.Errorf("it is at version %d, not %d", now.Version, *c.IfVersion),
			Hint: "look at it: pawl topics set " + name}
	case !c.changes():
		return now, nil
	}
	if err := c.Validate(); err != nil {
		return now, err
	}
	next := now
	if err := c.apply(&next); err != nil || dry {
		return next, err
	}
	if now.Version > 0 {
		return topics.Alter(ctx, next)
	}
	return topics.Declare(ctx, store.Declaration{
		Name: next.Name, Order: next.Order, Deadline: next.Deadline, Ageing: next.Ageing, Park: &next.Park,
		Tail: &next.Tail, Retain: &next.Retain, MaxWaiting: &next.MaxWaiting,
	})
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// serves reports whether a worker that is alive is registered for a topic.
func (w *Worker) serves(topic string) bool {
	return w.Registration != nil && w.Alive != nil && *w.Alive &&
		slices.ContainsFunc(w.Topics, func(t roster.Topic) bool { return t.Topic == topic })
}

// Unused returns the figures of a topic that is to be removed, unless somebody works on it or something is in it;
// with force, that may be waiting messages and dead letters.
func Unused(ctx context.Context, s store.Store, topics store.Topics, name string, force bool) (*store.TopicStats, error) {
	op := "remove topic " + name
	stats, err := topics.Stats(ctx, name)
	if err != nil {
		return nil, err
	}
	if len(stats) == 0 {
		return nil, &store.Error{Op: op, Code: store.ErrNotFound, Err: fmt.Errorf("there is no topic %q", name),
			Hint: "`pawl topics ls` lists all"}
	}
	refuse := func(next, why string, args ...any) error {
		return &store.Error{Op: op, Code: store.ErrConflict, Err: fmt.Errorf(why, args...), Hint: next}
	}
	workers, err := Workers(ctx, s)
	if err != nil && !errors.Is(err, store.ErrUnsupported) {
		return nil, err
	}
	for i := range workers {
		w := &workers[i]
		if w.serves(name) {
			return nil, refuse("stop it first", "worker %s serves it", w.Owner)
		}
	}
	st := &stats[0]
	switch {
	case st.Leased > 0:
		return nil, refuse("wait for them, or take them back: pawl reclaim --topic "+name,
			"%d messages are leased by workers", st.Leased)
	case !force && st.Waiting+st.Delayed+st.Dead+st.Resolved > 0:
		return nil, refuse("let workers empty it, or add --force to remove them, too",
			"it has %s and %s", Counted(st.Waiting+st.Delayed, "message"),
			Counted(st.Dead+st.Resolved, "dead letter"))
	}
	return st, nil
}
