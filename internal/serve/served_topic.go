package serve

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	hook "github.com/pawl-dev/pawl/handler/http"
	"github.com/pawl-dev/pawl/internal/config"
)

// servedTopic is one topic that a daemon carries out.
type servedTopic struct {
	runner
	topic  config.Topic
	gate   claimGate
	limit  *dispatch.Limiter // its own
	limits []*dispatch.Limiter
}

func newServedTopic(t config.Topic, p *programs, replies *hook.Replies, all limits) (*servedTopic, error) {
	c := &servedTopic{topic: t}
	var err error
	if c.limit, c.limits, err = all.of(&t); err != nil {
		return nil, err
	}
	if c.runner, err = newRunner(&t, p, replies); err == nil {
		c.gate.room = c.room()
	}
	return c, err
}

// dispatched is the topic as the dispatcher knows it.
func (c *servedTopic) dispatched() dispatch.Topic {
	t := &c.topic
	return dispatch.Topic{
		Name: t.Name, Handler: c, Concurrency: c.slots(t.Concurrency), Reserved: t.Reserved,
		Lease: t.Lease, Settings: t.Settings, Limits: c.limits,
	}
}

// Handle implements pawl.Handler.
func (c *servedTopic) Handle(ctx context.Context, d *pawl.Delivery) error {
	c.gate.begun()
	return c.runner.Handle(ctx, d)
}
