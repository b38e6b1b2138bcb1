// Package typed makes a topic and the type of its bodies one value, which sends and handles: so that the compiler sees
// to it that both sides agree.
package typed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/store"
)

// Topic is a topic whose bodies are values of type T. [JSON] makes one; another codec is written into the fields.
type Topic[T any] struct {
	Name   string
	Encode func(T) ([]byte, error)
	Decode func(body []byte, v *T) error
}

// JSON returns a topic whose bodies are JSON.
func JSON[T any](name string) Topic[T] {
	return Topic[T]{
		Name:   name,
		Encode: func(v T) ([]byte, error) { return json.Marshal(v) },
		Decode: func(body []byte, v *T) error { return json.Unmarshal(body, v) },
	}
}

// Message returns a message with v as its body. Key, priority, delay and the like are for the caller to set.
func (t Topic[T]) Message(v T) (pawl.Message, error) {
	body, err := t.Encode(v)
	if err != nil {
		return pawl.Message{}, fmt.Errorf("encode a message of topic %s: %w", t.Name, err)
	}
	return pawl.Message{Topic: t.Name, Body: body}, nil
}

// Send appends messages with these values, as [store.Send] does.
func (t Topic[T]) Send(ctx context.Context, s store.Store, values ...T) error {
	msgs, err := t.messages(values)
	if err != nil {
		return err
	}
	return store.Send(ctx, s, msgs...)
}

// SendTx appends messages with these values in the caller's own transaction, as [store.SendTx] does.
func SendTx[TX, T any](ctx context.Context, s store.Store, tx TX, t Topic[T], values ...T) error {
	msgs, err := t.messages(values)
	if err != nil {
		return err
	}
	return store.SendTx(ctx, s, tx, msgs...)
}

func (t Topic[T]) messages(values []T) ([]pawl.Message, error) {
	msgs := make([]pawl.Message, len(values))
	for i, v := range values {
		m, err := t.Message(v)
		if err != nil {
			return nil, err
		}
		msgs[i] = m
	}
	return msgs, nil
}

// Handler returns a handler that gets the decoded body. A body that cannot be decoded becomes a dead letter at once
// ([pawl.Typed]).
func (t Topic[T]) Handler(do func(context.Context, T, *pawl.Delivery) error) pawl.Handler {
	return pawl.Typed(t.Decode, do)
}

// Known returns an error ([store.ErrNotFound]) if nobody has declared the topic and no worker is registered for it:
// what is sent to it would wait, because its name is misspelt, say. For the start of a program that sends; a store
// that keeps neither settings nor workers knows every topic.
func (t Topic[T]) Known(ctx context.Context, s store.Store) error {
	topics, ok := store.As[store.Topics](s)
	if !ok {
		return nil
	}
	settings, err := topics.Topic(ctx, t.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) || settings.Version > 0 {
		return err
	}
	entries, ok := store.As[store.Shared](s)
	if !ok {
		return nil
	}
	for e, err := range roster.All(ctx, entries) {
		if err != nil {
			return err
		}
		if serves(e.Registration, t.Name) {
			return nil
		}
	}
	return &store.Error{Op: "send to topic " + t.Name, Code: store.ErrNotFound,
		Err:  errors.New("nobody has declared it, and no worker is registered for it"),
		Hint: "look at its name, or start its worker first"}
}

func serves(r *roster.Registration, topic string) bool {
	for i := range r.Topics {
		if r.Topics[i].Topic == topic {
			return true
		}
	}
	for i := range r.Workers {
		if serves(&r.Workers[i], topic) {
			return true
		}
	}
	return false
}
