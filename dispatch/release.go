package dispatch

import (
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// releasesLogged is how many deliveries of a topic that were given back are logged in
// releasesEvery. A downstream that refuses does so for all of them, again and again.
const (
	releasesLogged = 1
	releasesEvery  = time.Minute
)

// handBack is implemented by errors that give a delivery back for a reason of the
// runtime itself: a drain, or a program that is being restarted. No downstream has
// refused it.
type handBack interface {
	error
	HandBack() bool
}

// givenBack reports that a handler gave a delivery back. No attempt is counted and the
// policy is not asked, so this is the only sign of a downstream that refuses
// everything.
func (d *settler) givenBack(del *pawl.Delivery, err error, cause error, release *pawl.ReleaseError) {
	if ours, ok := errors.AsType[handBack](err); cause == pawl.ErrDrain || ok && ours.HandBack() {
		return
	}
	t := d.byName[del.Topic]
	if o, ok := d.cfg.Observer.(ReleaseObserver); ok {
		o.GivenBack(t.Name, 1)
	}
	if release.Reason == "" {
		return
	}
	if d.cfg.Events != nil {
		a := policy.Attempt{Number: del.Attempt, Err: err}
		d.events.happened(t, del, phaseOf(&a), &a, nil)
	}
	d.logRelease(t, del, release)
}

// logRelease logs, now and then, what a handler gave back.
func (d *settler) logRelease(t *topic, del *pawl.Delivery, release *pawl.ReleaseError) {
	d.mu.Lock()
	silent, ok := t.releases.allow(d.engine.now(), releasesEvery, releasesLogged)
	d.mu.Unlock()
	if !ok {
		return
	}
	reason, _, _ := strings.Cut(store.Text(release.Reason), "\n")
	attrs := append([]slog.Attr{
		slog.String("queue_topic", t.Name), slog.String("reason", reason), slog.Duration("after", release.After),
	}, about(del, silent)...)
	d.cfg.Logger.LogAttrs(d.base, slog.LevelWarn, "delivery given back",
		append(attrs, slog.String("node_id", d.cfg.Owner))...)
}
