package dispatch

import (
	"cmp"
	"log/slog"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
)

// Observers returns one observer that passes each call on to all of these, in their order. The calls of
// [KeyObserver], [ReleaseObserver], [RetryObserver], [LimitObserver] and [BackObserver] go to the observers that
// implement them. Nil observers are left out; without any other, Observers returns nil. If one panics, the others are
// called all the same.
func Observers(all ...Observer) Observer {
	all = slices.DeleteFunc(slices.Clone(all), func(o Observer) bool { return o == nil })
	if len(all) == 0 {
		return nil
	}
	return &observers{all: all}
}

// observers are those of a dispatcher, which has a log; they may be nested.
type observers struct {
	all []Observer
	log *slog.Logger
}

// guardObserver keeps the process alive when an observer panics, perhaps at a value of a handler: only a figure is
// lost.
func (d *events) guardObserver() {
	switch o := d.cfg.Observer.(type) {
	case nil:
	case *observers:
		d.cfg.Observer = &observers{all: o.all, log: d.cfg.Logger}
	default:
		d.cfg.Observer = &observers{all: []Observer{o}, log: d.cfg.Logger}
	}
}

// tell tells those of os that are a T.
func tell[T any](os *observers, about func(T)) {
	for _, o := range os.all {
		if t, ok := o.(T); ok {
			os.guarded(func() { about(t) })
		}
	}
}

func (os *observers) guarded(tell func()) {
	defer func() {
		if v := recover(); v != nil {
			cmp.Or(os.log, slog.Default()).Error("observer panicked; a figure is lost", "error", recovered(v))
		}
	}()
	tell()
}

func (os *observers) StoreCall(op string, took time.Duration, items int, err error) {
	tell(os, func(o Observer) { o.StoreCall(op, took, items, err) })
}

func (os *observers) Claimed(topic string, deliveries int, waited []time.Duration) {
	tell(os, func(o Observer) { o.Claimed(topic, deliveries, waited) })
}

func (os *observers) Ran(topic string, took []time.Duration) {
	tell(os, func(o Observer) { o.Ran(topic, took) })
}

func (os *observers) RanKeys(topic string, keys [][]byte, took []time.Duration) {
	tell(os, func(o KeyObserver) { o.RanKeys(topic, keys, took) })
}

func (os *observers) Settled(topic, verdict string, deliveries int, done []time.Duration) {
	tell(os, func(o Observer) { o.Settled(topic, verdict, deliveries, done) })
}

func (os *observers) GivenBack(topic string, deliveries int) {
	tell(os, func(o ReleaseObserver) { o.GivenBack(topic, deliveries) })
}

func (os *observers) RetriedOften(topic string) {
	tell(os, func(o RetryObserver) { o.RetriedOften(topic) })
}

func (os *observers) Refused(topic, reason string, deliveries int) {
	tell(os, func(o Observer) { o.Refused(topic, reason, deliveries) })
}

func (os *observers) Decided(topic, domain, typ, phase string, kind pawl.Kind, rule, action, alert, degrade string) {
	tell(os, func(o Observer) { o.Decided(topic, domain, typ, phase, kind, rule, action, alert, degrade) })
}

func (os *observers) Load(topic string, running, waiting, zombies, slots int) {
	tell(os, func(o Observer) { o.Load(topic, running, waiting, zombies, slots) })
}

func (os *observers) LimitLoad(limit string, running, buckets int, rate, window, least float64, heldBack int64) {
	tell(os, func(o LimitObserver) { o.LimitLoad(limit, running, buckets, rate, window, least, heldBack) })
}

func (os *observers) StoreWentBack() {
	tell(os, func(o BackObserver) { o.StoreWentBack() })
}
