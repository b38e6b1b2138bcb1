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
		p(doOperate, "/v1/topics/{topic}/pause", "topics pause", "Pause a topic", pauseBody{}, (*exchange).pauseTopic),
		p(doOperate, "/v1/topics/{topic}/resume", "topics resume", "Resume a topic", reasonBody{},
			(*exchange).resumeTopic),
		p(doAdmin, "/v1/topics/{topic}/set", "topics set", "Change the settings of a topic", setBody{},
			(*exchange).setTopic),
		p(doAdmin, "/v1/topics/{topic}/rm", "topics rm", "Remove a topic", reasonBody{}, (*exchange).removeTopic),
		p(doOperate, "/v1/messages/{id}/cancel", "cancel", "Cancel a message", reasonBody{}, (*exchange).cancelMessage),
		p(doOperate, "/v1/dead/{id}/edit", "dead edit", "Change the body of a dead letter", editBody{},
			(*exchange).editLetter),
		p(doOperate, "/v1/dead/{id}/resolve", "dead resolve", "Mark a dead letter as resolved", reasonBody{},
			(*exchange).resolveLetter),
		p(doOperate, "/v1/dead/{id}/reopen", "dead reopen", "Open a dead letter again", reasonBody{},
			(*exchange).reopenLetter),
		p(doAdmin, "/v1/dead/{id}/discard", "dead discard", "Remove a dead letter for good", reasonBody{},
			(*exchange).discardLetter),
		p(doOperate, "/v1/operations/{id}/pause", "operations pause", "Pause an operation", reasonBody{},
			(*exchange).pauseOperation),
		p(doOperate, "/v1/operations/{id}/cancel", "operations cancel", "End an operation", reasonBody{},
			(*exchange).cancelOperation),
		p(doOperate, "/v1/operations/{id}/resume", "operations resume", "Go on with an operation", reasonBody{},
			(*exchange).resumeOperation),
		p(doOperate, "/v1/pipelines/{name}/pause", "pipelines pause", "Pause a pipeline", pauseBody{},
			(*exchange).pausePipeline),
		p(doOperate, "/v1/pipelines/{name}/resume", "pipelines resume", "Resume a pipeline", reasonBody{},
			(*exchange).resumePipeline),
		p(doOperate, "/v1/schedules/{name}/pause", "schedules pause", "Pause a schedule", reasonBody{},
			onSchedule("pause", (*cron.Scheduler).Pause)),
		p(doOperate, "/v1/schedules/{name}/resume", "schedules resume", "Resume a schedule", reasonBody{},
			onSchedule("resume", (*cron.Scheduler).Resume)),
		p(doOperate, "/v1/schedules/{name}/run", "schedules run", "Send the message of a schedule now", reasonBody{},
			(*exchange).runSchedule),
		p(doAdmin, "/v1/schedules/{name}/rm", "schedules rm", "Remove a schedule", reasonBody{},
			onSchedule("rm", (*cron.Scheduler).Remove)),
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

type reasonBody struct {
	Reason string `json:"reason"`
}

type pauseBody struct {
	ForSeconds float64 `json:"for_seconds"`
	Reason     string  `json:"reason"`
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
	Reason          string       `json:"reason"`
}

type editBody struct {
	Edit   string  `json:"edit"`
	Body   *string `json:"body"`
	Reason string  `json:"reason"`
}

