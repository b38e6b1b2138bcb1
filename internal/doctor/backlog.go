package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// Why work of a topic is late. More workers are of use for one cause only, and do harm
// where a downstream is overloaded: so the cause is looked for first.

const (
	lookedAt   = 200         // messages of each state
	fewest     = 5           // failures that are worth a word
	backlogFor = time.Minute // of the oldest, from which failures are why
)

// backlog says what holds a topic up, as far as its messages show it, and whether it
// has found anything.
func (d *Doctor) backlog(ctx context.Context, s store.Store, t *store.TopicStats) bool {
	i, ok := store.As[store.Inspector](s)
	if !ok || t.Waiting+t.Delayed+t.Leased == 0 {
		return false
	}
	before := len(d.found)
	for _, look := range []func(context.Context, store.Store, store.Inspector, *store.TopicStats) error{d.hung,
		d.failing, d.hotKey} {
		if err := look(ctx, s, i, t); err != nil {
			d.say("topic "+t.Name, Unknown, "", "why its messages wait is unknown: %s", brief(err))
			break
		}
	}
	return len(d.found) > before
}

// hung looks for handlers that are near their deadline.
func (d *Doctor) hung(ctx context.Context, s store.Store, i store.Inspector, t *store.TopicStats) error {
	entries, ok := store.As[store.Entries](s)
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
		if r.Lease == nil {
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
		d.say("topic "+t.Name, Worth,
			"find out what the handler waits for: pawl explain "+oldest.ID+
				" names its worker; more workers would hang as well; the deadline ends it: pawl topics set "+t.Name+
				" --deadline 1m",
			"a handler hangs: %d of %d are near their deadline, the oldest has been running for %v", late, leased,
			now.Sub(oldest.Lease.StartedAt).Round(time.Second))
	}
	return nil
}

// failing looks for what attempts end with, of what waits to be repeated.
func (d *Doctor) failing(ctx context.Context, _ store.Store, i store.Inspector, t *store.TopicStats) error {
	kinds, said := map[string]int{}, map[string]string{}
	looked, back, backSaid := 0, 0, ""
	for r, err := range i.List(ctx, store.Filter{Topic: t.Name, State: store.Delayed, Limit: lookedAt}) {
		if err != nil {
			return err
		}
		looked++
		reason, released := strings.CutPrefix(r.Reason, "released: ")
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
		case released && !strings.HasPrefix(reason, "limited by "):
			back, backSaid = back+1, reason
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
	if failed >= back && bad(failed) {
		worst := slices.MaxFunc(slices.Sorted(maps.Keys(kinds)), func(a, b string) int { return kinds[a] - kinds[b] })
		d.say(check, Worth, "fix what fails, see pawl policy explain --kind "+worst+
			"; more workers only add load; to use up no attempts until it is fixed: "+pause,
			"attempts fail: %d of %d delayed messages wait for a retry, most of them (%d) after %s%s", failed, looked,
			kinds[worst], worst, operate.Because(said[worst]))
	}
	if back > failed && bad(back) {
		d.say(check, Worth,
			"call it less often: a limit, or `adaptive: true`, for the topic; more workers make it worse; or leave it alone for a while: "+
				pause,
			"the downstream refuses work for now: %d of %d delayed messages were given back or throttled%s", back,
			looked, operate.Because(backSaid))
	}
	return nil
}

// hotKey looks for a key that most of the messages have.
func (d *Doctor) hotKey(ctx context.Context, _ store.Store, i store.Inspector, t *store.TopicStats) error {
	if !operate.MayHaveTopKey(t) {
		return nil
	}
	top, err := operate.FindTopKey(ctx, i, t.Name)
	if err == nil && top.Share() > 0.5 {
		d.say("topic "+t.Name, Worth,
			"messages of a key are processed one at a time, so more workers do not help: pawl explain "+top.First+
				"; make its handler faster, or send with more keys",
			"one key holds it up: %d of the first %d that wait have the key %q", top.Of, top.Looked, top.Key)
	}
	return err
}
