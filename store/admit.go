package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
)

// The checks in this file are what "refused before any I/O" means. Every backend calls
// them first, so that all refuse the same things with the same errors. That a topic is
// full is not among them: it has to be looked up.

// Admit checks an Append. The receipts carry the id of every message, fresh
// where the caller gave none, and the error of every message to be refused; the
// caller's batch is not touched.
func Admit(batch Batch[pawl.Message]) ([]Receipt, error) {
	if len(batch.Items) > MaxBatch {
		return nil, tooLarge("append", "%d messages; the limit is %d", len(batch.Items), MaxBatch)
	}
	receipts := make([]Receipt, len(batch.Items))
	size := 0
	for i := range batch.Items {
		m := &batch.Items[i]
		receipts[i] = Receipt{ID: m.ID, Err: m.Validate()}
		if receipts[i].ID == "" {
			receipts[i].ID = pawl.NewID()
		}
		if receipts[i].Err == nil {
			size += m.Size()
		}
	}
	if size > MaxBatchBytes {
		return nil, tooLarge("append", "%d bytes; the limit is %d", size, MaxBatchBytes)
	}
	return receipts, nil
}

// AdmitClaim checks a Claim.
func AdmitClaim(wants []Want, lease Lease) error {
	total := 0
	for _, w := range wants {
		if w.Limit < 0 || w.MaxBytes < 0 || w.Run < 0 {
			return badCall("claim", "negative limit for topic %q", w.Topic)
		}
		total += w.Limit
	}
	switch {
	case total > MaxBatch:
		return tooLarge("claim", "%d messages wanted; the limit is %d", total, MaxBatch)
	case lease.For <= 0 || lease.For > MaxLease:
		return badCall("claim", "lease of %v; it is over 0 and at most %v", lease.For, MaxLease)
	case lease.Suspects < 0:
		return badCall("claim", "suspects of weight %d", lease.Suspects)
	case len(lease.Owner) > 256 || !utf8.ValidString(lease.Owner) || strings.ContainsRune(lease.Owner, 0):
		return badCall("claim", "owner is longer than 256 bytes or not text")
	}
	return nil
}

// AdmitSettle checks a Settle and returns the items to be refused.
func AdmitSettle(batch Batch[Settlement]) ([]Refusal, error) {
	if len(batch.Items) > MaxBatch {
		return nil, tooLarge("settle", "%d items; the limit is %d", len(batch.Items), MaxBatch)
	}
	var refused []Refusal
	emits, size := 0, 0
	for i := range batch.Items {
		s := &batch.Items[i]
		if err := s.Validate(); err != nil {
			refused = append(refused, Refusal{Index: i, Err: err})
			continue
		}
		n, bytes := s.Writes()
		emits, size = emits+n, size+bytes
	}
	if size > MaxBatchBytes || emits > MaxBatch {
		return nil, tooLarge("settle", "%d emitted messages and marks of %d bytes; the limits are %d and %d",
			emits, size, MaxBatch, MaxBatchBytes)
	}
	return refused, nil
}

// Writes is how many messages and marks the settlement writes, and how many bytes
// they have: both count towards the limits of a call.
func (s *Settlement) Writes() (n, size int) {
	for i := range s.Emit {
		size += s.Emit[i].Size()
	}
	for i := range s.Marks {
		size += s.Marks[i].Size()
	}
	return len(s.Emit) + len(s.Marks), size
}

// Validate reports the first thing in s that no store takes, as an
// [*pawl.InvalidError].
func (s *Settlement) Validate() error {
	switch {
	case s.Verdict < Ack || s.Verdict > Release:
		return pawl.Invalid("verdict", "is missing")
	case s.After < 0 || s.After > pawl.MaxDelay || s.Hold < 0 || s.Hold > pawl.MaxDelay:
		return pawl.Invalid("delay", "after %v, hold %v; they go from 0 to %v", s.After, s.Hold, pawl.MaxDelay)
	case s.Throttled && s.Verdict != Retry:
		return pawl.Invalid("throttled", "goes with retry only")
	case len(s.Emit) > 0 && s.Verdict != Ack:
		return pawl.Invalid("emit", "goes with ack only")
	case len(s.Emit) > MaxEmit:
		return pawl.Invalid("emit", "has %d messages; the limit is %d", len(s.Emit), MaxEmit)
	case len(s.Marks) > 0 && s.Verdict != Ack:
		return pawl.Invalid("marks", "go with ack only")
	case len(s.Marks) > MaxEmit:
		return pawl.Invalid("marks", "are %d; the limit is %d", len(s.Marks), MaxEmit)
	}
	for i := range s.Marks {
		m := &s.Marks[i]
		if err := m.Validate(); err != nil {
			return pawl.Invalid("marks", "[%d]: %v", i, err)
		}
		if slices.ContainsFunc(s.Marks[:i], func(o pawl.Mark) bool { return o.Scope == m.Scope && o.Key == m.Key }) {
			return pawl.Invalid("marks", "[%d]: %.80q is twice in one settlement", i, m.Key)
		}
	}
	for i := range s.Emit {
		if s.Emit[i].Delay < 0 {
			return pawl.Invalid("emit", "[%d]: delay is %v; it goes from 0 to %v", i, s.Emit[i].Delay, pawl.MaxDelay)
		}
	}
	return pawl.CheckEmit(s.Emit...)
}

