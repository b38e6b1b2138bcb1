package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/mirror"
)

// Traffic moves topics from one store to another, stage by stage (package mirror). It
// works on the stores themselves, not through a mirror.
type Traffic struct {
	From, To store.Store
	Plans    *mirror.Plans
	Who      string
	Target   string // To's URL, without a password
	// Tell is called with progress messages; it may be nil.
	Tell func(what string, args ...any)

	from, to store.Topics
	look     store.Inspector // of the old store
}

// New finds what moving traffic needs of two stores, and sees that they are two.
func New(ctx context.Context, from, to store.Store, who, target string) (*Traffic, error) {
	t := &Traffic{From: from, To: to, Who: who, Target: target}
	var err error
	if t.Plans, err = mirror.OpenPlans(from); err != nil {
		return nil, err
	}
	var ok1, ok2, look1 bool
	t.from, ok1 = store.As[store.Topics](from)
	t.to, ok2 = store.As[store.Topics](to)
	t.look, look1 = store.As[store.Inspector](from)
	_, look2 := store.As[store.Inspector](to)
	if !ok1 || !ok2 || !look1 || !look2 {
		return nil, &store.Error{Op: "traffic", Code: store.ErrUnsupported,
			Err: fmt.Errorf("both stores need %s, and messages that can be listed", store.CanTopics)}
	}
	same, err := mirror.Same(ctx, from, to, who)
	if same {
		return nil, mirror.ItselfError("traffic")
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Traffic) tell(what string, args ...any) {
	if t.Tell != nil {
		t.Tell(what, args...)
	}
}

// plan reads the plan of a topic, and sees that it is about these stores.
func (t *Traffic) plan(ctx context.Context, topic string) (*mirror.Plan, error) {
	p, err := t.Plans.Get(ctx, topic)
	if err == nil && p.Target != "" && p.Target != t.Target {
		err = conflict("it moves to "+p.Target+", not to "+t.Target,
			"name that store, or end it first: pawl traffic stop "+topic, topic)
	}
	return p, err
}

// planned is as plan, and wants that the topic is being copied, or further.
func (t *Traffic) planned(ctx context.Context, topic string) (*mirror.Plan, error) {
	p, err := t.plan(ctx, topic)
	if err == nil && p.Stage == mirror.Off {
		err = conflict("it is not copied", "begin with `pawl traffic mirror "+topic+"`", topic)
	}
	return p, err
}

func conflict(why, next, topic string) error {
	return &store.Error{Op: "traffic of topic " + topic, Code: store.ErrConflict, Err: errors.New(why), Hint: next}
}

// put stores a plan in another stage, with what change says beside. The plan stays what it
// is if it cannot be stored.
func (t *Traffic) put(ctx context.Context, p *mirror.Plan, stage mirror.Stage, change ...func(*mirror.Plan)) error {
	next := *p
	next.Stage, next.From, next.Until = stage, mirror.Off, time.Time{}
	for _, set := range change {
		set(&next)
	}
	err := t.Plans.Put(ctx, &next, t.Who)
	if errors.Is(err, store.ErrConflict) {
		return conflict("another process moves it",
			"see `pawl traffic status "+p.Topic+"`, and run it again when that one has ended", p.Topic)
	}
	if err == nil {
		*p = next
	}
	return err
}

// audit writes down what was done to a topic.
func (t *Traffic) audit(ctx context.Context, action string, p *mirror.Plan, change, reason string) error {
	return operate.Audit(context.WithoutCancel(ctx), t.From,
		operate.AuditEntry{Who: t.Who, Action: "traffic " + action, Target: p.Topic + " → " + t.Target, Count: 1,
			Result: operate.AuditResult{Done: 1}, Change: change, Status: string(p.Stage), Reason: reason})
}

// Begin lets a topic be copied from now on: every process that has the setting does, in
// [mirror.Fresh] at most. The topic gets the same settings in the other store, where it
// must be empty.
func (t *Traffic) Begin(ctx context.Context, topic string, dry bool) error {
	p, err := t.plan(ctx, topic)
	if err != nil || p.Stage == mirror.Dual {
		return err
	}
	if p.Stage != mirror.Off {
		return underWay(p)
	}
	if err := t.prepare(ctx, p, dry); err != nil || dry {
		return err
	}
	if err := t.Plans.Forget(ctx, topic); err != nil {
		return err
	}
	if err := t.put(ctx, p, mirror.Dual, func(p *mirror.Plan) { p.Target = t.Target }); err != nil {
		return err
	}
	return t.audit(ctx, "mirror", p, "", "")
}

// prepare sees that the topic is empty in the other store, and declares it there.
func (t *Traffic) prepare(ctx context.Context, p *mirror.Plan, dry bool) error {
	there, err := figures(ctx, t.to, p.Topic)
	if err != nil {
		return err
	}
	if open := unfinished(there); open > 0 {
		return conflict(fmt.Sprintf("topic %s of %s has %d messages that are not done", p.Topic, t.Target, open),
			"let it run empty first", p.Topic)
	}
	settings, err := t.from.Topic(ctx, p.Topic)
	if errors.Is(err, store.ErrNotFound) {
		return nil // the first append makes it, in both
	}
	if err != nil || dry {
		return err
	}
	d := store.Declaration{Name: p.Topic, Order: settings.Order, Deadline: settings.Deadline,
		Ageing: settings.Ageing, Park: &settings.Park}
	if settings.Tail {
		d.Tail = &settings.Tail
	}
	if settings.Retain > 0 {
		d.Retain = &settings.Retain
	}
	if store.Can(t.To, store.CanBound) && settings.MaxWaiting > 0 {
		d.MaxWaiting = &settings.MaxWaiting // copies are taken all the same
	}
	_, err = t.to.Declare(ctx, d)
	return err
}

// underWay is the error of a topic whose stage is beyond copying.
func underWay(p *mirror.Plan) error {
	return conflict("it is "+string(p.Stage), "roll it back first: pawl traffic roll-back "+p.Topic, p.Topic)
}

// Stop ends the copying of a topic. Copies that are there stay.
func (t *Traffic) Stop(ctx context.Context, topic string, dry bool) error {
	p, err := t.Plans.Get(ctx, topic)
	if err != nil || p.Stage == mirror.Off {
		return err
	}
	if p.Stage != mirror.Dual {
		return underWay(p)
	}
	if dry {
		return nil
	}
	if err := t.put(ctx, p, mirror.Off); err != nil {
		return err
	}
	return errors.Join(t.Plans.Forget(ctx, topic), t.audit(ctx, "stop", p, "", ""))
}

// figures are those of a topic; zero for one that is not there. A store that cannot be
// reached is asked again for a while: a move may last for hours.
func figures(ctx context.Context, topics store.Topics, name string) (store.TopicStats, error) {
	for until := time.Now().Add(storeWait); ; {
		stats, err := topics.Stats(ctx, name)
		if errors.Is(err, store.ErrNotFound) || err == nil && len(stats) == 0 {
			return store.TopicStats{Topic: store.NewTopic(name)}, nil
		}
		if err == nil {
			return stats[0], nil
		}
		if !errors.Is(err, store.ErrUnavailable) || time.Now().After(until) || store.Sleep(ctx, moveLook) != nil {
			return store.TopicStats{}, err
		}
	}
}

const storeWait = 15 * time.Second

func unfinished(s store.TopicStats) int64 { return s.Waiting + s.Delayed + s.Leased }

// Status is how far a topic is, as JSON.
type Status struct {
	mirror.Plan
	// Open are messages that are not done.
	Open Open `json:"not_done"`
	Dead Open `json:"dead"`
	// Copies are the figures of all processes.
	Copies mirror.TopicStats `json:"copies"`
	// Waiting are copies in queues, those of processes that died with them included.
	Waiting  int64    `json:"copies_waiting"`
	Problems []string `json:"problems"`
}

// Open is a figure of both stores.
type Open struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Status returns how far topics are; all that have a stage where none is named.
func (t *Traffic) Status(ctx context.Context, topics ...string) ([]Status, error) {
	plans, err := t.Plans.List(ctx)
	if err != nil {
		return nil, err
	}
	if len(topics) == 0 {
		topics = slices.Sorted(maps.Keys(plans))
	}
	now, err := t.Plans.Clock(ctx)
	if err != nil {
		return nil, err
	}
	var all []Status
	for _, topic := range topics {
		s := Status{Plan: *cmp.Or(plans[topic], &mirror.Plan{Topic: topic}), Problems: []string{}}
		here, err := figures(ctx, t.from, topic)
		if err != nil {
			return nil, err
		}
		there, err := figures(ctx, t.to, topic)
		if err != nil {
			return nil, err
		}
		if s.Copies, err = t.Plans.Copies(ctx, topic); err != nil {
			return nil, err
		}
		s.Open, s.Dead = Open{unfinished(here), unfinished(there)}, Open{here.Dead, there.Dead}
		s.Waiting = s.Copies.Waiting()
		s.judge(now, here.Paused != nil, there.Paused != nil)
		all = append(all, s)
	}
	return all, nil
}

// judge lists problems.
func (s *Status) judge(now time.Time, pausedHere, pausedThere bool) {
	bad := func(what string, args ...any) { s.Problems = append(s.Problems, fmt.Sprintf(what, args...)) }
	switch {
	case s.Stage == mirror.Dual && s.Copies.Missed > 0:
		bad("%d messages have no copy: there was no room, or no time", s.Copies.Missed)
	case s.Stage == mirror.Moved && s.Open.From > 0:
		bad("%d messages came to the old store after the cut-over: run `pawl traffic cut-over %s` again",
			s.Open.From, s.Topic)
	case s.Stage == mirror.Draining && s.Open.From == 0:
		bad("it is draining, and nothing is left in the old store: run `pawl traffic cut-over %s` again, unless that runs",
			s.Topic)
	case s.Stage == mirror.Returning && s.Open.To == 0:
		bad("it is returning, and nothing is left in the new store: run `pawl traffic roll-back %s` again, unless that runs",
			s.Topic)
	case s.Stage == mirror.Draining && pausedHere:
		bad("it is draining, but paused in the old store: run `pawl topics resume %s`", s.Topic)
	case s.Stage == mirror.Returning && pausedThere:
		bad("it is returning, but paused in the new store: run `pawl topics resume %s --store %s`", s.Topic, s.Target)
	case s.Stage == mirror.Closing && now.After(s.Until):
		bad("the topic was closed and not opened again: it is %s", s.From)
	}
	if s.Stage == mirror.Dual && s.Copies.Refused > 0 {
		bad("the new store refused %d copies", s.Copies.Refused)
	}
}
