package wecom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// inbox stores what was pulled.
type inbox struct {
	topic  string
	store  store.Store // where the messages are
	home   store.Store // the daemon's
	ledger *ledger
	log    *slog.Logger
	// stored is called for every message, with how long its page took to be stored.
	stored func(msgType string, took time.Duration)
	failed func(err error)
}

// take stores the messages of a page, each in the order of its user. When it returns nil, all are stored.
func (in *inbox) take(ctx context.Context, account string, list []json.RawMessage) error {
	items := make([]item, 0, len(list))
	seen := map[string]bool{}
	for _, raw := range list {
		it, err := readItem(raw, account)
		if err != nil {
			in.log.Warn("WeCom sent what is not a message; it is left out", "open_kfid", account, "error", err)
			continue
		}
		if !seen[it.MsgID] {
			seen[it.MsgID] = true
			items = append(items, it)
		}
	}
	if len(items) == 0 {
		return nil
	}
	// The ledger comes first: when a handler gets a message, its window is open.
	if err := in.ledger.pulled(ctx, items); err != nil {
		return err
	}
	msgs := make([]pawl.Message, 0, len(items))
	for i := range items {
		m, err := items[i].message(in.topic)
		if err != nil {
			return err
		}
		msgs = append(msgs, m)
	}
	began := time.Now()
	// A message whose outcome is unknown may be stored twice: the handler recognises it by its id.
	if err := pipeline.AppendAll(ctx, in.store, msgs, in.failed, func(refused []pawl.Message, why error) error {
		return in.keepDead(ctx, refused, why)
	}); err != nil {
		return err
	}
	took := time.Since(began)
	for i := range items {
		in.stored(items[i].MsgType, took)
	}
	return nil
}

// keepDead keeps messages that their store never takes as dead letters of the daemon's store.
func (in *inbox) keepDead(ctx context.Context, msgs []pawl.Message, why error) error {
	dead, ok := store.As[store.DeadLetters](in.home)
	if !ok {
		return fmt.Errorf("%d messages are refused: %w", len(msgs), why)
	}
	letters, now := make([]store.Record, len(msgs)), time.Now()
	for i := range msgs {
		letters[i] = store.Record{
			Message: msgs[i], State: store.IsDead, Reason: "refused by the store of the messages: " + why.Error(),
			Kind:       pawl.KindDecode,
			EnqueuedAt: now, DeadAt: now,
		}
	}
	refused, err := dead.Import(ctx, letters...)
	if err != nil {
		return err
	}
	for id, err := range refused {
		if !errors.Is(err, store.ErrConflict) { // it is there already
			return fmt.Errorf("message %s can be kept nowhere: %w", id, err)
		}
	}
	return nil
}