// readOptional reads a body that may be left out.
func (x *exchange) readOptional(v any) error {
	data, err := x.body()
	if err != nil || len(data) == 0 {
		return err
	}
	return decode(data, v)
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

func (x *exchange) pauseTopic() error {
	var b pauseBody
	return x.changeTopic(&b, "pause", func() (string, error) {
		if !(b.ForSeconds >= 0) {
			return "", fault("for_seconds", "is negative")
		}
		return b.Reason, nil
	}, func(ctx context.Context, t store.Topics, name, why string) error {
		return t.Pause(ctx, name, seconds(b.ForSeconds), x.caller.name, why)
	})
}

func (x *exchange) resumeTopic() error {
	var b reasonBody
	return x.changeTopic(&b, "resume", func() (string, error) { return b.Reason, nil },
		func(ctx context.Context, t store.Topics, name, _ string) error { return t.Resume(ctx, name) })
}

// changeTopic changes a topic that is there, writes that down and answers with the topic.
func (x *exchange) changeTopic(body any, verb string, check func() (string, error),
	change func(ctx context.Context, t store.Topics, name, why string) error) error {
	name, err := x.topic()
	if err != nil {
		return err
	}
	if err := x.readOptional(body); err != nil {
		return err
	}
	why, err := check()
	if err != nil {
		return err
	}
	topics, err := part[store.Topics](x)
	if err != nil {
		return err
	}
	ctx, cancel := x.call()
	defer cancel()
	if _, err := topics.Topic(ctx, name); err != nil {
		return err
	}
	why = x.reason(why)
	if err := change(ctx, topics, name, why); err != nil {
		return err
	}
	if err := x.audit(ctx, operate.AuditEntry{Action: "topics " + verb, Target: name, Reason: why}); err != nil {
		return err
	}
	x.api.hub.wake(name)
	return x.showTopic()
}

func (x *exchange) setTopic() error {
	name, err := x.topic()
	if err != nil {
		return err
	}
	var b setBody
	if err := x.readOptional(&b); err != nil {
		return err
	}
	topics, err := part[store.Topics](x)
	if err != nil {
		return err
	}
	span := func(f *float64) *time.Duration {
		if f == nil {
			return nil
		}
		return new(time.Duration(*f * float64(time.Second)))
	}
	ctx, cancel := x.call()
	defer cancel()
	_, err = operate.SetTopic(ctx, topics, name, operate.TopicChange{Order: b.Order, Retry: b.Retry, Park: b.Park,
		Deadline: span(b.DeadlineSeconds), Ageing: span(b.AgeingSeconds), Retain: span(b.RetainSeconds),
		MaxWaiting: b.MaxWaiting, IfVersion: b.IfVersion}, false)
	if err != nil {
		return err
	}
	why := x.reason(b.Reason)
	b.Reason = ""
	change, err := json.Marshal(b)
	if err == nil {
		err = x.audit(ctx, operate.AuditEntry{Action: "topics set", Target: name, Reason: why, Change: string(change)})
	}
	if err != nil {
		return err
	}
	return x.showTopic()
}

func (x *exchange) removeTopic() error {
	name, err := x.topic()
	if err != nil {
		return err
	}
	var b reasonBody
	if err := x.readOptional(&b); err != nil {
		return err
	}
	topics, err := part[store.Topics](x)
	if err != nil {
		return err
	}
	ctx, cancel := x.call()
	defer cancel()
	if _, err := operate.Unused(ctx, x.api.store, topics, name, false); err != nil {
		return err
	}
	if err := topics.RemoveTopic(ctx, name); err != nil {
		return err
	}
	err = x.audit(ctx, operate.AuditEntry{Action: "topics rm", Target: name, Reason: x.reason(b.Reason)})
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, map[string]string{"topic": name})
}

// done is what became of one message or dead letter.
type done struct {
	ID     string `json:"id"`
	Done   int64  `json:"done"`
	Reason string `json:"reason,omitempty"`
}

func (x *exchange) cancelMessage() error {
	var b reasonBody
	if err := x.readOptional(&b); err != nil {
		return err
	}
	i, err := part[store.Inspector](x)
	if err != nil {
		return err
	}
	ctx, cancel := x.call()
	defer cancel()
	if _, err := x.record(ctx); err != nil {
		return err
	}
	return x.act(ctx, "cancel", b.Reason, func(id string) (map[string]error, error) { return i.Cancel(ctx, id) })
}

// act does something to the message of a path, and writes that down.
func (x *exchange) act(ctx context.Context, action, why string, do func(id string) (map[string]error, error)) error {
	id := x.r.PathValue("id")
	refused, err := do(id)
	if err = cmp.Or(err, refused[id]); err != nil {
		return err
	}
	why = x.reason(why)
	if err := x.audit(ctx, operate.AuditEntry{Action: action, Filter: &operate.Filter{IDs: []string{id}},
		Reason: why}); err != nil {
		return err
	}
	return x.answer(http.StatusOK, done{id, 1, why})
}

