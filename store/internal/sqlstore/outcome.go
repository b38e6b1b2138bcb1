package sqlstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// The outcome of a batch is kept for its repetition: of an append one entry per
// message, of a settle one per refused item. Every entry is a row of fields,
// each with its length in front.

// receipt flags say which fields follow the id.
const (
	receiptStored = iota
	receiptDuplicate
	receiptRefused
)

var errOutcome = errors.New("stored outcome of a batch is cut off")

// EncodeReceipts is what to remember of an append.
func EncodeReceipts(receipts []store.Receipt) []byte {
	b := make([]byte, 0, 18*len(receipts))
	for i := range receipts {
		r := &receipts[i]
		switch {
		case r.Err != nil:
			b = appendError(appendField(append(b, receiptRefused), EncodeID(r.ID)), r.Err)
		case r.DuplicateOf != "":
			b = appendField(appendField(append(b, receiptDuplicate), EncodeID(r.ID)), EncodeID(r.DuplicateOf))
		default:
			b = appendField(append(b, receiptStored), EncodeID(r.ID))
		}
	}
	return b
}

// DecodeReceipts is the inverse of EncodeReceipts. An InvalidError or TopicFullError
// comes back as one, any other error as its text.
func DecodeReceipts(b []byte) ([]store.Receipt, error) {
	receipts := []store.Receipt{}
	f := fields{rest: b}
	for len(f.rest) > 0 && !f.short {
		flag := f.rest[0]
		f.rest = f.rest[1:]
		r := store.Receipt{ID: DecodeID(f.next())}
		switch flag {
		case receiptDuplicate:
			r.DuplicateOf = DecodeID(f.next())
		case receiptRefused:
			r.Err = f.nextError()
		}
		receipts = append(receipts, r)
	}
	return receipts, f.err()
}

// EncodeRefusals is what to remember of a settle: nothing when nothing was
// refused.
func EncodeRefusals(refusals []store.Refusal) []byte {
	var b []byte
	for _, r := range refusals {
		b = appendError(binary.AppendUvarint(b, uint64(r.Index)), r.Err)
	}
	return b
}

// DecodeRefusals is the inverse of EncodeRefusals.
func DecodeRefusals(b []byte) ([]store.Refusal, error) {
	var refusals []store.Refusal
	f := fields{rest: b}
	for len(f.rest) > 0 && !f.short {
		index := f.number()
		refusals = append(refusals, store.Refusal{Index: int(index), Err: f.nextError()})
	}
	return refusals, f.err()
}

// fieldFull stands for the field of an InvalidError where a topic was full: no field has
// this name.
const fieldFull = "\x00full"

// appendError writes an error as two fields: that of an InvalidError and why; a
// lost lease as two empty ones; of a topic that was full when to try again, and its name.
func appendError(b []byte, err error) []byte {
	if errors.Is(err, pawl.ErrLeaseLost) {
		return appendField(appendField(b, nil), nil)
	}
	if bad, ok := errors.AsType[*pawl.InvalidError](err); ok {
		return appendField(appendField(b, []byte(bad.Field)), []byte(bad.Why))
	}
	if full, ok := errors.AsType[*store.TopicFullError](err); ok {
		return appendField(appendField(b, []byte(fieldFull+full.RetryAfter.String())), []byte(full.Topic))
	}
	return appendField(appendField(b, nil), []byte(err.Error()))
}

func appendField(b, field []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(field))), field...)
}

// fields reads what appendField wrote.
type fields struct {
	rest  []byte
	short bool
}

func (f *fields) number() uint64 {
	n, size := binary.Uvarint(f.rest)
	if size <= 0 {
		f.short = true
		return 0
	}
	f.rest = f.rest[size:]
	return n
}

func (f *fields) next() []byte {
	n := f.number()
	if n > uint64(len(f.rest)) {
		f.short = true
		return nil
	}
	field := f.rest[:n]
	f.rest = f.rest[n:]
	return field
}

func (f *fields) nextError() error {
	field, why := f.next(), f.next()
	switch after, full := strings.CutPrefix(string(field), fieldFull); {
	case full:
		wait, _ := time.ParseDuration(after) // it was written by appendError
		return &store.TopicFullError{Topic: string(why), RetryAfter: wait}
	case len(field) == 0 && len(why) == 0:
		return pawl.ErrLeaseLost
	case len(field) == 0:
		return fmt.Errorf("%s", why)
	default:
		return &pawl.InvalidError{Field: string(field), Why: string(why)}
	}
}

func (f *fields) err() error {
	if f.short {
		return errOutcome
	}
	return nil
}
