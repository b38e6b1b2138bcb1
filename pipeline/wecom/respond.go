package wecom

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// responder carries out the topic of the messages: it asks the handler, and stores what is to be sent.
type responder struct {
	handler Handler
	home    store.Store
	replies string // topic
	handled *handled
	asked   func(took time.Duration, err error)
	done    func(at time.Time)
}

// Handle implements pawl.Handler.
func (r *responder) Handle(ctx context.Context, d *pawl.Delivery) error {
	var e Envelope
	if err := json.Unmarshal(d.Body, &e); err != nil {
		return pawl.Permanent(pawl.OfKind(pawl.KindDecode, err))
	}
	if d.Headers[headerOrigin] == strconv.Itoa(originServicer) {
		return nil // a person has answered
	}
	id := fitID(e.MessageID)
	done, err := r.handled.has(ctx, id)
	if err != nil || done {
		return err
	}
	began := time.Now()
	answer, err := r.handler.Answer(ctx, d)
	r.asked(time.Since(began), err)
	if err != nil {
		return err
	}
	it, err := readItem(e.Content, e.OpenKfID)
	if err != nil {
		return pawl.Permanent(pawl.OfKind(pawl.KindDecode, err))
	}
	tasks, err := answer.tasks(&e, it.Event.WelcomeCode)
	if err != nil {
		return pawl.Permanent(pawl.OfKind(KindHandler, err))
	}
	if err := r.hand(ctx, d, tasks); err != nil {
		return err
	}
	if err := r.handled.add(ctx, id); err != nil {
		return err
	}
	r.done(time.Now())
	return nil
}

// hand stores the calls of an answer. Their ids follow from the message: handed on twice, they are there once.
func (r *responder) hand(ctx context.Context, d *pawl.Delivery, tasks []task) error {
	if len(tasks) == 0 {
		return nil
	}
	msgs := make([]pawl.Message, len(tasks))
	for i := range tasks {
		body, err := json.Marshal(&tasks[i])
		if err != nil {
			return pawl.Permanent(pawl.OfKind(KindHandler, err))
		}
		msgs[i] = pawl.Message{ID: tasks[i].MsgID, Topic: r.replies,
			Key: fitKey(tasks[i].OpenKfID + "/" + tasks[i].User), Body: body}
		if trace := d.Headers["traceparent"]; trace != "" {
			msgs[i].Headers = map[string]string{"traceparent": trace}
		}
	}
	return store.Send(ctx, r.home, msgs...)
}