func (x *exchange) editLetter() error {
	var b editBody
	if err := x.readOptional(&b); err != nil {
		return err
	}
	if (b.Edit == "") == (b.Body == nil) {
		return fault("edit", "or body is needed, and not both")
	}
	ctx, cancel := x.call()
	defer cancel()
	if _, err := x.letter(ctx); err != nil {
		return err
	}
	ops, err := operate.OpenOperations(x.api.store)
	if err != nil {
		return err
	}
	change := func([]byte) ([]byte, error) { return []byte(*b.Body), nil }
	if b.Edit != "" {
		patch, err := operate.ParsePatch(b.Edit)
		if err != nil {
			return fault("edit", err.Error())
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
	changed, err := operate.EditLetter(ctx, ops, id, x.caller.name, cmp.Or(b.Edit, "body"), change)
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, map[string]any{"id": id, "changed": changed})
}

// onLetter does something to the dead letter of a path.
func (x *exchange) onLetter(action string, do func(ctx context.Context, why, id string) (map[string]error, error)) error {
	var b reasonBody
	if err := x.readOptional(&b); err != nil {
		return err
	}
	ctx, cancel := x.call()
	defer cancel()
	if _, err := x.letter(ctx); err != nil {
		return err
	}
	return x.act(ctx, action, b.Reason, func(id string) (map[string]error, error) {
		return do(ctx, x.reason(b.Reason), id)
	})
}

func (x *exchange) resolveLetter() error {
	t, err := part[store.DeadLetters](x)
	if err != nil {
		return err
	}
	return x.onLetter(operate.KindResolve, func(ctx context.Context, why, id string) (map[string]error, error) {
		return t.Resolve(ctx, x.caller.name, why, id)
	})
}

func (x *exchange) reopenLetter() error {
	t, err := part[store.DeadLetters](x)
	if err != nil {
		return err
	}
	return x.onLetter(operate.KindReopen, func(ctx context.Context, _, id string) (map[string]error, error) {
		return t.Reopen(ctx, id)
	})
}

func (x *exchange) discardLetter() error {
	d, err := part[store.DeadLetters](x)
	if err != nil {
		return err
	}
	return x.onLetter(operate.KindDiscard, func(ctx context.Context, _, id string) (map[string]error, error) {
		return d.Purge(ctx, id)
	})
}

func (x *exchange) pauseOperation() error  { return x.askOperation("pause", operate.Paused) }
func (x *exchange) cancelOperation() error { return x.askOperation("cancel", operate.Cancelled) }

func (x *exchange) askOperation(verb, to string) error {
	var b reasonBody
	if err := x.readOptional(&b); err != nil {
		return err
	}
	ctx, cancel := x.call()
	defer cancel()
	ops, _, err := x.operation(ctx)
	if err != nil {
		return err
	}
	o, err := ops.Ask(ctx, x.r.PathValue("id"), to, x.caller.name)
	if err != nil {
		return err
	}
	if err := x.audit(ctx, operate.AuditEntry{Action: "operations " + verb, Target: o.ID, Count: o.Planned,
		Reason: x.reason(b.Reason), Result: operate.AuditResult{Done: o.Done, Refused: o.Refused}}); err != nil {
		return err
	}
	return x.showOperation()
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
	x.run(ops, o)
	return x.answer(http.StatusAccepted, map[string]string{"operation_id": o.ID})
}

// run carries an operation out in this process. It is paused when the process ends.
func (x *exchange) run(ops *operate.Operations, o *operate.Operation) {
	a, who := x.api, x.caller.name
	a.wg.Go(func() {
		r := &operate.Runner{Operations: ops, Who: who}
		err := r.Run(a.ctx, o)
		if err != nil && !errors.Is(err, operate.ErrPaused) && !errors.Is(err, operate.ErrCancelled) {
			a.config.Logger.Warn("an operation did not end", "operation", o.ID, "error", err)
		}
	})
}
