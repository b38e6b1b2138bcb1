package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
}

// New finds what moving traffic needs of two stores, and sees that they are two.
func New(ctx context.Context, from, to store.Store, who, target string) (*Traffic, error) {
	t := &Traffic{From: from, To: to, Who: who, Target: target}
	var err error
	if t.Plans, err = mirror.OpenPlans(from); err != nil {
		return nil, err
	}
	var ok1, ok2 bool
	t.from, ok1 = store.As[store.Topics](from)
	t.to, ok2 = store.As[store.Topics](to)
	_, look1 := store.As[store.Inspector](from)
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
	next.Stage = stage
	if stage != mirror.Closing {
		next.From, next.Until = mirror.Off, time.Time{}
	}
	for _, set := range change {
		set(&next)
	}
	err := t.Plans.Put(ctx, &next, t.Who)
	if err == nil {
		*p = next
	}
	return err
}

// audit writes down what was done to a topic.
func (t *Traffic) audit(ctx context.Context, action string, p *mirror.Plan, count int64, change, reason string) error {
	return operate.Audit(context.WithoutCancel(ctx), t.From,
		operate.AuditEntry{Who: t.Who, Action: "traffic " + action, Target: p.Topic + " → " + t.Target, Count: count,
			Result: operate.AuditResult{Done: count}, Change: change, Status: string(p.Stage), Reason: reason})
}

// Begin lets a topic be copied from now on: every process that has the setting does, in
// [mirror.Fresh] at most. The topic gets the same settings in the other store, where it
// must be empty.
func (t *Traffic) Begin(ctx context.Context, topic, as string, sample float64, dry bool) error {
	p, err := t.plan(ctx, topic)
	if err != nil {
		return err
	}
	if p.Stage != mirror.Off && p.Stage != mirror.Dual {
		return underWay(p)
	}
	if p.Stage == mirror.Dual && (p.As != as || p.Sample != sample) {
		return conflict(fmt.Sprintf("it is copied already, as %q and with a sample of %v", p.InMirrored(),
			p.Sample), "end that first: pawl traffic stop "+topic, topic)
	}
	began := p.Stage == mirror.Dual
	p.As, p.Sample, p.Target = as, sample, t.Target
	if err := p.Validate(); err != nil || began {
		return err
	}
	if err := t.prepare(ctx, p, dry); err != nil || dry {
		return err
	}
	if err := t.forget(ctx, topic); err != nil {
		return err
	}
	if err := t.put(ctx, p, mirror.Dual); err != nil {
		return err
	}
	return t.audit(ctx, "mirror", p, 1, fmt.Sprintf("as=%s sample=%v", p.InMirrored(), sample), "")
}

// forget removes the figures of processes that have ended, if no other topic moves: the
// count begins anew. Those of which copies may still arrive stay.
func (t *Traffic) forget(ctx context.Context, topic string) error {
	plans, err := t.Plans.List(ctx)
	if err != nil {
		return err
	}
	delete(plans, topic)
	if len(plans) > 0 {
		return nil
	}
	return t.forgetThose(ctx, ended)
}

// forgetThose removes the figures of processes, judged by their last reports and the
// time now.
func (t *Traffic) forgetThose(ctx context.Context, gone func(w *mirror.Writer, now time.Time) bool) error {
	writers, err := t.Plans.Writers(ctx)
	if err != nil {
		return err
	}
	now, err := t.Plans.Clock(ctx)
	if err != nil {
		return err
	}
	for name, w := range writers {
		if gone(&w, now) {
			err = errors.Join(err, t.Plans.Forget(ctx, name))
		}
	}
	return err
}

// ended tells of a process that it runs no more, and that nothing that it sent can arrive.
func ended(w *mirror.Writer, now time.Time) bool {
	quiet := mirror.Silent
	for _, c := range w.Topics {
		if c.MayArrive(now) {
			return false
		}
		if c.Waiting() > 0 {
			quiet = mirror.Gone
		}
	}
	return w.Closed || now.Sub(w.At) > quiet
}

