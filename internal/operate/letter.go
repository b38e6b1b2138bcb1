package operate

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lines"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
	"github.com/pawl-dev/pawl/store/codec"
)

// Letter is a complete dead letter as JSON: what `pawl dead show` prints, with
// the attempts as they are stored, and what it takes besides to import it elsewhere
// as it was.
type Letter struct {
	DeadLetter
	Lonely          int     `json:"lonely,omitempty"`
	DelaySeconds    float64 `json:"delay_seconds,omitempty"`
	UniqueKeyBase64 string  `json:"unique_key_base64,omitempty"`
	UniqueScope     string  `json:"unique_scope,omitempty"` // base64 with unique_key_base64
	UniqueSeconds   float64 `json:"unique_for_seconds,omitempty"`
}

// FormLetter gives r, a dead letter, its complete form.
func FormLetter(r *store.Record) Letter {
	l := Letter{DeadLetter: FormDeadLetter(r), Lonely: r.Lonely, DelaySeconds: r.Delay.Seconds(),
		UniqueScope: r.Unique.Scope, UniqueSeconds: r.Unique.For.Seconds()}
	l.Attempts = formAttempts(r.History)
	if !utf8.ValidString(r.Unique.Key) || !utf8.ValidString(r.Unique.Scope) {
		l.UniqueKey = nil
		l.UniqueKeyBase64 = base64.StdEncoding.EncodeToString([]byte(r.Unique.Key))
		l.UniqueScope = base64.StdEncoding.EncodeToString([]byte(r.Unique.Scope))
	}
	return l
}

// EncodedHeader is on messages whose body is not as it was sent.
const EncodedHeader = codec.Header

// Sealed says why the body of m, as a store gives it, is not what was sent; nil if it
// is.
func Sealed(m *pawl.Message) error {
	if _, encoded := m.Headers[EncodedHeader]; !encoded {
		return nil
	}
	if why, sealed := m.Headers[codec.SealedHeader]; sealed {
		return errors.New(why)
	}
	return errors.New("its body is encoded, and the URL of the store has neither codec= nor blobs=")
}

// ParseLetter reads a line of an export.
func ParseLetter(line []byte) (r store.Record, err error) {
	if !utf8.Valid(line) {
		return r, errors.New("it is not valid JSON: it is not UTF-8")
	}
	var l Letter
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		if kind, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // it names our types
			about, article := "the line", "a"
			if kind.Field != "" {
				about = fmt.Sprintf("field %q", kind.Field[strings.LastIndexByte(kind.Field, '.')+1:])
			}
			if strings.ContainsRune("aeiou", rune(kind.Value[0])) {
				article = "an"
			}
			err = fmt.Errorf("%s cannot be %s %s", about, article, kind.Value)
		}
		return r, fmt.Errorf("it is not a dead letter as JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return r, errors.New("something follows the JSON")
	}
	if r, err = l.record(); err != nil {
		return r, err
	}
	_, refused, err := backend.AdmitImport([]store.Record{r})
	return r, errors.Join(err, refused[r.ID])
}

// record is the dead letter that l stands for.
func (l *Letter) record() (store.Record, error) {
	r := store.Record{
		Message: pawl.Message{ID: l.ID, Topic: l.Topic, Priority: l.Priority, Headers: l.Headers,
			Delay: seconds(l.DelaySeconds)},
		State: l.State, Rank: l.Rank, Attempts: l.Attempt, Rescues: l.Rescues, Lonely: l.Lonely,
		EnqueuedAt: l.EnqueuedAt, Replays: l.Replays,
		DeadAt: l.DeadAt, Kind: pawl.Kind(l.Kind), Reason: l.Reason, Fingerprint: l.Fingerprint,
	}
	var bad []error
	decode := func(field, text string) []byte {
		b, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			bad = append(bad, fmt.Errorf("%s: %w", field, err))
		}
		return b
	}
	switch {
	case l.Key != nil && l.KeyBase64 != "" || l.Body != nil && l.BodyBase64 != nil ||
		l.UniqueKey != nil && l.UniqueKeyBase64 != "":
		bad = append(bad, errors.New("it has a field both as text and in base64"))
	case l.Lease != nil || l.NotBefore != nil:
		bad = append(bad, errors.New("it has a lease or a not_before: it is not a dead letter"))
	}
	if l.Key != nil {
		r.Key = []byte(*l.Key)
	} else if l.KeyBase64 != "" {
		r.Key = decode("key_base64", l.KeyBase64)
	}
	switch {
	case l.Body != nil:
		r.Body = []byte(*l.Body)
	case l.BodyBase64 != nil:
		r.Body = decode("body_base64", *l.BodyBase64)
	default:
		bad = append(bad, errors.New("it has neither body nor body_base64"))
	}
	if by := l.Resolved; by != nil {
		r.Resolved = &store.Resolution{At: by.At, By: by.By, Note: by.Note}
	}
	if l.UniqueKey != nil {
		r.Unique = pawl.Unique{Key: *l.UniqueKey, Scope: l.UniqueScope, For: seconds(l.UniqueSeconds)}
	} else if l.UniqueKeyBase64 != "" {
		r.Unique = pawl.Unique{Key: string(decode("unique_key_base64", l.UniqueKeyBase64)),
			Scope: string(decode("unique_scope", l.UniqueScope)), For: seconds(l.UniqueSeconds)}
	}
	for i := range l.Attempts {
		a := &l.Attempts[i]
		past := store.Attempt{Attempt: a.Attempt, StartedAt: a.StartedAt, EndedAt: a.EndedAt, Worker: a.Worker,
			Kind:  a.Kind,
			Error: a.Error, Rule: a.Rule, Action: a.Action, Inputs: a.Inputs, Attrs: a.Attrs, Throttled: a.Throttled}
		if a.NextAt != nil {
			past.NextAt = *a.NextAt
		}
		r.History = append(r.History, past)
	}
	return r, errors.Join(bad...)
}

