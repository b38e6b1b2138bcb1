package api

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// ticket is what a token stands for: the lease, and what is needed to settle it in any process.
type ticket struct {
	pawl.Token
	ID, Topic, Owner, Trace string
	Bounds                  string // what the message says of its retries: for how long, or that/attempts
	Attempt, Throttles      int
	ThrottledFor            time.Duration
	Tail                    bool
	Leased                  time.Time // by the clock of the process that leased it
}

func ticketOf(d *pawl.Delivery, owner string, now time.Time) *ticket {
	bounds := d.Headers[pawl.HeaderRetryFor]
	if attempts := d.Headers[pawl.HeaderAttempts]; attempts != "" {
		bounds += "/" + attempts
	}
	return &ticket{Token: d.Token, ID: d.ID, Topic: d.Topic, Owner: owner, Trace: d.Headers[dispatch.TraceParent],
		Bounds: bounds, Attempt: d.Attempt, Throttles: d.Throttles, ThrottledFor: d.ThrottledFor, Tail: d.Tail,
		Leased: now}
}

// delivery is what a judge has to know of the ticket's delivery.
func (t *ticket) delivery() *pawl.Delivery {
	d := &pawl.Delivery{Message: pawl.Message{ID: t.ID, Topic: t.Topic}, Token: t.Token, Attempt: t.Attempt,
		Throttles: t.Throttles, ThrottledFor: t.ThrottledFor, Tail: t.Tail}
	within, attempts, _ := strings.Cut(t.Bounds, "/")
	for _, h := range [...][2]string{{dispatch.TraceParent, t.Trace}, {pawl.HeaderRetryFor, within},
		{pawl.HeaderAttempts, attempts}} {
		if h[1] != "" {
			setHeader(&d.Message, h[0], h[1])
		}
	}
	return d
}

// sealer makes tokens of tickets, which nobody can alter: the key is in the state of the store,
// for all processes. Where there is no state it is this process's.
type sealer struct {
	store store.Store
	mu    sync.Mutex
	key   []byte
}

// sealKey is where the key is kept.
const (
	sealKey  = "api/key"
	sealSize = 16
	maxToken = 128 << 10 // bytes; what is in one, headers included, is shorter
)

func (s *sealer) get(ctx context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.key != nil {
		return s.key, nil
	}
	fresh := make([]byte, 32)
	_, _ = rand.Read(fresh) // it never fails
	entries, ok := store.As[store.Shared](s.store)
	if !ok {
		s.key = fresh
		return s.key, nil
	}
	e, err := entries.GetState(ctx, sealKey)
	if errors.Is(err, store.ErrNotFound) {
		if e, err = entries.PutState(ctx, sealKey, fresh, 0, "api"); errors.Is(err, store.ErrConflict) {
			e, err = entries.GetState(ctx, sealKey)
		}
	}
	if err != nil {
		return nil, err
	}
	s.key = e.Value
	return s.key, nil
}

// seal writes a ticket as a token. The hash is that of the key.
func seal(h hash.Hash, t *ticket) string {
	b := make([]byte, 0, 256)
	b = append(b, 1)
	b = binary.AppendUvarint(b, uint64(t.Fence))
	b = binary.AppendVarint(b, t.Lane)
	b = binary.AppendVarint(b, t.Seq)
	b = binary.AppendUvarint(b, uint64(t.Attempt))
	b = binary.AppendUvarint(b, uint64(t.Throttles))
	b = binary.AppendVarint(b, t.ThrottledFor.Milliseconds())
	b = binary.AppendVarint(b, t.Leased.UnixMilli())
	tail := byte(0)
	if t.Tail {
		tail = 1
	}
	b = append(b, tail)
	for _, s := range []string{t.ID, t.Topic, t.Owner, t.Trace, t.Bounds} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return base64.RawURLEncoding.EncodeToString(appendMAC(b, h, b))
}

// keyed is the hash of a key. To make it costs more than to hash a token with it.
func keyed(key []byte) hash.Hash { return hmac.New(sha256.New, key) }

func appendMAC(dst []byte, h hash.Hash, b []byte) []byte {
	h.Reset()
	_, _ = h.Write(b)
	return h.Sum(dst)[:len(dst)+sealSize]
}

// unseal reads a token; false if it is none of ours.
func unseal(h hash.Hash, token string) (t ticket, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) <= sealSize {
		return t, false
	}
	var sum [sha256.Size]byte
	if !hmac.Equal(b[len(b)-sealSize:], appendMAC(sum[:0], h, b[:len(b)-sealSize])) {
		return t, false
	}
	r := reader{b: b[1 : len(b)-sealSize]}
	t.Fence, t.Lane, t.Seq = int64(r.uvarint()), r.varint(), r.varint()
	t.Attempt, t.Throttles = int(r.uvarint()), int(r.uvarint())
	t.ThrottledFor = time.Duration(r.varint()) * time.Millisecond
	t.Leased = time.UnixMilli(r.varint())
	t.Tail = r.bytes(1) == "\x01"
	for _, s := range []*string{&t.ID, &t.Topic, &t.Owner, &t.Trace, &t.Bounds} {
		*s = r.bytes(r.uvarint())
	}
	return t, b[0] == 1 && !r.short
}

// reader reads what seal wrote.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	r.pass(n)
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	r.pass(n)
	return v
}

func (r *reader) bytes(n uint64) string {
	if n > uint64(len(r.b)) {
		r.short = true
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

func (r *reader) pass(n int) {
	if n <= 0 {
		r.short = true
		return
	}
	r.b = r.b[n:]
}
