package wecom

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/pawl-dev/pawl"
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
	marks store.Marks
	scope string
}

func accountsOf(marks store.Marks, pipeline string) *accounts {
	return &accounts{marks: marks, scope: pipeline + ".accounts"}
}

var errTakenOver = errors.New("another process pulls this account now")

func (a *accounts) get(ctx context.Context, id string) (account, error) {
	marks, err := a.marks.GetMarks(ctx, a.scope, id)
	if err != nil {
		return account{}, err
	}
	return readAccount(marks[id])
}

func readAccount(m store.Marked) (account, error) {
	var now account
	if m.Version == 0 {
		return now, nil
	}
	err := json.Unmarshal(m.Value, &now)
	now.version = m.Version
	return now, err
}

// put keeps what is known, unless another process has written since it was read.
func (a *accounts) put(ctx context.Context, id string, now *account) error {
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	receipts, err := a.marks.PutMarks(ctx, pawl.Mark{Scope: a.scope, Key: id, Value: text, If: now.version})
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		return err
	}
	if !receipts[0].Put {
		return errTakenOver
	}
	now.version = receipts[0].Version
	return nil
}

// all yields the accounts that were ever pulled, by id.
func (a *accounts) all(ctx context.Context) iter.Seq2[string, account] {
	return func(yield func(string, account) bool) {
		for m, err := range a.marks.ListMarks(ctx, a.scope, "") {
			if err != nil {
				return
			}
			if now, err := readAccount(m); err == nil && !yield(m.Key, now) {
				return
			}
		}
	}
}
