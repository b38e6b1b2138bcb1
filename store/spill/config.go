package spill

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Diverter is a store that takes messages as dead letters, durably, when it does
// not take them as messages: all of them, or it returns an error.
type Diverter interface {
	Divert(ctx context.Context, msgs []pawl.Message, why error) error
}

// Config has the options of a store; the zero value has the defaults.
type Config struct {
	// Divert is the dead-letter route: it stores messages durably as dead letters,
	// all of them, or returns an error; nil: that of the primary store, if it is a
	// [Diverter]. Those of one key come in their order. It is called concurrently.
	Divert func(ctx context.Context, msgs []pawl.Message, why error) error
	// PrimaryTimeout bounds a call of the primary store, and of Divert where that is used
	// first; 0 is 40 seconds. Of a caller's own deadline the primary store gets three
	// quarters, and Divert half of what is left.
	PrimaryTimeout time.Duration

	pace pace
}

// pace is how the compensator works; zero fields have the defaults.
type pace struct {
	maxRetries           int           // how often a row may fail before it is a dead letter
	retryFirst, retryMax time.Duration // the wait after a row's first failure, which doubles
	probeFirst, probeMax time.Duration // the wait before a topic that is down is tried again, which doubles
	poll                 time.Duration // how often rows are looked for that another process left
	lease                time.Duration // for how long rows are claimed
	batch                int           // how many rows are brought back at once
}

// closeTimeout bounds the wait for the compensator's last call.
const closeTimeout = 10 * time.Second

// Check reports what is wrong with a configuration, and with a store of that kind as the fallback.
func (c Config) Check(fallback store.Description) error {
	if _, err := c.withDefaults(); err != nil {
		return err
	}
	for _, need := range []store.Capability{store.CanUnique, store.CanLookup, store.CanTopics, store.CanDeadLetters,
		store.CanDelay} {
		if !fallback.Capabilities.Has(need) {
			return &store.Error{Op: "spill", Code: store.ErrUnsupported,
				Err: fmt.Errorf("the fallback store lacks %s", need)}
		}
	}
	return nil
}

func (c Config) withDefaults() (Config, error) {
	if c.PrimaryTimeout < 0 || c.PrimaryTimeout > store.MaxLease {
		return c, &store.Error{Op: "spill", Code: store.ErrInvalid,
			Err: fmt.Errorf("PrimaryTimeout is %v; it is between 0 and %v", c.PrimaryTimeout, store.MaxLease)}
	}
	c.PrimaryTimeout = cmp.Or(c.PrimaryTimeout, 40*time.Second)
	p := &c.pace
	p.maxRetries, p.batch = cmp.Or(p.maxRetries, 10), cmp.Or(p.batch, 500)
	p.retryFirst, p.retryMax = cmp.Or(p.retryFirst, time.Minute), cmp.Or(p.retryMax, time.Hour)
	p.probeFirst, p.probeMax = cmp.Or(p.probeFirst, time.Second), cmp.Or(p.probeMax, 15*time.Second)
	p.poll, p.lease = cmp.Or(p.poll, 5*time.Second), cmp.Or(p.lease, 2*time.Minute)
	return c, nil
}
