package storetest

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var idSentences = []Sentence{
	{Text: "A message without an id gets a new one, which its receipt and its delivery carry.",
		Name: "IDIsAssigned", Test: func(t *T) {
			ids := t.put(t.msg("a"), t.msg("b"))
			t.check(ids[0] != ids[1], "two messages got the id %q", ids[0])
			for i, d := range t.claims("a", "b") {
				t.check(d.ID == ids[i], "receipt %q, delivery %q", ids[i], d.ID)
			}
		}},
	{Text: "An id is text of the caller's choice and comes back byte for byte, UUID or not.",
		Name: "IDIsKept", Test: func(t *T) {
			msgs := each(oddIDs(), func(id string) pawl.Message { return t.withID(id, id) })
			for i, id := range t.put(msgs...) {
				t.check(id == msgs[i].ID, "the receipt of %q says %q", msgs[i].ID, id)
			}
			for _, d := range t.claims(oddIDs()...) {
				t.check(d.ID == string(d.Body), "id %q came back as %q", d.Body, d.ID)
				t.ack(d)
			}
		}},
	{Text: "A second message of an id is a duplicate while the first waits, is delayed or is leased, in whatever topic.",
		Name: "IDOfTheLivingIsTaken", Needs: needs(store.CanUnique), Test: func(t *T) {
			for _, id := range []string{"mine", pawl.NewID()} {
				m := t.withID(id, "first")
				t.put(m)
				again := t.withID(id, "again")
				again.Topic += "2"
				t.duplicate(id, again)
				d := t.claimOne()
				t.duplicate(id, again)
				t.retry(d, time.Minute)
				t.duplicate(id, again)
				t.ack(t.later(2*time.Minute, "first")...)
			}
		}},
	{Text: "An id counts within one batch, too.",
		Name: "IDWithinABatch", Needs: needs(store.CanUnique), Test: func(t *T) {
			rs := t.append(t.withID("x", "a"), t.withID("y", "b"), t.withID("x", "c"))
			t.check(rs[0].DuplicateOf == "" && rs[1].DuplicateOf == "" && rs[2].DuplicateOf == "x",
				"receipts %+v; want the third a duplicate of x", rs)
			t.claims("a", "b")
		}},
	{Text: "A dead letter's id is taken until it is purged.",
		Name: "IDOfTheDeadIsTaken", Needs: needs(store.CanUnique, store.CanDeadLetters), Test: func(t *T) {
			m := t.withID("mine", "a")
			t.put(m)
			t.kill(t.claimOne(), "dead")
			t.duplicate("mine", m)
			t.nothing()
			t.noneRefused(t.dead().Purge(t.ctx(), "mine"))
			t.put(m)
			t.claims("a")
		}},
	{Text: "After the ack an id may be used again, and names the new message.",
		Name: "IDIsFreeAfterTheAck", Needs: needs(store.CanUnique), Test: func(t *T) {
			t.put(t.withID("mine", "a"))
			t.ack(t.claimOne())
			t.put(t.withID("mine", "b"))
			d := t.claims("b")[0]
			t.check(d.ID == "mine" && d.Attempt == 1, "delivery %q, attempt %d", d.ID, d.Attempt)
		}},
	{Text: "After a cancel an id may be used again.",
		Name: "IDIsFreeAfterCancel", Needs: needs(store.CanUnique, store.CanLookup), Test: func(t *T) {
			t.put(t.withID("mine", "a"))
			t.cancel("mine")
			t.put(t.withID("mine", "b"))
			t.claims("b")
		}},
	{Text: "A message is delivered as it was appended: id, topic, key, priority, body and headers.",
		Name: "MessageComesBackWhole", Test: func(t *T) {
			all := make([]byte, 256)
			for i := range all {
				all[i] = byte(i)
			}
			for _, m := range []pawl.Message{
				{},
				{Body: all, Key: all, Priority: 100, Headers: map[string]string{"traceparent": "00-1",
					"\u00e9\u2028 \x01": "nul \x00 in a value", "empty": "", "A": "a", "a": "A"}},
				{Body: []byte{}, Key: []byte{0}, Headers: map[string]string{}},
				{Body: []byte(`{"json": "\u0000"}`), Headers: map[string]string{"\x00": "nul is a name, too", "\"\\": "\"\\"}},
			} {
				m.Topic = t.Topic
				want := m
				want.ID = t.put(m)[0]
				d := t.claimOne()
				t.wantMessage(d.Message, want)
				t.ack(d)
			}
		}},
	{Text: "A message is immutable: what a caller does to its batch afterwards, or a handler to its delivery, changes nothing.",
		Name: "MessagesAreImmutable", Test: func(t *T) {
			whole := func() pawl.Message {
				m := t.keyed("key", "body")
				m.Headers = map[string]string{"a": "b"}
				return m
			}
			m, want := whole(), whole()
			want.ID = t.put(m)[0]
			spoil := func(m *pawl.Message) { m.Key[0], m.Body[0], m.Headers["a"], m.Headers["c"] = 'X', 'X', "X", "X" }
			spoil(&m)
			for range 2 {
				d := t.claimOne()
				t.wantMessage(d.Message, want)
				spoil(&d.Message)
				t.retry(d, 0)
			}
		}},
	// Calls are given up at different moments: whatever becomes of their messages, none may
	// have what was written into the buffer afterwards.
	{Text: "What a call was given is the caller's again when it has returned, also if it was given up: what appears later is as it was.",
		Name: "CallerKeepsItsBytes", Test: func(t *T) {
			t.put(t.keyed("lane", "first"))
			for i := range 20 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*100*time.Microsecond)
				m := t.keyed("lane", "given up")
				_, _ = t.Store.Append(ctx, store.NewBatch(m))
				cancel()
				m.Key[0], m.Body[0] = 'X', 'X'
			}
			t.put(t.keyed("lane", "last"))
			for _, d := range t.claim(100) {
				body := string(d.Body)
				t.check(string(d.Key) == "lane" && (body == "first" || body == "given up" || body == "last"),
					"delivery %q of %q", d.Body, d.Key)
			}
		}},
	// Random messages of everything that is allowed.
	{Text: "Whatever the limits allow is taken and comes back: any bytes in body, key and unique key, any text in id and headers.",
		Name: "AnyValidMessageIsTaken", Test: func(t *T) {
			seed := seeds(t, 1)[0]
			t.Logf("%s=%d", seedVariable, seed)
			r := rand.New(rand.NewPCG(seed, 4))
			want := map[string]pawl.Message{}
			for len(want) < 100 {
				m := pawl.Message{
					Topic: t.Topic, ID: randomText(r, 40, true), Key: randomBytes(r, 1+r.IntN(60)),
					Body:     randomBytes(r, r.IntN(300)),
					Priority: r.IntN(pawl.MaxPriority + 1), Headers: map[string]string{},
				}
				for range r.IntN(5) {
					m.Headers["h"+randomText(r, 20, false)] = randomText(r, 60, false)
				}
				if t.has(store.CanUnique) && r.IntN(2) == 0 {
					m.Unique = pawl.Unique{Key: "u" + string(randomBytes(r, r.IntN(60))),
						Scope: string(randomBytes(r, 12))}
				}
				if _, taken := want[m.ID]; m.ID == "" || taken || m.Validate() != nil {
					continue
				}
				want[m.ID] = m
				t.put(m)
			}
			for _, d := range t.claim(1000) {
				t.wantMessage(d.Message, want[d.ID])
				delete(want, d.ID)
			}
			t.check(len(want) == 0, "%d messages were not claimed", len(want))
		}},
}

