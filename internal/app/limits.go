package app

import (
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/store"
)

// limits are the limiters of a daemon, by name.
type limits map[string]*dispatch.Limiter

func newLimits(configured []config.Limit, s store.Store) (limits, error) {
	all := limits{}
	for _, l := range configured {
		c := dispatch.LimitConfig{
			Name: l.Name, By: by(l.By), Rate: l.PerSecond, Burst: l.Burst, Concurrency: l.Concurrency, Adaptive: l.Adaptive,
		}
		if l.Shared {
			entries, ok := store.As[store.Entries](s)
			if !ok {
				return nil, fmt.Errorf("limit %s is shared: %w", l.Name, &store.Error{Op: "share a rate", Code: store.ErrUnsupported})
			}
			c.Shared = entries
		}
		var err error
		if all[l.Name], err = dispatch.NewLimiter(c); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// by tells deliveries apart as the configuration says.
func by(what string) func(*pawl.Delivery) string {
	header, isHeader := strings.CutPrefix(what, "header:")
	switch {
	case isHeader:
		return func(d *pawl.Delivery) string { return d.Headers[header] }
	case what == config.ByKey:
		return func(d *pawl.Delivery) string { return string(d.Key) }
	case what == config.ByTopic:
		return func(d *pawl.Delivery) string { return d.Topic }
	default:
		return nil
	}
}

// of returns the limiters of a topic: its own first, whose rate may be set later.
func (all limits) of(t *config.Topic) (own *dispatch.Limiter, of []*dispatch.Limiter, err error) {
	c := dispatch.LimitConfig{Name: t.Name, Rate: t.PerSecond}
	if t.Adaptive {
		c.Adaptive = config.MaxConcurrency // that of the topic bounds it, and may be changed
	}
	if own, err = dispatch.NewLimiter(c); err != nil {
		return nil, nil, err
	}
	of = append(of, own)
	for _, name := range t.Limits {
		of = append(of, all[name])
	}
	return own, of, nil
}

// set changes what a reload may change.
func (all limits) set(configured []config.Limit) error {
	for _, l := range configured {
		if limiter := all[l.Name]; limiter != nil {
			if err := limiter.Set(l.PerSecond, l.Burst, l.Concurrency); err != nil {
				return err
			}
		}
	}
	return nil
}

// rateLimit is the limiter of a worker that begins no faster than a rate; none for 0.
func rateLimit(perSecond float64) ([]*dispatch.Limiter, error) {
	if perSecond == 0 {
		return nil, nil
	}
	l, err := dispatch.NewLimiter(dispatch.LimitConfig{Name: "limit", Rate: perSecond})
	return []*dispatch.Limiter{l}, err
}
