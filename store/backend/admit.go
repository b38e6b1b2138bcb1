// Package backend is for authors of stores: the checks that every store makes before any
// I/O, so that all refuse the same things with the same errors, and what stores and
// decorators share besides.
package backend

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// The checks in this file are what "refused before any I/O" means. Every backend calls
// them first, so that all refuse the same things with the same errors. That a topic is
// full is not among them: it has to be looked up.

// Admit checks an Append. The receipts carry the id of every message, fresh
// where the caller gave none, and the error of every message to be refused; the
// caller's batch is not touched.
func Admit(batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	if len(batch.Items) > store.MaxBatch {
		return nil, tooLarge("append", "%d messages; the limit is %d", len(batch.Items), store.MaxBatch)
	}
	receipts := make([]store.Receipt, len(batch.Items))
	size := 0
	for i := range batch.Items {
		m := &batch.Items[i]
		receipts[i] = store.Receipt{ID: m.ID, Err: m.Validate()}
		if receipts[i].ID == "" {
			receipts[i].ID = pawl.NewID()
		}
		if receipts[i].Err == nil {
			size += m.Size()
		}
	}
	if size > store.MaxBatchBytes {
		return nil, tooLarge("append", "%d bytes; the limit is %d", size, store.MaxBatchBytes)
	}
	return receipts, nil
}

// AdmitClaim checks a Claim.
func AdmitClaim(wants []store.Want, lease store.Lease) error {
	total := 0
	for _, w := range wants {
		if w.Limit < 0 || w.MaxBytes < 0 || w.Run < 0 {
			return badCall("claim", "negative limit for topic %q", w.Topic)
		}
		total = min(total+min(w.Limit, store.MaxBatch+1), store.MaxBatch+1) // the sum of all could be negative
	}
	switch {
	case total > store.MaxBatch:
		return tooLarge("claim", "more than %d messages wanted", store.MaxBatch)
	case lease.For <= 0 || lease.For > store.MaxLease:
		return badCall("claim", "lease of %v; it is over 0 and at most %v", lease.For, store.MaxLease)
	case lease.Suspects < 0:
		return badCall("claim", "suspects of weight %d", lease.Suspects)
	case len(lease.Owner) > 256 || !utf8.ValidString(lease.Owner) || strings.ContainsRune(lease.Owner, 0):
		return badCall("claim", "owner is longer than 256 bytes or not text")
	}
	return nil
}

// AdmitSettle checks a Settle and returns the items to be refused.
func AdmitSettle(batch store.Batch[store.Settlement]) ([]store.Refusal, error) {
	if len(batch.Items) > store.MaxBatch {
		return nil, tooLarge("settle", "%d items; the limit is %d", len(batch.Items), store.MaxBatch)
	}
	var refused []store.Refusal
	emits, size := 0, 0
	for i := range batch.Items {
		s := &batch.Items[i]
		if err := s.Validate(); err != nil {
			refused = append(refused, store.Refusal{Index: i, Err: err})
			continue
		}
		n, bytes := s.Writes()
		emits, size = emits+n, size+bytes
	}
	if size > store.MaxBatchBytes || emits > store.MaxBatch {
		return nil, tooLarge("settle", "%d emitted messages and marks of %d bytes; the limits are %d and %d",
			emits, size, store.MaxBatch, store.MaxBatchBytes)
	}
	return refused, nil
}

// AdmitExtend checks an Extend.
func AdmitExtend(by time.Duration, tokens []pawl.Token) error {
	switch {
	case by <= 0 || by > store.MaxLease:
		return badCall("extend", "by %v; it is over 0 and at most %v", by, store.MaxLease)
	case len(tokens) > store.MaxBatch:
		return tooLarge("extend", "%d tokens; the limit is %d", len(tokens), store.MaxBatch)
	}
	return nil
}

// AdmitState checks the key of an entry.
func AdmitState(key string) error {
	switch {
	case key == "":
		return pawl.Invalid("state key", "is empty")
	case len(key) > store.MaxStateKey:
		return pawl.Invalid("state key", "has %d bytes; the limit is %d", len(key), store.MaxStateKey)
	case !utf8.ValidString(key) || strings.ContainsRune(key, 0):
		return pawl.Invalid("state key", "%q is not text: UTF-8 without NUL", key)
	}
	return nil
}

// AdmitPut checks a PutState.
func AdmitPut(key string, value []byte, version int64) error {
	if err := AdmitState(key); err != nil {
		return err
	}
	if len(value) > store.MaxStateValue {
		return pawl.Invalid("state value", "of %q has %d bytes; the limit is %d", key, len(value), store.MaxStateValue)
	}
	return admitVersion(version)
}

// AdmitDelete checks a DeleteState.
func AdmitDelete(key string, version int64) error {
	if err := AdmitState(key); err != nil {
		return err
	}
	return admitVersion(version)
}