// seconds is the duration of so many; what is too long is for ever.
func seconds(s float64) time.Duration {
	ns := math.Round(s * 1e9)
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

// Bounds of a batch of letters.
const (
	importItems = 500
	importBytes = 8 << 20
)

// Imported counts the results of an import.
type Imported struct {
	Imported int64 `json:"imported"`
	Refused  int64 `json:"refused"`
}

// Importer imports dead letters that come as lines of JSON.
type Importer struct {
	Letters store.DeadLetters // nil: the lines are checked only
	// Into is the store of Letters. If a codec is around it, a line that an export
	// without one wrote is stored in the encoded form that it has: as the body that it
	// was sent with, that form would be delivered.
	Into store.Store
	// Bad is called for every line that is not a letter; the import continues without
	// it.
	Bad func(*lines.Error)
	// Refused is called for every letter that was not stored.
	Refused func(id string, why error)
	// Progress, if not nil, is called with the number of letters processed.
	Progress func(n int64)
}

// coder is a store that keeps bodies in a form other than the one they were sent in.
type coder interface {
	Show(ctx context.Context, r store.Record) (store.Record, error)
}

// Run imports the letters of r, and returns what became of them, in any case.
func (m *Importer) Run(ctx context.Context, r io.Reader) (done Imported, err error) {
	in := lines.NewReader(r)
	_, encodes := store.As[coder](m.Into)
	var batch []store.Record
	batched, size := map[string]bool{}, 0 // the ids of the batch
	for {
		line, err := in.Next()
		if errors.Is(err, io.EOF) {
			return done, m.write(ctx, batch, &done)
		}
		if err != nil && !errors.Is(err, lines.ErrTooLong) {
			return done, fmt.Errorf("read line %d: %w", in.N, err)
		}
		if err == nil && len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var letter store.Record
		if err == nil {
			letter, err = ParseLetter(line)
		}
		if err != nil {
			done.Refused++
			m.Bad(&lines.Error{Line: in.N, Err: err})
			continue
		}
		if encodes && codec.IsEncoded(&letter.Message) {
			letter.Headers[codec.SealedHeader] = "exported without the codec"
		}
		// Letters are refused by id, so a batch has an id once.
		if len(batch) == importItems || size+letter.Size() > importBytes || batched[letter.ID] {
			if err := m.write(ctx, batch, &done); err != nil {
				return done, err
			}
			batch, size = nil, 0
			clear(batched)
		}
		batch, size, batched[letter.ID] = append(batch, letter), size+letter.Size(), true
	}
}

func (m *Importer) write(ctx context.Context, batch []store.Record, done *Imported) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	refused := map[string]error{}
	if m.Letters != nil && len(batch) > 0 {
		var err error
		if refused, err = m.Letters.Import(context.WithoutCancel(ctx), batch...); err != nil {
			return err
		}
	}
	done.Imported += int64(len(batch) - len(refused))
	done.Refused += int64(len(refused))
	for id, why := range refused {
		m.Refused(id, why)
	}
	if m.Progress != nil {
		m.Progress(done.Imported + done.Refused)
	}
	return nil
}