// prepare sees that the topic is empty in the other store, and declares it there.
func (t *Traffic) prepare(ctx context.Context, p *mirror.Plan, dry bool) error {
	there, err := figures(ctx, t.to, p.InMirrored())
	if err != nil {
		return err
	}
	if open := unfinished(there); open > 0 {
		return conflict(
			fmt.Sprintf("topic %s of %s has %d messages that are not done: a comparison would take them for copies",
				p.InMirrored(), t.Target, open),
			"let it run empty, or copy to another name: --as NAME", p.Topic)
	}
	settings, err := t.from.Topic(ctx, p.Topic)
	if errors.Is(err, store.ErrNotFound) {
		return nil // the first append makes it, in both
	}
	if err != nil || dry {
		return err
	}
	d := store.Declaration{Name: p.InMirrored(), Order: settings.Order, Deadline: settings.Deadline,
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
	return t.audit(ctx, "stop", p, 1, "", "")
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
	// Paused tells in which store the topic is paused because the other one is in charge.
	Paused Paused `json:"paused"`
	// Copies are the sums of the reports of all processes.
	Copies  mirror.TopicStats `json:"copies"`
	Waiting int               `json:"copies_waiting"` // of all topics
	// Lost are copies that processes had in their queues when they died, at most.
	Lost int `json:"copies_of_dead_writers"`
	// Abandoned tells that a cut-over or a roll-back was begun that no process continues.
	Abandoned bool     `json:"abandoned"`
	Writers   int      `json:"writers"`
	Problems  []string `json:"problems"`
}

// Open is a figure of both stores.
type Open struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
}

// Paused is whether a topic is paused in both stores.
type Paused struct {
	From bool `json:"from"`
	To   bool `json:"to"`
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
	writers, err := t.Plans.Writers(ctx)
	if err != nil {
		return nil, err
	}
	now, err := t.Plans.Clock(ctx)
	if err != nil {
		return nil, err
	}
	var all []Status
	for _, topic := range topics {
		p := cmp.Or(plans[topic], &mirror.Plan{Topic: topic})
		s := Status{Plan: *p, Problems: []string{}}
		s.sum(writers, now)
		if err := t.fill(ctx, &s); err != nil {
			return nil, err
		}
		s.judge(now)
		all = append(all, s)
	}
	return all, nil
}

// sum adds up the reports of processes.
func (s *Status) sum(writers map[string]mirror.Writer, now time.Time) {
	var total mirror.Stats
	for _, w := range writers {
		if w.Topics[s.Topic] == nil {
			continue
		}
		silent := now.Sub(w.At) > mirror.Silent
		if silent && !w.Closed {
			s.Lost += w.Waiting
			w.Waiting = 0
		}
		if !silent && !w.Closed {
			s.Writers++
		}
		total.Merge(w.Stats)
	}
	if c := total.Topics[s.Topic]; c != nil {
		s.Copies = *c
	}
	s.Waiting = total.Waiting
}

// fill asks both stores.
func (t *Traffic) fill(ctx context.Context, s *Status) error {
	here, there, err := t.both(ctx, &s.Plan)
	if err != nil {
		return err
	}
	s.Open, s.Dead = Open{unfinished(here), unfinished(there)}, Open{here.Dead, there.Dead}
	s.Paused = Paused{PausedHere(&here), PausedHere(&there)}
	m, err := t.moverOf(ctx, s.Topic)
	s.Abandoned = abandoned(&s.Plan, m)
	return err
}

