package operate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

const auditPrefix = "audit/"

// settingsOf is the prefix of the entries about the settings of a topic, so that they are found without the others.
func settingsOf(topic string) string { return auditPrefix + "topic/" + topic + "/" }

// AuditEntry records a change by a person, as JSON. It is kept in the state of the
// store.
type AuditEntry struct {
	ID          string      `json:"id"`
	At          time.Time   `json:"at"`
	Who         string      `json:"who"`
	Action      string      `json:"action"`
	Filter      *Filter     `json:"filter"`
	Count       int64       `json:"count"` // how many it was about
	Result      AuditResult `json:"result"`
	OperationID string      `json:"operation_id,omitempty"`
	Status      string      `json:"status,omitempty"` // of the operation
	Reason      string      `json:"reason,omitempty"`
	Target      string      `json:"target,omitempty"` // what it was done to, or goes to: a topic, a message, a file
	Change      string      `json:"change,omitempty"` // a patch, settings
	// From are the topics of the dead letters of a replay, if they are few.
	From []string `json:"from,omitempty"`
	// Refused are the ids that a cancel refused, if they are few.
	Refused []string `json:"refused_ids,omitempty"`
	// Via is by what, and from which address, it was asked for; empty: by the command line, or by a program itself.
	Via     string  `json:"via,omitempty"`
	Seconds float64 `json:"duration_seconds"`
	// Of an edit: what was there before, if it is short, and its hash.
	OriginalBody       *string `json:"original_body,omitempty"`
	OriginalBodyBase64 *string `json:"original_body_base64,omitempty"`
	OriginalSHA256     string  `json:"original_sha256,omitempty"`
}

// AuditResult is the result of the change.
type AuditResult struct {
	Done    int64 `json:"done"`
	Refused int64 `json:"refused"`
}

// maxOriginal is how much of a body an entry holds.
const maxOriginal = 64 << 10

// original notes what a body was.
func (a *AuditEntry) original(body []byte) {
	a.OriginalSHA256 = hashOf(body)
	switch {
	case len(body) > maxOriginal:
	case utf8.Valid(body):
		a.OriginalBody = new(string(body))
	default:
		a.OriginalBodyBase64 = new(base64.StdEncoding.EncodeToString(body))
	}
}

func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// Audit stores an entry, with an id and the store's time where it has none. A
// store without a state keeps none.
func Audit(ctx context.Context, s store.Store, a AuditEntry) error {
	state, ok := store.As[store.Shared](s)
	if !ok {
		return nil
	}
	return putAudit(ctx, state, a.ID, a)
}

// viaKey is the key of by what something is asked for, in a context.
type viaKey struct{}

// Via notes by what something is asked for, and from where, for the audit: "console 10.0.0.7". What was noted first
// stays.
func Via(ctx context.Context, what string) context.Context {
	if via(ctx) != "" {
		return ctx
	}
	return context.WithValue(ctx, viaKey{}, what)
}

func via(ctx context.Context) string {
	what, _ := ctx.Value(viaKey{}).(string)
	return what
}

// putAudit stores an entry under a name that sorts by time.
func putAudit(ctx context.Context, state store.Shared, name string, a AuditEntry) error {
	if a.At.IsZero() {
		now, err := state.Clock(ctx)
		if err != nil {
			return err
		}
		a.At = now.UTC()
	}
	a.Via = cmp.Or(a.Via, via(ctx))
	if a.ID == "" {
		a.ID = pawl.NewID()
	}
	key := auditPrefix + cmp.Or(name, a.ID)
	if a.Action == "topics set" || a.Action == "topics declare" {
		key = settingsOf(a.Target) + a.ID
	}
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	_, err = state.PutState(ctx, key, b, store.AnyVersion, a.Who)
	return err
}

// audit writes down how far an operation is. It has one entry, from its beginning
// on.
func (os *Operations) audit(ctx context.Context, o *Operation) error {
	return putAudit(ctx, os.State, o.ID, o.entry())
}

