package operate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/edit"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/codec"
)

// Headers of a dead letter that was edited: by whom, when, in the course of what,
// and the hash of the body that it came with.
const (
	HeaderEditedBy = "pawl-edited-by"
	HeaderEditedAt = "pawl-edited-at"
	HeaderEdit     = "pawl-edit"
	HeaderOriginal = "pawl-original-sha256"
)

// ParsePatch reads a patch, a program of jq.
func ParsePatch(text string) (edit.Patch, error) { return edit.Parse(text) }

// provenance is the headers of an edit.
func provenance(m *pawl.Message, editID, who string, at time.Time) map[string]string {
	headers := map[string]string{HeaderEditedBy: who, HeaderEditedAt: at.UTC().Format(time.RFC3339Nano),
		HeaderEdit: editID}
	if _, unread := unreadable(m); m.Headers[HeaderOriginal] == "" && !unread {
		headers[HeaderOriginal] = hashOf(m.Body)
	}
	return headers
}

// unreadable tells a message whose body is not what it was appended with, because the
// codec cannot decode it, and why.
func unreadable(m *pawl.Message) (why string, yes bool) {
	_, encoded := m.Headers[codec.Header]
	why, sealed := m.Headers[codec.SealedHeader]
	return why, encoded && sealed
}

// editor edits the dead letters of an operation before they are replayed.
type editor struct {
	*Operations
	op    *Operation
	who   string
	patch edit.Patch
}

// before edits letters and returns those that could not be. Letters that bear the
// mark of the operation were edited before; so were those that an earlier one has edited
// in the same way, and could not replay.
func (e *editor) before(ctx context.Context, ids []string) (refused map[string]error, err error) {
	refused = map[string]error{}
	var edits []store.Edit
	var entries []AuditEntry
	for _, id := range ids {
		r, err := e.Look.Get(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound), err == nil && r.State != store.IsDead:
			continue
		case err != nil:
			return nil, err
		case r.Headers[HeaderEdit] == e.op.ID:
			if err := e.marked(ctx, id); err != nil {
				return nil, err
			}
			continue
		}
		if done, err := e.applied(ctx, &r); err != nil {
			return nil, err
		} else if done {
			continue
		}
		if why, yes := unreadable(&r.Message); yes {
			refused[id] = &pawl.InvalidError{Field: "body", Why: "cannot be read: " + why}
			continue
		}
		body, err := e.patch(ctx, r.Body)
		if err != nil {
			refused[id] = &pawl.InvalidError{Field: "body", Why: err.Error()}
			continue
		}
		a, entry, err := e.editOf(ctx, &r, body)
		if err != nil {
			return nil, err
		}
		edits, entries = append(edits, a), append(entries, entry)
	}
	no, err := e.write(ctx, edits, entries)
	maps.Copy(refused, no)
	return refused, err
}

// editOf is the edit of one letter. What was there is in the audit first, in
// an entry that says nothing of success yet.
func (e *editor) editOf(ctx context.Context, r *store.Record, body []byte) (store.Edit, AuditEntry, error) {
	now, err := e.State.Clock(ctx)
	if err != nil {
		return store.Edit{}, AuditEntry{}, err
	}
	entry := AuditEntry{ID: pawl.NewID(), At: now.UTC(), Who: e.who, Action: "edit", Count: 1,
		OperationID: e.op.ID, Target: r.ID, Change: e.op.Edit, Reason: e.op.Reason, Via: e.op.Via}
	if why, yes := unreadable(&r.Message); yes {
		entry.Reason = strings.TrimPrefix(entry.Reason+"; ", "; ") + "what was there cannot be read: " + why
	} else {
		entry.original(r.Body)
	}
	a := store.Edit{ID: r.ID, Body: append([]byte{}, body...), Headers: provenance(&r.Message, e.op.ID, e.who, now)}
	return a, entry, e.note(ctx, entry)
}

func (e *editor) note(ctx context.Context, entry AuditEntry) error {
	return putAudit(ctx, e.State, e.op.ID+"/"+entry.Target, entry)
}

// write edits letters, and completes their entries.
func (e *editor) write(ctx context.Context, edits []store.Edit,
	entries []AuditEntry) (map[string]error, error) {
	refused, err := e.Letters.Edit(ctx, edits...)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		if refused[entry.Target] == nil {
			entry.Result.Done = 1
		} else {
			entry.Result.Refused = 1
		}
		if err := e.note(ctx, entry); err != nil {
			return refused, err
		}
	}
	return refused, nil
}

// applied reports whether an earlier operation has edited a letter in the same way since
// it died: its replay was refused, or the operation ended before. Once more would be
// once too often.
func (e *editor) applied(ctx context.Context, r *store.Record) (bool, error) {
	earlier := r.Headers[HeaderEdit]
	if earlier == "" {
		return false, nil
	}
	entry, err := e.entry(ctx, earlier, r.ID)
	return entry != nil && entry.Change == e.op.Edit && !r.DeadAt.After(entry.At), err
}

// entry is what the audit says of the edit of a letter; nil if it has nothing.
func (e *editor) entry(ctx context.Context, operation, id string) (*AuditEntry, error) {
	kept, err := e.State.GetState(ctx, auditPrefix+operation+"/"+id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return read[AuditEntry](&kept)
}

// marked completes the entry of a letter that was edited before: whoever did it
// may have died in between.
func (e *editor) marked(ctx context.Context, id string) error {
	entry, err := e.entry(ctx, e.op.ID, id)
	if entry == nil || entry.Result.Done == 1 {
		return err
	}
	entry.Result.Done = 1
	return e.note(ctx, *entry)
}

// EditLetter changes the body of one dead letter to what change makes of it, and
// leaves it dead. It reports whether it is another one now.
func EditLetter(ctx context.Context, os *Operations, id, who, how, reason string,
	change func([]byte) ([]byte, error)) (bool, error) {
	r, err := os.Look.Get(ctx, id)
	if err != nil {
		return false, err
	}
	if r.State != store.IsDead {
		return false, &store.Error{Op: "edit " + id, Code: store.ErrConflict,
			Err:  fmt.Errorf("the message is %s", r.State),
			Hint: "only dead letters can be edited"}
	}
	body, err := change(r.Body)
	if _, unread := unreadable(&r.Message); err != nil || string(body) == string(r.Body) && !unread {
		return false, err
	}
	e := &editor{Operations: os, op: &Operation{ID: pawl.NewID(), Edit: how, Reason: reason}, who: who}
	a, entry, err := e.editOf(ctx, &r, body)
	if err != nil {
		return false, err
	}
	refused, err := e.write(ctx, []store.Edit{a}, []AuditEntry{entry})
	return err == nil && refused[id] == nil, errors.Join(err, refused[id])
}