// wantMessage compares what travels with a delivery.
func (t *T) wantMessage(got, want pawl.Message) {
	t.check(got.ID == want.ID && got.Topic == want.Topic && string(got.Key) == string(want.Key) &&
		got.Priority == want.Priority && string(got.Body) == string(want.Body) && (got.Key == nil) == (want.Key == nil),
		"message %.200q %q %q %q priority %d\nwant    %.200q %q %q %q priority %d", got.Body, got.ID, got.Topic,
		got.Key, got.Priority, want.Body, want.ID, want.Topic, want.Key, want.Priority)
	t.check(len(got.Headers) == len(want.Headers), "%d headers; want %d", len(got.Headers), len(want.Headers))
	for k, v := range want.Headers {
		g, ok := got.Headers[k]
		t.check(ok && g == v, "header %q is %.100q; want %.100q", k, g, v)
	}
}

// oddIDs look alike, or like UUIDs in a form that a uuid type would change.
func oddIDs() []string {
	return []string{
		"a", "A", "a ", " a", "1", "01", "id", "\u00e4", "a\u0308", "\u00c4", "null", "'", "%", "\\", "\u2028",
		"\U0001f600",
		"0198c2de-0000-7000-8000-0123456789ab", "0198C2DE-0000-7000-8000-0123456789AB",
		"0198c2de0000700080000123456789ab",
		"{0198c2de-0000-7000-8000-0123456789ab}", "urn:uuid:0198c2de-0000-7000-8000-0123456789ab",
		"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", strings.Repeat("x", 16),
		strings.Repeat("x", pawl.MaxID),
	}
}

func (t *T) withID(id, body string) pawl.Message {
	m := t.msg(body)
	m.ID = id
	return m
}

// awkward are bytes that some layer gives a meaning to.
const awkward = "\x00'\"\\%_,{}"

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.IntN(256))
		if r.IntN(4) == 0 {
			b[i] = awkward[r.IntN(len(awkward))]
		}
	}
	return b
}

// randomText is up to n runes of all planes; printable ones only, if asked.
func randomText(r *rand.Rand, n int, printable bool) string {
	var b strings.Builder
	for range r.IntN(n + 1) {
		c := []rune{rune(r.IntN(0x80)), rune(r.IntN(0x800)), rune(r.IntN(0x10000)),
			rune(r.IntN(unicode.MaxRune + 1))}[r.IntN(4)]
		if utf8.ValidRune(c) && (!printable || !unicode.IsControl(c)) {
			b.WriteRune(c)
		}
	}
	return b.String()
}
