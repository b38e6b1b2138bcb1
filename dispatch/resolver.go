package dispatch

import (
	"cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// resolver is the policy that the handler of a call gets from policy.FromContext.
type resolver struct{ c *call }

// Decide decides about a part of the work. An ignored failure is counted and logged
// here, because it appears nowhere else; any other comes back as the error of the
// handler and is counted then.
func (r resolver) Decide(a policy.Attempt) policy.Decision {
	decision, t, del := r.decide(&a)
	if decision.Action == policy.Ignore && a.Err != nil && t != nil {
		r.c.d.tell(t, del, &a, &decision)
	}
	return decision
}

// Foresee is Decide of a failure that has not happened.
func (r resolver) Foresee(a policy.Attempt) policy.Decision {
	decision, _, _ := r.decide(&a)
	return decision
}

func (r resolver) decide(a *policy.Attempt) (policy.Decision, *topic, *pawl.Delivery) {
	d := r.c.d
	t, del := r.c.about()
	a.Number = max(a.Number, 1)
	if t == nil {
		return d.decide(*a), nil, nil
	}
	a.Topic, a.Retries = cmp.Or(a.Topic, t.Name), cmp.Or(a.Retries, retriesOf(del, t.retries()))
	if a.Event == (policy.Event{}) {
		a.Event = policy.EventOf(a.Err, t.Event)
	}
	if del != nil {
		a.Number = max(a.Number, del.Attempt)
	}
	return d.decide(*a), t, del
}

// about returns the topic and, unless it is a batch, the delivery of the call;
// nil when it has returned.
func (c *call) about() (*topic, *pawl.Delivery) {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	if len(c.parts) == 0 || c.over {
		return nil, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parts[0].run.topic, c.delivery
}

// givenUp reports whether the call was abandoned: it was decided about then.
func (c *call) givenUp() bool {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	return c.abandoned
}
