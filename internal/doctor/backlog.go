package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/observe/watch"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/mirror"
)

// Why work of a topic is late. More workers are of use for one cause only, and do harm
// where a downstream is overloaded: so the cause is looked for first.

const (
	lookedAt   = 200         // messages of each state
	fewest     = 5           // failures that are worth a word
	backlogFor = time.Minute // of the oldest, or of the attempts of one message, from which failures are why
)

// backlog says what holds a topic up, as far as its messages show it, and whether it
// has found anything.
func (d *Doctor) backlog(ctx context.Context, s store.Store, t *store.TopicStats) bool {
	i, ok := store.As[store.Inspector](s, store.CanLookup)
	if !ok || t.Waiting+t.Delayed+t.Leased == 0 {
		return false
	}
	before := len(d.found)
	for _, look := range []func(context.Context, store.Store, store.Inspector, *store.TopicStats) error{d.hung,
		d.poison, d.behind, d.failing, d.hotKey} {
		if err := look(ctx, s, i, t); err != nil {
			d.say("topic "+t.Name, Unknown, "", "why its messages wait is unknown: %s", brief(err))
			break
		}
	}
	return len(d.found) > before
}

// hung looks for handlers that are near their deadline.
func (d *Doctor) hung(ctx context.Context, s store.Store, i store.Inspector, t *store.TopicStats) error {
	entries, ok := store.As[store.Shared](s)
	if !ok || t.Leased == 0 {
		return nil
	}
	now, err := entries.Clock(ctx)
	if err != nil {
		return err
	}
	leased, late, oldest := 0, 0, store.Record{}
	for r, err := range i.List(ctx, store.Filter{Topic: t.Name, State: store.Leased, Limit: lookedAt}) {
		if err != nil {
			return err
		}
		if r.Lease == nil || r.Lease.Until.Before(now) { // its worker is gone, and with it the handler
			continue
		}
		leased++
		if !r.Lease.Stuck(now) {
			continue
		}
		if late++; oldest.Lease == nil || r.Lease.StartedAt.Before(oldest.Lease.StartedAt) {
			oldest = r
		}
	}
	if late > 0 {
		d.tell("PawlHandlersLate", "topic "+t.Name, Worth,
			"find out what the handler waits for: pawl explain "+operate.Operands(oldest.ID)+
				" names its worker; more workers would hang as well; to take them back now: pawl reclaim --topic "+
				t.Name+" --stuck"+shorter(t),
			"a handler hangs: %d of %d are near their deadline, the oldest has been running for %v; the deadline ends it at %s",
			late, leased, now.Sub(oldest.Lease.StartedAt).Round(time.Second), operate.UTC(oldest.Lease.Deadline))
	}
	return nil
}

// shorter advises a deadline that frees the worker sooner than that of the topic.
func shorter(t *store.TopicStats) string {
	half := (t.Deadline / 2).Round(time.Second)
	if half < time.Minute {
		return ""
	}
	return fmt.Sprintf("; if its work never takes so long, pawl topics set %s --deadline %v", t.Name, half)
}

// deadly is how often a message ends its program, or its workers die with it, before that is worth a word.
const deadly = 3

// poison looks for messages that end the program that handles them, or whose workers die.
func (d *Doctor) poison(ctx context.Context, _ store.Store, i store.Inspector, t *store.TopicStats) error {
	for r, err := range i.List(ctx, store.Filter{Topic: t.Name, Limit: lookedAt}) {
		if err != nil {
			return err
		}
		ended, how := 0, ""
		for n := range r.History {
			if a := &r.History[n]; a.Attrs[handler.AttrEnded] != "" {
				ended, how = ended+1, a.Error
			}
		}
		id := operate.Operands(r.ID)
		fix := "look at what it has in it: pawl messages show " + id + "; to let the others go on: pawl skip " + id
		switch {
		case ended >= deadly:
			d.tell("PawlProgramCrashLoop", "topic "+t.Name, Worth, fix,
				"message %s has ended the program that handles it %d times%s", r.ID, ended, operate.Because(how))
			d.about(r.ID)
		case r.Rescues >= deadly:
			d.tell("PawlDaemonCrashLoop", "topic "+t.Name, Worth, fix,
				"message %s was with %d workers when they died or hung", r.ID, r.Rescues)
			d.about(r.ID)
		}
	}
	return nil
}

// behind looks for messages that wait behind one of their key that is to be retried.
func (d *Doctor) behind(ctx context.Context, _ store.Store, i store.Inspector, t *store.TopicStats) error {
	if t.Order != store.OrderKey || t.Tail || t.Waiting == 0 {
		return nil
	}
	var head store.Record
	most, heads := 0, 0
	for r, err := range i.List(ctx, store.Filter{Topic: t.Name, State: store.Delayed, Limit: lookedAt}) {
		if err != nil {
			return err
		}
		last := len(r.History) - 1
		if r.Key == nil || last < 0 || !r.History[last].NextAt.Equal(r.NotBefore) {
			continue
		}
		n := 0
		for _, err := range i.List(ctx, store.Filter{Topic: t.Name, State: store.Waiting, Key: r.Key, Limit: lookedAt}) {
			if err != nil {
				return err
			}
			n++
		}
		if n > most {
			head, most = r, n
		}
		if heads++; heads == fewest {
			break
		}
	}
	if most == 0 {
		return nil
	}
	a, id := head.History[len(head.History)-1], operate.Operands(head.ID)
	d.tell("PawlHotKey", "topic "+t.Name, Worth,
		"once the cause is fixed: pawl messages run "+id+"; to go on without it: pawl skip "+id,
		"%d waiting behind message %s of the key %q, which is retried at %s%s", most, head.ID, head.Key,
		operate.UTC(head.NotBefore), operate.Because(a.Error))
	d.about(head.ID)
	return nil
}

