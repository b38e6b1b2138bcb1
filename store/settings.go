package store

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// The rules of [Topics], shared by all backends.

// Validate reports what is invalid in the declaration.
func (d *Declaration) Validate() error {
	t := NewTopic(d.Name)
	d.set(&t)
	return t.Validate()
}

// Validate reports what is invalid in the settings.
func (t *Topic) Validate() error {
	if err := pawl.ValidTopic(t.Name); err != nil {
		return err
	}
	switch {
	case t.Order != OrderKey && t.Order != OrderNone:
		return pawl.Invalid("order", "is %q; it is %q or %q", t.Order, OrderKey, OrderNone)
	case t.Deadline < time.Millisecond || t.Deadline > MaxLease:
		return pawl.Invalid("deadline", "is %v; it goes from 1ms to %v", t.Deadline, MaxLease)
	case t.Ageing < 0 || t.Ageing > MaxLease:
		return pawl.Invalid("ageing", "is %v; it goes from 0 to %v", t.Ageing, MaxLease)
	case t.Tail && t.Park:
		return pawl.Invalid("retry", "is tail; it does not go with park")
	case t.Retain < 0 || t.Retain > pawl.MaxDelay:
		return pawl.Invalid("retain", "is %v; it goes from 0 to %v", t.Retain, pawl.MaxDelay)
	case t.MaxWaiting < 0:
		return pawl.Invalid("max_waiting", "is %d; it is 0, or how many messages may wait", t.MaxWaiting)
	}
	return nil
}

// set applies what d states to t.
func (d *Declaration) set(t *Topic) {
	t.Order, t.Deadline, t.Ageing = cmp.Or(d.Order, t.Order), cmp.Or(d.Deadline, t.Deadline), cmp.Or(d.Ageing, t.Ageing)
	t.Park, t.Tail = *cmp.Or(d.Park, &t.Park), *cmp.Or(d.Tail, &t.Tail)
	t.Retain, t.MaxWaiting = *cmp.Or(d.Retain, &t.Retain), *cmp.Or(d.MaxWaiting, &t.MaxWaiting)
}

// States reports whether d states anything besides the name.
func (d *Declaration) States() bool { return *d != Declaration{Name: d.Name} }

// Apply returns what t becomes when d is declared, or [ErrConflict]. The caller says
// whether t holds no messages except dead letters; for a topic that does not exist, t
// is [NewTopic].
func (d *Declaration) Apply(t Topic, empty bool) (Topic, error) {
	next := t
	d.set(&next)
	if !next.laidOutAs(&t) && !empty {
		return t, layoutConflict(t, next)
	}
	if next != t || t.Version == 0 && d.States() {
		next.Version++
	}
	return next, nil
}

// Changes says in which settings next differs from t: "deadline 40s, was 20s". It is
// empty if they agree.
func (t *Topic) Changes(next Topic) string {
	var all []string
	add := func(name string, was, now any) {
		if was != now {
			all = append(all, fmt.Sprintf("%s %v, was %v", name, now, was))
		}
	}
	add("order", t.Order, next.Order)
	add("deadline", t.Deadline, next.Deadline)
	add("ageing", t.Ageing, next.Ageing)
	add("park", t.Park, next.Park)
	add("retry", t.RetriesAt(), next.RetriesAt())
	add("retain", t.Retain, next.Retain)
	add("max_waiting", t.MaxWaiting, next.MaxWaiting)
	return strings.Join(all, "; ")
}

// Replace returns the settings after now is altered to t, or [ErrConflict].
func (t *Topic) Replace(now Topic, empty bool) (Topic, error) {
	if t.Version != now.Version {
		return now, &Error{
			Op: "alter topic " + t.Name, Code: ErrConflict,
			Err:  fmt.Errorf("it is at version %d, not %d", now.Version, t.Version),
			Hint: "read the settings again",
		}
	}
	if !t.laidOutAs(&now) && !empty {
		return now, layoutConflict(now, *t)
	}
	next := *t
	next.Version++
	return next, nil
}

// laidOutAs reports whether two topics agree in the settings that change only while a topic is empty.
func (t *Topic) laidOutAs(other *Topic) bool { return t.Order == other.Order && t.Tail == other.Tail }

func layoutConflict(have, want Topic) error {
	why := fmt.Errorf("order is %q, not %q, and there are messages", have.Order, want.Order)
	if have.Order == want.Order {
		why = fmt.Errorf("retry is %s, not %s, and there are messages", have.RetriesAt(), want.RetriesAt())
	}
	return &Error{
		Op: "topic " + have.Name, Code: ErrConflict, Err: why,
		Hint: "let the topic run empty first, or use another topic",
	}
}
