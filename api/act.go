package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/cron"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

func actRoutes() []route {
	p := func(need action, path, command, summary string, body any, do func(*exchange) error) route {
		return route{method: post, path: path, need: need, summary: summary, Command: command, Console: command,
			do: do, body: body}
	}
	all := []route{
		p(doOperate, "/v1/topics/{topic}/pause", "topics pause", "Pause a topic", pauseBody{}, onTopic("pause", pause)),
		p(doOperate, "/v1/topics/{topic}/resume", "topics resume", "Resume a topic", reasonBody{},
			onTopic("resume", resume)),
		p(doAdmin, "/v1/topics/{topic}/set", "topics set", "Change the settings of a topic", setBody{},
			act("topics set", ownTopic, setTopic)),
		p(doAdmin, "/v1/topics/{topic}/rm", "topics rm", "Remove a topic", reasonBody{},
			act("topics rm", ownTopic, removeTopic)),
		p(doOperate, "/v1/messages/{id}/cancel", "cancel", "Cancel a message", reasonBody{},
			onMessage("cancel", (*exchange).record,
				func(_ *exchange, s store.Inspector, _ string) byID { return s.Cancel })),
		p(doOperate, "/v1/messages/{id}/run", "messages run", "Run a message that waits for its time now", reasonBody{},
			onMessage("run", (*exchange).record,
				func(_ *exchange, s store.Inspector, _ string) byID { return s.RunNow })),
		p(doOperate, "/v1/messages/{id}/skip", "skip", "Make a dead letter of a message, so that its key goes on",
			reasonBody{}, onMessage("skip", (*exchange).record, skip)),
		p(doOperate, "/v1/messages/{id}/reclaim", "reclaim", "Take a message back from the worker that holds it",
			reasonBody{}, onMessage("reclaim", (*exchange).record, reclaim)),
		p(doOperate, "/v1/workers/{worker}/drain", "workers drain", "Ask a worker to end in good order", reasonBody{},
			act("workers drain", (*exchange).needWhole, drainWorker)),
		p(doOperate, "/v1/dead/{id}/edit", "dead edit", "Change the body of a dead letter", editBody{},
			show((*exchange).editLetter)),
		p(doOperate, "/v1/dead/{id}/resolve", "dead resolve", "Mark a dead letter as resolved", reasonBody{},
			onMessage(operate.KindResolve, (*exchange).letter, resolve)),
		p(doOperate, "/v1/dead/{id}/reopen", "dead reopen", "Open a dead letter again", reasonBody{},
			onMessage(operate.KindReopen, (*exchange).letter,
				func(_ *exchange, s store.DeadLetters, _ string) byID { return s.Reopen })),
		p(doAdmin, "/v1/dead/{id}/discard", "dead discard", "Remove a dead letter for good", reasonBody{},
			onMessage(operate.KindDiscard, (*exchange).letter,
				func(_ *exchange, s store.DeadLetters, _ string) byID { return s.Purge })),
		p(doOperate, "/v1/operations/{id}/pause", "operations pause", "Pause an operation", reasonBody{},
			askOperation("pause", operate.Paused)),
		p(doOperate, "/v1/operations/{id}/cancel", "operations cancel", "End an operation", reasonBody{},
			askOperation("cancel", operate.Cancelled)),
		p(doOperate, "/v1/operations/{id}/resume", "operations resume", "Go on with an operation", reasonBody{},
			(*exchange).resumeOperation),
		p(doOperate, "/v1/pipelines/{name}/pause", "pipelines pause", "Pause a pipeline", pauseBody{},
			onPipeline("pause", pause)),
		p(doOperate, "/v1/pipelines/{name}/resume", "pipelines resume", "Resume a pipeline", reasonBody{},
			onPipeline("resume", resume)),
		p(doOperate, "/v1/schedules/{name}/pause", "schedules pause", "Pause a schedule", reasonBody{},
			onSchedule("pause", quiet[reasonBody]((*cron.Scheduler).Pause))),
		p(doOperate, "/v1/schedules/{name}/resume", "schedules resume", "Resume a schedule", reasonBody{},
			onSchedule("resume", quiet[reasonBody]((*cron.Scheduler).Resume))),
		p(doOperate, "/v1/schedules/{name}/run", "schedules run", "Send the message of a schedule now", runBody{},
			onSchedule("run", runSchedule)),
		p(doOperate, "/v1/schedules/{name}/put", "schedules put", "Write a schedule", scheduleBody{},
			act("schedules put", (*exchange).needWhole, putSchedule)),
		p(doOperate, "/v1/schedules/{name}/backfill", "schedules backfill", "Send the messages of past ticks",
			backfillBody{}, act("schedules backfill", (*exchange).needWhole, backfillSchedule)),
		p(doOperate, "/v1/state/{topic}/{key}/put", "state put", "Write a value that processes share", stateBody{},
			act("state put", (*exchange).needWhole, putState)),
		p(doAdmin, "/v1/state/{topic}/{key}/rm", "state rm", "Remove a value that processes share", versionBody{},
			act("state rm", (*exchange).needWhole, removeState)),
		p(doAdmin, "/v1/schedules/{name}/rm", "schedules rm", "Remove a schedule", reasonBody{},
			onSchedule("rm", quiet[reasonBody]((*cron.Scheduler).Remove))),
	}
	for _, kind := range []string{operate.KindReplay, operate.KindResolve, operate.KindReopen, operate.KindDiscard} {
		need := doOperate
		if kind == operate.KindDiscard {
			need = doAdmin
		}
		r := p(need, "/v1/dead/"+kind, "dead "+kind, "Plan, then "+kind+" dead letters", planBody{},
			func(x *exchange) error { return x.operate(kind) })
		r.status = http.StatusAccepted
		all = append(all, r)
	}
	return all
}