// failing looks for what attempts end with, of what waits to be repeated. A few messages count, too, once one has been
// failing for a while and nothing else of the topic was found.
func (d *Doctor) failing(ctx context.Context, _ store.Store, i store.Inspector, t *store.TopicStats) error {
	kinds, said := map[string]int{}, map[string]string{}
	looked, back, backSaid, lasting := 0, 0, "", false
	for r, err := range i.List(ctx, store.Filter{Topic: t.Name, State: store.Delayed, Limit: lookedAt}) {
		if err != nil {
			return err
		}
		looked++
		cause := r.Cause()
		last := store.Attempt{}
		if n := len(r.History); n > 0 {
			last = r.History[n-1]
		}
		switch again := !last.NextAt.IsZero() && last.NextAt.Equal(r.NotBefore); {
		case again && operate.RefusedForNow(&last):
			back, backSaid = back+1, last.Error
		case again:
			kinds[last.Kind]++
			said[last.Kind] = last.Error
			lasting = lasting || last.EndedAt.Sub(r.History[0].EndedAt) > backlogFor
		case cause.Code == store.CauseReleased && cause.By != "":
			back, backSaid = back+1, cause.By
		}
	}
	failed := 0
	for _, n := range kinds {
		failed += n
	}
	all := t.Waiting + t.Delayed + t.Leased
	bad := func(n int) bool {
		return n >= fewest && (t.OldestWaiting > backlogFor || t.Delayed*int64(n) > all*int64(looked)/2)
	}
	check, pause := "topic "+t.Name, fmt.Sprintf("pawl topics pause %s --for 30m", t.Name)
	few := lasting && !slices.ContainsFunc(d.found, func(f Finding) bool { return f.Check == "topic "+t.Name })
	if failed >= back && (bad(failed) || few) {
		worst := slices.MaxFunc(slices.Sorted(maps.Keys(kinds)), func(a, b string) int { return kinds[a] - kinds[b] })
		fix := "fix what fails, see pawl policy explain --kind " + worst
		if worst == string(pawl.KindDeadline) {
			fix = fmt.Sprintf("find out what the handler waits for: it does not return within the deadline of %v",
				t.Deadline)
		}
		d.tell("PawlRetryStorm", check, Worth,
			fix+"; more workers only add load; to use up no attempts until it is fixed: "+pause+
				"; then: pawl messages run --topic "+t.Name,
			"attempts fail: %d of %d delayed messages wait for a retry, most of them (%d) after %s%s", failed, looked,
			kinds[worst], worst, operate.Because(said[worst]))
	}
	if back > failed && bad(back) {
		d.tell("PawlThrottled", check, Worth,
			"call it less often: a limit, or `adaptive: true`, for the topic; more workers make it worse; or leave it alone for a while: "+
				pause,
			"the downstream refuses work for now: %d of %d delayed messages were given back or throttled%s", back,
			looked, operate.Because(backSaid))
	}
	return nil
}

// hotKey looks for a key that most of the messages have.
func (d *Doctor) hotKey(ctx context.Context, _ store.Store, i store.Inspector, t *store.TopicStats) error {
	top, err := watch.FindTopKey(ctx, i, t)
	if err == nil && top.Share() > 0.5 {
		d.tell("PawlHotKey", "topic "+t.Name, Worth,
			"messages of a key are processed one at a time, so more workers do not help: pawl explain "+
				operate.Operands(top.First)+"; make its handler faster, or send with more keys",
			"one key holds it up: %d of the first %d that wait have the key %q", top.Of, top.Looked, top.Key)
	}
	return err
}

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

// elsewhere reports whether another store takes what is appended to a topic.
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
	if err == nil {
		d.say(check, Well, "", "%s can be reached", name)
		return
	}
	v, fix := Worth, "see that it runs and can be reached from here, before a topic moves there"
	if needed {
		v, fix = Ill, "see that it runs and can be reached from here: topics have moved there"
	}
	d.say(check, v, advice(err, fix), "%s: %s", name, brief(err))
}

// moved says of a topic that another store has to do with, what that is, and tells
// whether there was such a thing to say.
func (d *Doctor) moved(t *store.TopicStats) bool {
	check, status := "topic "+t.Name, "pawl traffic status"
	p := d.moving[t.Name]
	if p == nil || !elsewhere(p) {
		return false
	}
	to := cmp.Or(p.Target, "another store")
	left := t.Waiting + t.Delayed + t.Leased
	switch {
	case p.Stage == mirror.Moved && left > 0:
		d.say(check, Ill, "pawl traffic cut-over "+t.Name,
			"it has moved to %s, and %d messages that came later are left here",
			to, left)
	case p.Stage == mirror.Moved:
		d.say(check, Well, "", "it has moved to %s: look at it there, with --store", to)
	case p.Stage == mirror.Returning:
		d.say(check, Worth, status, "it is coming back from %s, where everything must be done first; %d waiting here",
			to, t.Waiting)
	default:
		d.say(check, Worth, status,
			"it is moving to %s, which receives what is sent; %d messages here must be done first", to,
			left)
	}
	return true
}
