package storetest

import (
	"bytes"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var limitSentences = []Sentence{
	{Text: "Every store takes a message within the limits: id, topic, key, headers, body, priority, unique key and scope.",
		Name: "LimitsOfAMessageAreTaken", Test: func(t *T) {
			many := map[string]string{}
			for _, k := range numbered("h", pawl.MaxHeaders-1) {
				many[k] = "v"
			}
			many["rest"] = ""
			size := 0
			for k, v := range many {
				size += len(k) + len(v)
			}
			many["rest"] = strings.Repeat("x", pawl.MaxHeaderLen-size)
			t.Topic = strings.Repeat("Z", pawl.MaxTopic-4) + ".-_9"
			m := pawl.Message{
				ID: strings.Repeat("é", pawl.MaxID/2), Topic: t.Topic, Key: bytes.Repeat([]byte{0xff}, pawl.MaxKey),
				Priority: pawl.MaxPriority, Headers: many,
			}
			if t.has(store.CanUnique) {
				m.Unique = pawl.Unique{Key: strings.Repeat("\xff", pawl.MaxKey),
					Scope: strings.Repeat("\x00", pawl.MaxKey),
					For:   pawl.Forever}
			}
			t.put(m)
			t.wantMessage(t.claimOne().Message, m)
			if m.Unique.Key != "" {
				m.ID = ""
				t.duplicate(strings.Repeat("é", pawl.MaxID/2), m)
			}
		}},
	{Text: "A body of MaxBody is taken and comes back; one byte more is refused.",
		Name: "LargestBody", Test: func(t *T) {
			body := make([]byte, pawl.MaxBody+1)
			for i := range body {
				body[i] = byte(i * i >> 3)
			}
			rs := t.append(pawl.Message{Topic: t.Topic, Body: body}, pawl.Message{Topic: t.Topic,
				Body: body[:pawl.MaxBody]})
			t.invalid(rs[0].Err)
			t.check(rs[1].Err == nil, "%v", rs[1].Err)
			ds := t.claim(10)
			t.check(len(ds) == 1 && bytes.Equal(ds[0].Body, body[:pawl.MaxBody]),
				"%d deliveries; want one, with the body that was appended", len(ds))
			t.ack(ds...)
		}},
	{Text: "An Append of MaxBatch messages is taken; of one more is ErrTooLarge, and nothing of it is stored.",
		Name: "BatchHasALimit", Test: func(t *T) {
			msgs := make([]pawl.Message, store.MaxBatch+1)
			for i := range msgs {
				msgs[i].Topic = t.Topic
			}
			t.wantErr(errOf(t.Store.Append(t.ctx(), store.NewBatch(msgs...))), store.ErrTooLarge)
			t.nothing()
			t.put(msgs[1:]...)
			t.claimsMany(store.MaxBatch, store.MaxBatch)
		}},
	{Text: "An Append of more than MaxBatchBytes is ErrTooLarge, and nothing of it is stored.",
		Name: "BatchHasALimitOfBytes", Test: func(t *T) {
			const n = store.MaxBatchBytes / pawl.MaxBody
			msgs := make([]pawl.Message, n+1)
			body := make([]byte, pawl.MaxBody)
			for i := range n {
				msgs[i] = pawl.Message{Topic: t.Topic, Body: body}
			}
			msgs[n] = t.msg("x")
			t.wantErr(errOf(t.Store.Append(t.ctx(), store.NewBatch(msgs...))), store.ErrTooLarge)
			t.nothing()
		}},
	{Text: "A Settle or Extend of MaxBatch items is taken; of one more is ErrTooLarge, and changes nothing.",
		Name: "SettleHasALimit", Test: func(t *T) {
			d := t.claimed("a")[0]
			items := make([]store.Settlement, store.MaxBatch+1)
			tokens := make([]pawl.Token, store.MaxBatch+1)
			for i := range items {
				items[i], tokens[i] = verdict(d, store.Ack), d.Token
				if i > 0 {
					tokens[i].Fence, items[i].Token.Fence = int64(i), int64(i)
				}
			}
			t.wantErr(errOf(t.Store.Settle(t.ctx(), store.NewBatch(items...))), store.ErrTooLarge)
			t.wantErr(errOf(t.Store.Extend(t.ctx(), time.Minute, tokens...)), store.ErrTooLarge)
			t.nothing()
			lost, err := t.Store.Extend(t.ctx(), time.Minute, tokens[:store.MaxBatch]...)
			t.must(err)
			t.check(len(lost) == store.MaxBatch-1, "extend lost %d; want all but one", len(lost))
			refused := t.settle(items[:store.MaxBatch]...)
			t.check(len(refused) == store.MaxBatch-1, "settle refused %d; want all but one", len(refused))
		}},
	{Text: "A settlement emits up to MaxEmit messages; with one more it is refused by itself.",
		Name: "EmitHasALimit", Needs: needs(store.CanEmitAtomic), Test: func(t *T) {
			d := t.claimed("a")[0]
			children := make([]pawl.Message, store.MaxEmit+1)
			for i := range children {
				children[i].Topic = "other"
			}
			t.refusedAlone(emitting(d, children...))
			t.emit(d, children[1:]...)
			t.Topic = "other"
			t.claimsMany(store.MaxBatch, store.MaxEmit)
		}},
	{Text: "A claim of more than MaxBatch messages is ErrTooLarge.",
		Name: "ClaimHasALimit", Test: func(t *T) {
			t.put(t.msg("a"))
			_, err := t.Store.Claim(t.ctx(), []store.Want{{Topic: t.Topic, Limit: store.MaxBatch},
				{Topic: "other", Limit: 1}},
				store.Lease{For: lease})
			t.wantErr(err, store.ErrTooLarge)
			t.wantBodies(t.claim(store.MaxBatch), "a")
		}},
	{Text: "A lease or extension is for more than nothing and at most MaxLease; otherwise the call is ErrInvalid and changes nothing.",
		Name: "LeaseHasLimits", Test: func(t *T) {
			t.put(t.msg("a"))
			want := []store.Want{{Topic: t.Topic, Limit: 1}}
			for _, d := range []time.Duration{-1, 0, store.MaxLease + 1} {
				t.wantErr(errOf(t.Store.Claim(t.ctx(), want, store.Lease{For: d})), store.ErrInvalid, "claim for ", d, ": ")
			}
			for _, w := range []store.Want{{Limit: -1}, {MaxBytes: -1}, {Run: -1}} {
				w.Topic = t.Topic
				_, err := t.Store.Claim(t.ctx(), []store.Want{w}, store.Lease{For: lease})
				t.wantErr(err, store.ErrInvalid, "claim of ", w, ": ")
			}
			ds := t.claimWith(store.Lease{For: store.MaxLease}, want...)
			t.wantBodies(ds, "a")
			for _, d := range []time.Duration{-1, 0, store.MaxLease + 1} {
				t.wantErr(errOf(t.Store.Extend(t.ctx(), d, ds[0].Token)), store.ErrInvalid, "extend by ", d, ": ")
			}
			t.extend(store.MaxLease, ds...)
		}},
	{Text: "An owner is text of at most 256 bytes; otherwise the claim is ErrInvalid.",
		Name: "LeaseOwnerIsText", Test: func(t *T) {
			t.put(t.msg("a"))
			want := store.Want{Topic: t.Topic, Limit: 1}
			for _, owner := range []string{strings.Repeat("x", 257), "\xff", "a\x00"} {
				_, err := t.Store.Claim(t.ctx(), []store.Want{want}, store.Lease{For: lease, Owner: owner})
				t.wantErr(err, store.ErrInvalid, "claim by ", owner, ": ")
			}
			t.wantBodies(t.claimWith(store.Lease{For: lease, Owner: strings.Repeat("é", 128)}, want), "a")
		}},
}

// badMessages are messages that no store takes, each for one reason.
func badMessages(topic string) []pawl.Message {
	long := func(n int) string { return strings.Repeat("x", n) }
	many := map[string]string{}
	for _, k := range numbered("h", pawl.MaxHeaders+1) {
		many[k] = ""
	}
	bad := []pawl.Message{
		{Topic: "-"}, {Topic: "-"}, {Topic: "-"}, {Topic: "-"}, {Topic: "-"}, // replaced below
	}
	for i, name := range []string{"", long(pawl.MaxTopic + 1), "a b", "ä", "a\x00"} {
		bad[i].Topic = name
	}
	for _, m := range []pawl.Message{
		{ID: long(pawl.MaxID + 1)}, {ID: "a\x00"}, {ID: "\xff"}, {ID: "a\nb"},
		{Key: []byte{}}, {Key: []byte(long(pawl.MaxKey + 1))},
		{Priority: -1}, {Priority: pawl.MaxPriority + 1},
		{Delay: -1}, {Delay: pawl.MaxDelay + 1},
		{Headers: many}, {Headers: map[string]string{"": "x"}}, {Headers: map[string]string{"a": "\xff"}},
		{Headers: map[string]string{"\xff": "a"}},
		{Headers: map[string]string{"a": long(pawl.MaxHeaderLen)}},
		{Unique: pawl.Unique{Scope: "s"}}, {Unique: pawl.Unique{For: 1}}, {Unique: pawl.Unique{Key: "u", For: -1}},
		{Unique: pawl.Unique{Key: long(pawl.MaxKey + 1)}}, {Unique: pawl.Unique{Key: "u",
			Scope: long(pawl.MaxKey + 1)}},
	} {
		m.Topic = topic
		bad = append(bad, m)
	}
	return bad
}

// has reports whether the store declares a capability.
func (t *T) has(c store.Capability) bool {
	return store.Can(t.Store, c)
}