// reasonBody is in every body: why something is done. Pawl-Reason goes before it.
type reasonBody struct {
	Reason string `json:"reason"`
}

// reasoned is a pointer to a body.
type reasoned[B any] interface {
	*B
	because(x *exchange) string
}

func (b *reasonBody) because(x *exchange) string {
	b.Reason = x.reason(b.Reason)
	return b.Reason
}

type pauseBody struct {
	ForSeconds float64 `json:"for_seconds"`
	reasonBody
}

func (b *pauseBody) check() error {
	if !inTime(b.ForSeconds) {
		return fault("for_seconds", outOfTime)
	}
	return nil
}

type setBody struct {
	Order           *store.Order `json:"order"`
	Retry           *string      `json:"retry"`
	DeadlineSeconds *float64     `json:"deadline_seconds"`
	AgeingSeconds   *float64     `json:"ageing_seconds"`
	RetainSeconds   *float64     `json:"retain_seconds"`
	Park            *bool        `json:"park"`
	MaxWaiting      *int64       `json:"max_waiting"`
	IfVersion       *int64       `json:"if_version"`
	reasonBody
}

// change is what the body asks for.
func (b *setBody) change() *operate.TopicChange {
	span := func(f *float64) *time.Duration {
		if f == nil {
			return nil
		}
		return new(seconds(*f))
	}
	return &operate.TopicChange{Order: b.Order, Retry: b.Retry, Park: b.Park, Deadline: span(b.DeadlineSeconds),
		Ageing: span(b.AgeingSeconds), Retain: span(b.RetainSeconds), MaxWaiting: b.MaxWaiting, IfVersion: b.IfVersion}
}

func (b *setBody) check() error { return b.change().Validate() }

type editBody struct {
	Edit   string  `json:"edit"`
	Body   *string `json:"body"`
	Reason string  `json:"reason"`
}

func (b *editBody) check() error {
	if (b.Edit == "") == (b.Body == nil) {
		return fault("edit", "or body is needed, and not both")
	}
	return nil
}

// reason is why something is done: Pawl-Reason goes before the body.
func (x *exchange) reason(said string) string {
	return store.Text(cmp.Or(x.r.Header.Get("Pawl-Reason"), said))
}

// audit writes down what the caller has done.
func (x *exchange) audit(ctx context.Context, a operate.AuditEntry) error {
	a.Who = x.caller.name
	if a.Count == 0 {
		a.Count, a.Result.Done = 1, 1
	}
	return operate.Audit(ctx, x.api.store, a)
}

// anybody of the role that a route needs may do it, as far as it is known before it is looked up.
func anybody(*exchange) error { return nil }

// later is an answer that is looked up when what was done is written down.
type later func() (any, error)

// act makes a handler of what changes something: it reads the body, does it, writes it down as action, and answers.
func act[B any, P reasoned[B]](action string, allowed func(*exchange) error,
	do func(ctx context.Context, x *exchange, b *B) (operate.AuditEntry, any, error)) func(*exchange) error {
	return func(x *exchange) error {
		var b B
		if err := allowed(x); err != nil {
			return err
		}
		if err := x.readOptional(&b); err != nil {
			return err
		}
		why := P(&b).because(x)
		ctx, cancel := x.call()
		defer cancel()
		entry, answer, err := do(ctx, x, &b)
		if err != nil {
			return err
		}
		entry.Action, entry.Reason = action, why
		if err := x.audit(ctx, entry); err != nil {
			return err
		}
		if find, ok := answer.(later); ok {
			if answer, err = find(); err != nil {
				return err
			}
		}
		return x.answer(http.StatusOK, answer)
	}
}

