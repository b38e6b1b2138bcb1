package doctor

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl/internal/migrate"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/mirror"
)

// plans looks at which topics move to another store, and whether that one is there.
func (d *Doctor) plans(ctx context.Context, s store.Store) {
	const check = "traffic"
	ctx, cancel := context.WithTimeout(ctx, deadlineDoc)
	defer cancel()
	plans, err := mirror.OpenPlans(s)
	if err == nil {
		d.moving, err = plans.List(ctx)
	}
	if err != nil && !errors.Is(err, store.ErrUnsupported) {
		d.say(check, Unknown, "", "it is unknown which topics are moving to another store: %s", brief(err))
	}
	needed := false
	for _, p := range d.moving {
		needed = needed || elsewhere(p)
	}
	if d.Mirror != "" {
		d.mirror(ctx, needed)
	} else if needed {
		d.say("mirror", Ill,
			"name the other store for every program: PAWL_MIRROR, or mirror: in the configuration file",
			"topics have moved, but no mirror is configured here: what is sent from here stays in the old store")
	}
}

// elsewhere tells whether another store takes what is appended to a topic.
func elsewhere(p *mirror.Plan) bool {
	return p.Stage == mirror.Draining || p.Stage == mirror.Moved || p.Stage == mirror.Returning
}

// mirror looks whether the other store can be reached. Without topics that need it,
// nothing is ill by that.
func (d *Doctor) mirror(ctx context.Context, needed bool) {
	const check = "mirror"
	name := redact.URL(d.Mirror)
	s, err := open.Open(ctx, open.Config{URL: d.Mirror, NoCheck: true, Look: true, Existing: true})
	if err == nil {
		_, err = reached(ctx, s)
		_ = s.Close() // it was only looked at
	}
	switch {
	case err == nil:
		d.say(check, Well, "", "%s can be reached", name)
	case needed:
		d.say(check, Ill, advice(err, "see that it runs and can be reached from here: topics have moved there"),
			"%s: %s", name, brief(err))
	default:
		d.say(check, Worth, advice(err, "see that it runs and can be reached from here, before a topic moves there"),
			"%s: %s", name, brief(err))
	}
}

// moved says of a topic that another store has to do with, what that is, and tells
// whether there was such a thing to say. What is paused for that is not to be resumed
// by hand.
func (d *Doctor) moved(t *store.TopicStats) bool {
	check, status := "topic "+t.Name, "pawl traffic status"
	p := d.moving[t.Name]
	if p == nil || !elsewhere(p) {
		if !migrate.PausedHere(t) {
			return false
		}
		d.say(check, Worth,
			status+
				" tells more, with --store of the one that it comes from; `pawl traffic cut-over` and `roll-back` end the pause",
			"paused since %s: another store is in charge of it; %d wait", operate.UTC(t.Paused.Since), t.Waiting)
		return true
	}
	to := p.Target
	if to == "" {
		to = "another store"
	}
	left := t.Waiting + t.Delayed + t.Leased
	switch {
	case p.Stage == mirror.Moved && left > 0:
		d.say(check, Ill, "pawl traffic cut-over "+t.Name,
			"it has moved to %s, and %d messages that came later are left here",
			to, left)
	case p.Stage == mirror.Moved:
		d.say(check, Well, "", "it has moved to %s: look at it there, with --store", to)
	case p.Stage == mirror.Returning:
		d.say(check, Worth, status, "it is coming back from %s, which still receives what is sent; %d wait here",
			to, t.Waiting)
	default:
		d.say(check, Worth, status,
			"it is moving to %s, which receives what is sent; %d messages here must be done first", to,
			left)
	}
	return true
}
