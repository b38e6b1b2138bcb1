package wecom

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
)

// account is the state of a customer-service account: a mark in the scope NAME.accounts.
type account struct {
	Cursor       string    `json:"cursor,omitempty"`
	Fresh        time.Time `json:"fresh,omitzero"` // when the cursor last moved, or there was nothing behind it
	Behind       bool      `json:"behind,omitempty"`
	LastPull     time.Time `json:"last_pull,omitzero"`
	LastDoorbell time.Time `json:"last_doorbell,omitzero"`
	Parked       string    `json:"parked,omitempty"` // why it is left alone; empty: it is not
	Pulled       int64     `json:"pulled,omitempty"` // messages, in all

	version int64
}

// accounts are all of a pipeline.
type accounts struct {
	marks store.Shared
	scope string
}

func accountsOf(marks store.Shared, pipeline string) *accounts {
	return &accounts{marks: marks, scope: pipeline + ".accounts"}
}

var errTakenOver = errors.New("another process pulls this account now")

func (a *accounts) get(ctx context.Context, id string) (now account, err error) {
	now.version, err = pipeline.ReadMark(ctx, a.marks, a.scope, id, &now)
	return now, err
}

// put keeps what is known, unless another process has written since it was read.
func (a *accounts) put(ctx context.Context, id string, now *account) error {
	receipt, err := pipeline.WriteMark(ctx, a.marks, pawl.Mark{Scope: a.scope, Key: id, If: now.version}, now)
	if err != nil {
		return err
	}
	if !receipt.Put {
		return errTakenOver
	}
	now.version = receipt.Version
	return nil
}

// all yields the accounts that were ever pulled, by id.
func (a *accounts) all(ctx context.Context) iter.Seq2[string, account] {
	return func(yield func(string, account) bool) {
		for m, err := range a.marks.ListMarks(ctx, a.scope, "") {
			if err != nil {
				return
			}
			var now account
			if json.Unmarshal(m.Value, &now) == nil && !yield(m.Key, now) {
				return
			}
		}
	}
}