func ownTopic(x *exchange) error {
	_, err := x.topic()
	return err
}

// toTopic changes a topic.
type toTopic[B any] func(ctx context.Context, x *exchange, t store.Topics, name string, b *B) error

// onTopic is act for the topic of a path; the answer is the topic.
func onTopic[B any, P reasoned[B]](verb string, do toTopic[B]) func(*exchange) error {
	return act[B, P]("topics "+verb, ownTopic, func(ctx context.Context, x *exchange, b *B) (e operate.AuditEntry, _ any,
		err error) {
		topics, err := part[store.Topics](x)
		if err != nil {
			return e, nil, err
		}
		e.Target = x.r.PathValue("topic")
		if _, err = topics.Topic(ctx, e.Target); err == nil {
			err = do(ctx, x, topics, e.Target, b)
		}
		x.api.hub.wake(e.Target)
		return e, later(func() (any, error) { return x.formTopic(ctx, e.Target) }), err
	})
}

func pause(ctx context.Context, x *exchange, t store.Topics, name string, b *pauseBody) error {
	return t.Pause(ctx, name, seconds(b.ForSeconds), x.caller.name, b.Reason)
}

func resume(ctx context.Context, _ *exchange, t store.Topics, name string, _ *reasonBody) error {
	return t.Resume(ctx, name)
}

func setTopic(ctx context.Context, x *exchange, b *setBody) (e operate.AuditEntry, _ any, err error) {
	topics, err := part[store.Topics](x)
	if err != nil {
		return e, nil, err
	}
	e.Target = x.r.PathValue("topic")
	if _, err := operate.SetTopic(ctx, topics, e.Target, *b.change(), false); err != nil {
		return e, nil, err
	}
	b.Reason = "" // it has a place of its own in the entry
	change, err := json.Marshal(b)
	e.Change = string(change)
	return e, later(func() (any, error) { return x.formTopic(ctx, e.Target) }), err
}

func removeTopic(ctx context.Context, x *exchange, _ *reasonBody) (e operate.AuditEntry, _ any, err error) {
	topics, err := part[store.Topics](x)
	if err != nil {
		return e, nil, err
	}
	e.Target = x.r.PathValue("topic")
	if _, err = operate.Unused(ctx, x.api.store, topics, e.Target, false); err == nil {
		err = topics.RemoveTopic(ctx, e.Target)
	}
	return e, map[string]string{"topic": e.Target}, err
}

func drainWorker(ctx context.Context, x *exchange, _ *reasonBody) (e operate.AuditEntry, _ any, err error) {
	e.Target = x.r.PathValue("worker")
	return e, map[string]string{"worker": e.Target}, operate.Drain(ctx, x.api.store, e.Target, x.caller.name)
}

// onPipeline does to all topics of the pipeline of a path what is done to one.
func onPipeline[B any, P reasoned[B]](verb string, do toTopic[B]) func(*exchange) error {
	return act[B, P]("pipeline "+verb, (*exchange).needWhole, func(ctx context.Context, x *exchange, b *B) (
		operate.AuditEntry, any, error) {
		name := x.r.PathValue("name")
		err := operate.EachTopic(ctx, x.api.store, name, func(t store.Topics, topic string) error {
			return do(ctx, x, t, topic, b)
		})
		return operate.AuditEntry{Target: name}, map[string]string{"pipeline": name}, err
	})
}

// done is what became of one message or dead letter.
type done struct {
	ID     string `json:"id"`
	Done   int64  `json:"done"`
	Reason string `json:"reason,omitempty"`
}

// byID does something to messages, and returns those that it was refused for.
type byID = func(ctx context.Context, ids ...string) (map[string]error, error)

func skip(x *exchange, i store.Inspector, why string) byID {
	return func(ctx context.Context, ids ...string) (map[string]error, error) {
		return operate.Skip(ctx, x.api.store, i, x.caller.name, why, ids...)
	}
}

func resolve(x *exchange, s store.DeadLetters, why string) byID {
	return func(ctx context.Context, ids ...string) (map[string]error, error) {
		return s.Resolve(ctx, x.caller.name, why, ids...)
	}
}