// judge lists problems.
func (s *Status) judge(now time.Time) {
	bad := func(what string, args ...any) { s.Problems = append(s.Problems, fmt.Sprintf(what, args...)) }
	if _, gone := away(&s.Plan); !gone { // otherwise copies are no longer needed: their originals are carried out
		s.judgeCopies(bad)
	}
	if s.Abandoned {
		what := "cut-over"
		if returning(&s.Plan) {
			what = "roll-back"
		}
		bad("no process continues its %s: if its process was killed, a worker with this --mirror does within half a "+
			"minute; or run `pawl traffic %s %s` again", what, what, s.Topic)
	}
	if s.Stage == mirror.Moved && s.Open.From > 0 {
		bad("%d messages came to the old store after the cut-over: run `pawl traffic cut-over %s` again",
			s.Open.From, s.Topic)
	}
	again := map[mirror.Stage]string{mirror.Draining: "traffic cut-over", mirror.Moved: "traffic cut-over",
		mirror.Returning: "traffic roll-back"}
	if command := cmp.Or(again[s.Stage], "topics resume"); s.Paused.From && (side{}).works(&s.Plan) {
		bad("it is %s, but paused in the old store: run `pawl %s %s`, unless that runs", cmp.Or(s.Stage, "off"),
			command, s.Topic)
	}
	if s.Paused.To && (s.Stage == mirror.Moved || s.Stage == mirror.Returning) {
		bad("it is %s, but paused in the new store: run `pawl %s %s`, unless that runs", s.Stage,
			again[s.Stage], s.Topic)
	}
	if s.Stage == mirror.Closing && now.After(s.Until) {
		bad("the topic was closed and not opened again: it is %s", s.From)
	}
}

func (s *Status) judgeCopies(bad func(what string, args ...any)) {
	if s.Copies.Missed > 0 {
		bad("%d messages have no copy: there was no room, or no time", s.Copies.Missed)
	}
	if s.Copies.Refused > 0 {
		bad("the new store refused %d copies", s.Copies.Refused)
	}
	if s.Lost > 0 {
		bad("processes died with up to %d copies in their queues", s.Lost)
	}
}

// AwayTopic is a topic of which messages are in another store.
type AwayTopic struct {
	Topic, Stage string
	Moved        bool   // all of it; otherwise it is on its way
	Target       string // URL of the other store, without a password
	As           string // its name there
}

// Away are the topics of which messages are in another store, by name. A store without a
// state has none.
func Away(ctx context.Context, s store.Store) (found []AwayTopic, err error) {
	plans, err := mirror.OpenPlans(s)
	if err != nil {
		return nil, nil
	}
	all, err := plans.List(ctx)
	for _, p := range all {
		if stage, gone := away(p); gone {
			found = append(found, AwayTopic{p.Topic, string(stage), stage == mirror.Moved, p.Target, p.InMirrored()})
		}
	}
	slices.SortFunc(found, func(a, b AwayTopic) int { return strings.Compare(a.Topic, b.Topic) })
	return found, err
}

// away reports whether appends go to the new store, or will again, and the stage, which is not that of a closing.
func away(p *mirror.Plan) (stage mirror.Stage, gone bool) {
	if stage = p.Stage; stage == mirror.Closing {
		stage = p.From
	}
	return stage, stage == mirror.Draining || stage == mirror.Moved || stage == mirror.Returning
}

// There says how to ask the other store.
func (a *AwayTopic) There() string {
	if a.As != a.Topic {
		return "use --store " + a.Target + ", where it is topic " + a.As
	}
	return "use --store " + a.Target
}

// MayBeAway says in which other stores a message may be that is not known here; nothing
// where there is none.
func MayBeAway(ctx context.Context, s store.Store) (why, next string) {
	away, err := Away(ctx, s)
	if err != nil || len(away) == 0 { // it is a courtesy
		return "", ""
	}
	var topics, hints []string
	for i := range away {
		topics = append(topics, fmt.Sprintf("topic %s has moved to %s", away[i].Topic, away[i].Target))
		hints = append(hints, away[i].There())
	}
	return "not in this store; " + strings.Join(topics, ", ") + ", where it may be",
		strings.Join(slices.Compact(hints), ", or ")
}
