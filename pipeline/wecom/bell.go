package wecom

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// doorbell is the body of a message of NAME.pull: an account that is to be pulled.
type doorbell struct {
	Account string `json:"account,omitempty"` // empty: all that are known
	Token   string `json:"token,omitempty"`   // of the callback; empty: nobody rang
	// Asked tells that a person, or nobody, asked: an account that is parked is not pulled for Poll.
	Poll bool `json:"poll,omitempty"`
	// Unpark pulls an account even if it is parked.
	Unpark bool `json:"unpark,omitempty"`
}

// tokenLife is how long the token of a callback is valid.
const tokenLife = 10 * time.Minute

const laneOfAll = "accounts" // no account is called so: their ids begin with wk

// ring stores a doorbell. Those of one account are one until its pull begins: what rings later is kept.
func ring(ctx context.Context, s store.Store, topic string, bell doorbell) error {
	body, err := json.Marshal(bell)
	if err != nil {
		return err
	}
	lane := bell.Account
	if lane == "" {
		lane = laneOfAll
	}
	kind := "ring/"
	if bell.Poll {
		kind = "poll/"
	}
	return store.Send(ctx, s, pawl.Message{
		Topic: topic, Key: fitKey(lane), Body: body,
		Unique: pawl.Unique{Key: kind + string(fitKey(lane)), For: pawl.UntilClaimed},
	})
}