// reclaim releases what a worker holds, for it.
func reclaim(x *exchange, l store.Inspector, _ string) byID {
	return func(ctx context.Context, ids ...string) (map[string]error, error) {
		refused := map[string]error{}
		for _, id := range ids {
			r, err := l.Get(ctx, id)
			if err != nil {
				return nil, err
			}
			if r.Lease == nil {
				refused[id] = conflict("the message is " + string(r.State))
				continue
			}
			lost, err := x.api.store.Settle(ctx, store.NewBatch(store.Settlement{Token: r.Lease.Token, ID: id,
				Verdict: store.Release,
				Failure: store.Failure{Error: x.caller.name + " took it back from " + r.Lease.Owner}}))
			if err != nil {
				return nil, err
			}
			if len(lost) > 0 {
				refused[id] = conflict("its worker has settled it, or has lost it")
			}
		}
		return refused, nil
	}
}

// onMessage does something to the message of a path, which find returns.
func onMessage[T any](action string, find func(*exchange, context.Context) (store.Record, error),
	do func(x *exchange, s T, why string) byID) func(*exchange) error {
	return act(action, anybody, func(ctx context.Context, x *exchange, b *reasonBody) (e operate.AuditEntry, _ any,
		err error) {
		s, err := part[T](x)
		if err != nil {
			return e, nil, err
		}
		if _, err := find(x, ctx); err != nil {
			return e, nil, err
		}
		id := x.r.PathValue("id")
		refused, err := do(x, s, b.Reason)(ctx, id)
		e.Filter = &operate.Filter{IDs: []string{id}}
		return e, done{id, 1, b.Reason}, cmp.Or(err, refused[id])
	})
}

func (x *exchange) editLetter(ctx context.Context) (any, error) {
	var b editBody
	if err := x.readOptional(&b); err != nil {
		return nil, err
	}
	if _, err := x.letter(ctx); err != nil {
		return nil, err
	}
	ops, err := operate.OpenOperations(x.api.store)
	if err != nil {
		return nil, err
	}
	change := func([]byte) ([]byte, error) { return []byte(*b.Body), nil }
	if b.Edit != "" {
		patch, err := operate.ParsePatch(b.Edit)
		if err != nil {
			return nil, fault("edit", err.Error())
		}
		change = func(body []byte) ([]byte, error) {
			next, err := patch(ctx, body)
			if err != nil {
				return nil, fault("edit", err.Error())
			}
			return next, nil
		}
	}
	id := x.r.PathValue("id")
	changed, err := operate.EditLetter(ctx, ops, id, x.caller.name, cmp.Or(b.Edit, "body"),
		x.reason(b.Reason), change)
	return map[string]any{"id": id, "changed": changed}, err
}

// askOperation asks whoever carries out the operation of a path to pause or to end it.
func askOperation(verb, to string) func(*exchange) error {
	return act("operations "+verb, anybody, func(ctx context.Context, x *exchange, _ *reasonBody) (
		e operate.AuditEntry, _ any, err error) {
		ops, _, err := x.operation(ctx)
		if err != nil {
			return e, nil, err
		}
		o, err := ops.Ask(ctx, x.r.PathValue("id"), to, x.caller.name)
		if err != nil {
			return e, nil, err
		}
		return operate.AuditEntry{Target: o.ID, Count: o.Planned, Result: operate.AuditResult{Done: o.Done,
			Refused: o.Refused}}, later(func() (any, error) { return x.operationState(ctx) }), nil
	})
}

func (x *exchange) resumeOperation() error {
	var b reasonBody
	if err := x.readOptional(&b); err != nil {
		return err
	}
	ctx, cancel := x.call()
	defer cancel()
	ops, o, err := x.operation(ctx)
	if err != nil {
		return err
	}
	now, err := ops.State.Clock(ctx)
	switch {
	case err != nil:
		return err
	case o.Ended():
		return conflict("the operation is " + o.Status)
	case o.Live(now):
		return conflict("the operation is being carried out")
	}
	if err := x.audit(ctx, operate.AuditEntry{Action: "operations resume", Target: o.ID, Count: o.Planned,
		Reason: x.reason(b.Reason)}); err != nil {
		return err
	}
	if err := x.run(ctx, ops, o); err != nil {
		return err
	}
	return x.answer(http.StatusAccepted, map[string]string{"operation_id": o.ID})
}

// run begins an operation, which is stored when it returns, and carries it out in this process. It is paused when the
// process ends.
func (x *exchange) run(ctx context.Context, ops *operate.Operations, o *operate.Operation) error {
	a, r := x.api, &operate.Runner{Operations: ops, Who: x.caller.name}
	if err := r.Begin(ctx, o); err != nil {
		return err
	}
	a.wg.Go(func() {
		err := r.Finish(a.ctx)
		if err != nil && !errors.Is(err, operate.ErrPaused) && !errors.Is(err, operate.ErrCancelled) {
			a.config.Logger.Warn("an operation did not end", "operation", o.ID, "error", err)
		}
	})
	return nil
}