// AdmitExtend checks an Extend.
func AdmitExtend(by time.Duration, tokens []pawl.Token) error {
	switch {
	case by <= 0 || by > MaxLease:
		return badCall("extend", "by %v; it is over 0 and at most %v", by, MaxLease)
	case len(tokens) > MaxBatch:
		return tooLarge("extend", "%d tokens; the limit is %d", len(tokens), MaxBatch)
	}
	return nil
}

// AdmitState checks the key of an entry.
func AdmitState(key string) error {
	switch {
	case key == "":
		return pawl.Invalid("state key", "is empty")
	case len(key) > MaxStateKey:
		return pawl.Invalid("state key", "has %d bytes; the limit is %d", len(key), MaxStateKey)
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
	if len(value) > MaxStateValue {
		return pawl.Invalid("state value", "of %q has %d bytes; the limit is %d", key, len(value), MaxStateValue)
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
	if version < AnyVersion {
		return pawl.Invalid("state version", "is %d; it is -1, 0 or that of an entry", version)
	}
	return nil
}

// PutConflict is the error of a PutState or DeleteState that expects a version other
// than the current one; nil if they agree. A missing entry has version 0.
func PutConflict(op, key string, have, want int64) error {
	if want == AnyVersion || want == have {
		return nil
	}
	return &Error{
		Op: op + " " + key, Code: ErrConflict, Err: fmt.Errorf("it is at version %d, not %d", have, want),
		Hint: "read it again",
	}
}

// AdmitMarks checks a PutMarks. The receipts carry the error of every mark to be
// refused, and the version of every other as it will be.
func AdmitMarks(marks []pawl.Mark) ([]MarkReceipt, error) {
	if len(marks) > MaxBatch {
		return nil, tooLarge("put marks", "%d marks; the limit is %d", len(marks), MaxBatch)
	}
	receipts, seen, size := make([]MarkReceipt, len(marks)), make(map[[2]string]bool, len(marks)), 0
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
	if size > MaxBatchBytes {
		return nil, tooLarge("put marks", "%d bytes; the limit is %d", size, MaxBatchBytes)
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
	if len(keys) > MaxBatch {
		return tooLarge(op, "%d keys; the limit is %d", len(keys), MaxBatch)
	}
	return nil
}

// MarksTooLarge is the error of a GetMarks whose values exceed the limit of bytes.
func MarksTooLarge() error {
	return tooLarge("get marks", "the values have more than %d bytes together", MaxBatchBytes)
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
	case limit < 1 || limit > MaxBatch:
		return tooLarge("scan results", "%d results; the limit goes from 1 to %d", limit, MaxBatch)
	}
	return nil
}

// AdmitResults refuses topics whose results have no order.
func AdmitResults(op string, t *Topic) error {
	if t.Order == OrderNone {
		return nil
	}
	return &Error{
		Op: op, Code: ErrInvalid, Err: fmt.Errorf("topic %s has order %q", t.Name, t.Order),
		Hint: fmt.Sprintf("declare it with order %q before anything is appended to it", OrderNone),
	}
}

// Text returns s as text that every store can keep: valid UTF-8 without NUL, at most
// [MaxReason] bytes.
func Text(s string) string {
	s = cut(s) // first, so that cleaning a huge text costs little
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		s = cut(strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD"))
	}
	return s
}

// cut shortens s to MaxReason bytes.
func cut(s string) string { return cutTo(s, MaxReason) }

// cutTo shortens s to so many bytes without cutting a rune in half.
func cutTo(s string, most int) string {
	if len(s) <= most {
		return s
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}

// FitAttrs makes the facts of a failure fit for every store: text, within the
// limits of package pawl.
func FitAttrs(attrs map[string]string) map[string]string {
	var fit map[string]string
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		if name == "" || len(name) > pawl.MaxAttrName || Text(name) != name {
			continue
		}
		if len(fit) == pawl.MaxAttrs {
			break
		}
		if fit == nil {
			fit = map[string]string{}
		}
		fit[name] = cutTo(Text(attrs[name]), pawl.MaxAttrValue)
	}
	return fit
}

func tooLarge(op, why string, args ...any) error {
	return &Error{Op: op, Code: ErrTooLarge, Err: fmt.Errorf(why, args...), Hint: "split the call"}
}

func badCall(op, why string, args ...any) error {
	return &Error{Op: op, Code: ErrInvalid, Err: fmt.Errorf(why, args...)}
}
