package api

import (
	"cmp"
	"context"
	"net/http"

	"github.com/pawl-dev/pawl/cron"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

func (x *exchange) pausePipeline() error {
	var b pauseBody
	if err := x.readOptional(&b); err != nil {
		return err
	}
	return x.onPipeline("pause", b.Reason, func(ctx context.Context, t store.Topics, topic, why string) error {
		return t.Pause(ctx, topic, seconds(b.ForSeconds), x.caller.name, why)
	})
}

func (x *exchange) resumePipeline() error {
	var b reasonBody
	if err := x.readOptional(&b); err != nil {
		return err
	}
	return x.onPipeline("resume", b.Reason, func(ctx context.Context, t store.Topics, topic, _ string) error {
		return t.Resume(ctx, topic)
	})
}

func (x *exchange) onPipeline(verb, why string,
	change func(ctx context.Context, t store.Topics, topic, why string) error) error {
	if err := x.needWhole(); err != nil {
		return err
	}
	ctx, cancel := x.call()
	defer cancel()
	name := x.r.PathValue("name")
	why = x.reason(why)
	if err := operate.EachTopic(ctx, x.api.store, name, func(t store.Topics, topic string) error {
		return change(ctx, t, topic, why)
	}); err != nil {
		return err
	}
	if err := x.audit(ctx, operate.AuditEntry{Action: "pipeline " + verb, Target: name, Reason: why}); err != nil {
		return err
	}
	return x.answer(http.StatusOK, map[string]string{"pipeline": name})
}

// onSchedule does something to the schedule of a path.
func onSchedule(verb string, do func(*cron.Scheduler, context.Context, string) error) func(*exchange) error {
	return func(x *exchange) error {
		return x.schedule(verb, func(ctx context.Context, c *cron.Scheduler, name string) (any, error) {
			return map[string]string{"schedule": name}, do(c, ctx, name)
		})
	}
}

func (x *exchange) runSchedule() error {
	return x.schedule("run", func(ctx context.Context, c *cron.Scheduler, name string) (any, error) {
		id, err := c.RunNow(ctx, name)
		return map[string]string{"id": id}, err
	})
}

func (x *exchange) schedule(verb string,
	do func(ctx context.Context, c *cron.Scheduler, name string) (any, error)) error {
	var b reasonBody
	if err := cmp.Or(x.needWhole(), x.readOptional(&b)); err != nil {
		return err
	}
	c, err := x.scheduler()
	if err != nil {
		return err
	}
	ctx, cancel := x.call()
	defer cancel()
	name := x.r.PathValue("name")
	if _, err := c.Status(ctx, name); err != nil {
		return err
	}
	answer, err := do(ctx, c, name)
	if err == nil {
		err = x.audit(ctx, operate.AuditEntry{Action: "schedules " + verb, Target: name, Reason: x.reason(b.Reason)})
	}
	if err != nil {
		return err
	}
	return x.answer(http.StatusOK, answer)
}