func (o *Operation) entry() AuditEntry {
	return AuditEntry{
		ID: o.ID, At: o.CreatedAt, Who: o.Who, Action: o.Kind, Filter: &o.Filter, Count: o.Planned,
		Result:      AuditResult{o.Done, o.Refused},
		OperationID: o.ID, Status: o.Status, Reason: o.Reason, Target: o.To, From: o.From, Change: o.Edit,
		Seconds: o.ActiveSeconds, Via: o.Via,
	}
}

// read reads what the state of a store has, as JSON.
func read[T any](e *store.Entry) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(e.Value, v); err != nil {
		return nil, &store.Error{Op: "read " + e.Key, Code: store.ErrCorrupt, Err: err}
	}
	return v, nil
}

// AuditFilter selects entries. A zero field selects all.
type AuditFilter struct {
	Since  time.Time
	Action string
	Limit  int // the latest ones
}

// ListAudit returns entries, the oldest first. Of an operation that is under way
// the entry says how far it is.
func ListAudit(ctx context.Context, s store.Store, f AuditFilter) ([]AuditEntry, error) {
	found, err := PageAudit(ctx, s, f, Part{Limit: f.Limit, Newest: true})
	slices.Reverse(found.Items)
	return found.Items, err
}

// PageAudit returns a part of the entries. One that has changed, as those of operations do, comes where its last
// change is.
func PageAudit(ctx context.Context, s store.Store, f AuditFilter, part Part) (Page[AuditEntry], error) {
	return pageAudit(ctx, s, auditPrefix, f, part)
}

// pageAudit is PageAudit of those whose keys begin with prefix.
func pageAudit(ctx context.Context, s store.Store, prefix string, f AuditFilter, part Part) (Page[AuditEntry], error) {
	state, ok := store.As[store.Shared](s)
	if !ok {
		return Page[AuditEntry]{}, &store.Error{Op: "audit", Code: store.ErrUnsupported}
	}
	if !part.Newest && part.From == 0 && !f.Since.IsZero() {
		var err error
		if part.From, err = beginning(ctx, state, prefix, f.Since); err != nil {
			return Page[AuditEntry]{}, err
		}
	}
	found, err := PageOf(ctx, state, prefix, part, func(e *store.Entry) (a AuditEntry, take bool, err error) {
		if part.Newest && e.At.Before(f.Since) {
			return a, false, errEnough
		}
		of, err := read[AuditEntry](e)
		if err != nil {
			return a, false, err
		}
		return *of, (f.Action == "" || f.Action == of.Action) && !of.At.Before(f.Since), nil
	})
	if err == nil {
		err = refresh(ctx, state, found.Items)
	}
	slices.SortStableFunc(found.Items, func(a, b AuditEntry) int {
		if part.Newest {
			a, b = b, a
		}
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID))
	})
	return found, err
}

// beginning is the version above which the entries are of that time or later: they are in the order of their times.
func beginning(ctx context.Context, state store.Shared, prefix string, since time.Time) (from int64, err error) {
	to, err := latest(ctx, state, prefix, 0)
	for below := to.Version; err == nil && from < below; { // up to from they are older, above below they are not
		at := from + (below-from+1)/2
		e, failed := latest(ctx, state, prefix, at+1)
		if err = failed; e.Version == 0 || e.At.Before(since) {
			from = at
		} else {
			below = e.Version - 1
		}
	}
	return from, err
}

// latest is the last entry whose version is below before (0: of all); none has the version 0.
func latest(ctx context.Context, state store.Shared, prefix string, before int64) (store.Entry, error) {
	for e, err := range state.LatestState(ctx, prefix, before) {
		return e, err
	}
	return store.Entry{}, nil
}

// refresh asks operations that are under way how far they are.
func refresh(ctx context.Context, state store.Shared, all []AuditEntry) error {
	os := &Operations{State: state}
	for i := range all {
		if all[i].OperationID != all[i].ID || all[i].Status == Done || all[i].Status == Cancelled {
			continue
		}
		o, err := os.Get(ctx, all[i].ID)
		switch {
		case err == nil:
			all[i] = o.entry()
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
	}
	return nil
}
