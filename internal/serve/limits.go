package serve

import (
	"fmt"
	"strings"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/store"
)

// limits are the limiters of a daemon, by name; those that topics have of their own by ownLimit and the topic.
type limits map[string]*limit

// limit is a limiter, and what it is set to.
type limit struct {
	*dispatch.Limiter
	mu  sync.Mutex
	now config.Limit
	set limitSet
}

func newLimits(configured []config.Limit, s store.Store) (limits, error) {
	all := limits{}
	for _, l := range configured {
		c := dispatch.LimitConfig{
			Name: l.Name, By: by(l.By), Rate: l.PerSecond, Burst: l.Burst, Concurrency: l.Concurrency,
			Adaptive: l.Adaptive,
		}
		if l.Shared {
			entries, ok := store.As[store.Shared](s)
			if !ok {
				return nil, fmt.Errorf("limit %s is shared: %w", l.Name,
					&store.Error{Op: "share a rate", Code: store.ErrUnsupported})
			}
			c.Shared = entries
		}
		limiter, err := dispatch.NewLimiter(c)
		if err != nil {
			return nil, err
		}
		all[l.Name] = &limit{Limiter: limiter, now: l}
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
func (all limits) of(t *config.Topic) (own *limit, of []*dispatch.Limiter, err error) {
	c := dispatch.LimitConfig{Name: t.Name, Rate: 1}
	if t.Adaptive {
		c.Adaptive = config.MaxConcurrency // that of the topic bounds it, and may be changed
	}
	l, err := dispatch.NewLimiter(c)
	if err == nil {
		err = l.Set(t.PerSecond, 0, 0) // 0 is none, until a reload or an operator states one
	}
	if err != nil {
		return nil, nil, err
	}
	own = &limit{Limiter: l, now: config.Limit{PerSecond: t.PerSecond}}
	all[ownLimit+t.Name], of = own, append(of, l)
	for _, name := range t.Limits {
		of = append(of, all[name].Limiter)
	}
	return own, of, nil
}

// set changes what a reload may change, and names the numbers that it keeps. With an
// error, it changes nothing.
func (all limits) set(configured []config.Limit) (kept []string, err error) {
	for _, next := range configured {
		if l := all[next.Name]; l != nil && l.takes(next) {
			if err := l.Check(next.PerSecond, next.Burst, next.Concurrency); err != nil {
				return nil, err
			}
		}
	}
	for _, next := range configured {
		l := all[next.Name]
		switch {
		case l == nil: // it is new, and needs a restart
		case !l.takes(next):
			kept = append(kept, l.kept(next)...)
		default:
			if err := l.apply(&next, nil); err != nil {
				return nil, err
			}
		}
	}
	return kept, nil
}

// takes reports whether a reload may give l the numbers of next. If they are to hold in
// another way, which needs a restart, then so do they: a rate that is not stated any
// more is replaced by what is not there yet, and without both nothing would protect
// the downstream.
func (l *limit) takes(next config.Limit) bool {
	return l.now.By == next.By && l.now.Adaptive == next.Adaptive && l.now.Shared == next.Shared
}

// kept names the numbers of next that differ from those of l.
func (l *limit) kept(next config.Limit) (paths []string) {
	path := "limits." + next.Name
	if l.now.PerSecond != next.PerSecond {
		paths = append(paths, path+".rate")
	}
	if l.now.Burst != next.Burst {
		paths = append(paths, path+".burst")
	}
	if l.now.Concurrency != next.Concurrency {
		paths = append(paths, path+".concurrency")
	}
	return paths
}