func admitVersion(version int64) error {
	if version < store.AnyVersion {
		return pawl.Invalid("state version", "is %d; it is -1, 0 or that of an entry", version)
	}
	return nil
}

// PutConflict is the error of a PutState or DeleteState that expects a version other
// than the current one; nil if they agree. A missing entry has version 0.
func PutConflict(op, key string, have, want int64) error {
	if want == store.AnyVersion || want == have {
		return nil
	}
	return &store.Error{
		Op: op + " " + key, Code: store.ErrConflict, Err: fmt.Errorf("it is at version %d, not %d", have, want),
		Hint: "read it again",
	}
}

// AdmitMarks checks a PutMarks. The receipts carry the error of every mark to be
// refused, and the version of every other as it will be.
func AdmitMarks(marks []pawl.Mark) ([]store.MarkReceipt, error) {
	if len(marks) > store.MaxBatch {
		return nil, tooLarge("put marks", "%d marks; the limit is %d", len(marks), store.MaxBatch)
	}
	receipts, seen, size := make([]store.MarkReceipt, len(marks)), make(map[[2]string]bool, len(marks)), 0
	for i := range marks {
		m, place := &marks[i], [2]string{marks[i].Scope, marks[i].Key}
		err := m.Validate()
		if err == nil && seen[place] {
			err = pawl.Invalid("mark key", "%.80q is twice in one call", m.Key)
		}
		if receipts[i].Err = err; err != nil {
			continue
		}
		seen[place] = true
		size += m.Size()
		receipts[i].Version = NewVersion(m)
	}
	if size > store.MaxBatchBytes {
		return nil, tooLarge("put marks", "%d bytes; the limit is %d", size, store.MaxBatchBytes)
	}
	return receipts, nil
}

// NewVersion is a version for a mark that is being written; 0 for one that is being
// removed.
func NewVersion(m *pawl.Mark) int64 {
	if m.Remove {
		return 0
	}
	return 1 + rand.Int64N(1<<62)
}

// AdmitScope checks the scope of a GetMarks, ListMarks or Forget, and the keys.
func AdmitScope(op, scope string, keys ...string) error {
	if scope == "" || len(scope) > pawl.MaxKey {
		return pawl.Invalid("mark scope", "is %d bytes long; it has 1 to %d", len(scope), pawl.MaxKey)
	}
	if len(keys) > store.MaxBatch {
		return tooLarge(op, "%d keys; the limit is %d", len(keys), store.MaxBatch)
	}
	return nil
}

// MarksTooLarge is the error of a GetMarks whose values exceed the limit of bytes.
func MarksTooLarge() error {
	return tooLarge("get marks", "the values have more than %d bytes together", store.MaxBatchBytes)
}

// PrefixEnd is the first string after all those that begin with prefix; empty if there
// is none.
func PrefixEnd(prefix string) string {
	end := prefix
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if end == "" {
		return ""
	}
	return end[:len(end)-1] + string([]byte{end[len(end)-1] + 1})
}

// AdmitScan checks a ScanResults.
func AdmitScan(topic string, after int64, limit int) error {
	if err := pawl.ValidTopic(topic); err != nil {
		return err
	}
	switch {
	case after < 0:
		return badCall("scan results", "cursor %d is below 0", after)
	case limit < 1 || limit > store.MaxBatch:
		return tooLarge("scan results", "%d results; the limit goes from 1 to %d", limit, store.MaxBatch)
	}
	return nil
}

// AdmitResults refuses topics whose results have no order.
func AdmitResults(op string, t *store.Topic) error {
	if t.Order == store.OrderNone {
		return nil
	}
	return &store.Error{
		Op: op, Code: store.ErrInvalid, Err: fmt.Errorf("topic %s has order %q", t.Name, t.Order),
		Hint: fmt.Sprintf("declare it with order %q before anything is appended to it", store.OrderNone),
	}
}

// FitAttrs makes the facts of a failure fit for every store: text, within the
// limits of package pawl.
func FitAttrs(attrs map[string]string) map[string]string {
	var fit map[string]string
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		if name == "" || len(name) > pawl.MaxAttrName || store.Text(name) != name {
			continue
		}
		if len(fit) == pawl.MaxAttrs {
			break
		}
		if fit == nil {
			fit = map[string]string{}
		}
		value := store.Text(attrs[name])
		fit[name] = strings.ToValidUTF8(value[:min(len(value), pawl.MaxAttrValue)], "") // a rune that was cut goes
	}
	return fit
}

func tooLarge(op, why string, args ...any) error {
	return &store.Error{Op: op, Code: store.ErrTooLarge, Err: fmt.Errorf(why, args...), Hint: "split the call"}
}

func badCall(op, why string, args ...any) error {
	return &store.Error{Op: op, Code: store.ErrInvalid, Err: fmt.Errorf(why, args...)}
}
