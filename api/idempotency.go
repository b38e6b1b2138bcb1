package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// append stores messages, under the Idempotency-Key of the request if it has one.
func (x *exchange) append(msgs []pawl.Message, body []byte) ([]store.Receipt, error) {
	key, err := x.idempotency("append")
	if err != nil {
		return nil, err
	}
	if key == "" {
		return x.api.append.do(x.r.Context(), msgs)
	}
	ctx, cancel := x.call()
	defer cancel()
	return x.appendOnce(ctx, key, msgs, x.fingerprint(body))
}

// fingerprint tells requests with one Idempotency-Key apart.
func (x *exchange) fingerprint(body []byte) [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n", x.r.URL.Path, x.r.Header.Get("Content-Type"))
	for _, name := range slices.Sorted(maps.Keys(x.r.Header)) {
		if strings.HasPrefix(name, "Pawl-") && name != "Pawl-Reason" {
			fmt.Fprintf(h, "%s %q\n", name, x.r.Header[name])
		}
	}
	_, _ = h.Write(body)
	return [sha256.Size]byte(h.Sum(nil))
}

// idempotency is the Idempotency-Key, as the id of a batch of a kind; empty if there is none.
func (x *exchange) idempotency(kind string) (string, error) {
	values := x.r.Header.Values("Idempotency-Key")
	switch {
	case len(values) == 0:
		return "", nil
	case len(values) > 1 || values[0] == "" || len(values[0]) > 255:
		return "", fault("Idempotency-Key", "is one text of 1 to 255 bytes")
	}
	sum := sha256.Sum256([]byte(kind + "\x00" + x.caller.name + "\x00" + values[0]))
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// tries bounds how often a key is tried again after its topics were full.
const tries = 16

// appendOnce appends under a key. The store remembers the first outcome of a batch: a message without an id gets one
// that tells in its last part which request it is of, so that a repetition with another body is
// noticed. A batch that was refused because its topics were full is tried under the next id: what is
// remembered of it is that nothing was stored.
func (x *exchange) appendOnce(ctx context.Context, key string, msgs []pawl.Message,
	sum [sha256.Size]byte) ([]store.Receipt, error) {
	derived := -1
	for i := range msgs {
		if msgs[i].ID == "" {
			msgs[i].ID = idOf(sum, i)
			derived = i
		}
	}
	if derived < 0 {
		if err := x.claimKey(ctx, "append", key, sum[:]); err != nil {
			return nil, err
		}
	}
	for n := 0; ; n++ {
		got, err := x.api.store.Append(ctx, store.Batch[pawl.Message]{ID: key + strconv.Itoa(n), Items: msgs})
		if err != nil {
			return nil, err
		}
		if len(got) != len(msgs) || derived >= 0 && !sameRequest(got[derived].ID, msgs[derived].ID) {
			return nil, otherRequest()
		}
		if full := allFull(got); full == nil || n == tries || x.stillFull(ctx, msgs) {
			return got, nil
		}
	}
}

func otherRequest() error {
	return fault("Idempotency-Key", "was used for another request")
}

// idOf is an id whose last part derives from a request.
func idOf(sum [sha256.Size]byte, index int) string {
	own := sha256.Sum256(fmt.Appendf(nil, "%x/%d", sum, index))
	return pawl.NewID()[:24] + hex.EncodeToString(own[:6])
}

func sameRequest(stored, now string) bool {
	return len(stored) > 12 && stored[len(stored)-12:] == now[len(now)-12:]
}

func (x *exchange) stillFull(ctx context.Context, msgs []pawl.Message) bool {
	b, ok := store.As[store.Topics](x.api.store)
	if !ok {
		return false
	}
	topics := map[string]bool{}
	var names []string
	for i := range msgs {
		if t := msgs[i].Topic; !topics[t] {
			topics[t], names = true, append(names, t)
		}
	}
	full, err := b.Full(ctx, names...)
	return err != nil || len(full) == len(names)
}

// keyScope begins the scope of the marks that remember requests; keyFor is for how long.
const (
	keyScope = "api/"
	keyFor   = 2 * time.Hour
)

// claimKey remembers what a key stands for. It is refused if that is another request.
func (x *exchange) claimKey(ctx context.Context, kind, key string, value []byte) error {
	got, err := x.remember(ctx, kind, key, value)
	if err == nil && !bytes.Equal(got, value) {
		return otherRequest()
	}
	return err
}

// remember stores the value of a key, or returns what was stored before. A store without marks
// remembers nothing.
func (x *exchange) remember(ctx context.Context, kind, key string, value []byte) ([]byte, error) {
	marks, ok := store.As[store.Shared](x.api.store, store.CanMarks)
	if !ok || len(value) > pawl.MaxMark {
		return value, nil
	}
	put, err := marks.PutMarks(ctx, pawl.Mark{Scope: keyScope + kind, Key: key, Value: value, For: keyFor})
	if err != nil || put[0].Put {
		return value, err
	}
	found, err := marks.GetMarks(ctx, keyScope+kind, key)
	if m, there := found[key]; there {
		return m.Value, err
	}
	return value, err
}
