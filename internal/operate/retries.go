package operate

import (
	"context"
	"errors"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/statesync"
	"github.com/pawl-dev/pawl/store"
)

// RetriesChange is what is to change in what operators say about the retries of a topic. A nil field stays as it is,
// and a zero leaves it to the program that works.
type RetriesChange struct {
	Attempts       *int
	For, Base, Max *time.Duration
}

// KeptRetries are what operators say about the retries of a topic.
type KeptRetries struct {
	policy.Retries
	Who string    // who set it last; empty: nobody
	At  time.Time // when
}

// Retries returns what operators say about the retries of a topic. A store without a state has nothing.
func Retries(ctx context.Context, s store.Store, topic string) (KeptRetries, error) {
	kept, err := statesync.New[policy.Retries](s, policy.RetriesTopic, statesync.Config{})
	if errors.Is(err, store.ErrUnsupported) {
		return KeptRetries{}, nil
	}
	if err != nil {
		return KeptRetries{}, err
	}
	v, err := kept.Get(ctx, topic)
	if errors.Is(err, store.ErrNotFound) {
		return KeptRetries{}, nil
	}
	return KeptRetries{v.Value, v.Writer, v.Time}, err
}

// SetRetries changes them, for every process that works on the topic, within two seconds; with dry it only says what
// they would be. Retries of which nothing is left are removed.
func SetRetries(ctx context.Context, s store.Store, who, topic string, c RetriesChange, dry bool) (policy.Retries,
	error) {
	kept, err := statesync.New[policy.Retries](s, policy.RetriesTopic, statesync.Config{Writer: who})
	if err != nil {
		return policy.Retries{}, err
	}
	for {
		v, err := kept.Get(ctx, topic)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return policy.Retries{}, err
		}
		next := v.Value
		set(&next.Attempts, c.Attempts)
		set(&next.For, c.For)
		set(&next.Base, c.Base)
		set(&next.Max, c.Max)
		if err := next.Validate(); err != nil {
			return next, pawl.Invalid("retry", "%v", err)
		}
		if dry || next == v.Value {
			return next, nil
		}
		if next == (policy.Retries{}) {
			_, err = kept.Delete(ctx, topic, v.Version)
		} else {
			_, err = kept.Put(ctx, topic, next, v.Version)
		}
		if !errors.Is(err, store.ErrConflict) {
			return next, err
		}
	}
}
