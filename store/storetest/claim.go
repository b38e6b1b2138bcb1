package storetest

import (
	"errors"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var claimSentences = []Sentence{
	{Text: "A claim gives at most Limit messages of a topic; of none with Limit 0.",
		Name: "LimitHolds", Test: func(t *T) {
			t.put(each(numbered("", 30), t.msg)...)
			t.claimsMany(0, 0)
			t.wantBodies(t.claim(7), numbered("", 7)...)
			t.claimsMany(30, 23) // the others
		}},
	{Text: "A claim gives at most Run messages of one lane; DefaultRun when the want does not say.",
		Name: "RunHasACap", Test: func(t *T) {
			var msgs []pawl.Message
			for _, b := range numbered("", 2*store.DefaultRun) {
				msgs = append(msgs, t.keyed("k", b), t.keyed("l", b))
			}
			t.put(msgs...)
			ds := t.claim(8 * store.DefaultRun)
			t.check(len(ds) == 2*store.DefaultRun, "claimed %d of two lanes without a cap; want %d", len(ds),
				2*store.DefaultRun)
			t.ack(ds...)
			ds = t.claimRun(100, 3)
			t.check(len(ds) == 6, "claimed %d of two lanes, 3 each at most", len(ds))
		}},
	{Text: "A run is cut to what is left of Limit.",
		Name: "RunCountsTowardsTheLimit", Test: func(t *T) {
			t.lane("k", "a", "b", "c")
			ds := t.claim(2)
			t.wantBodies(ds, "a", "b")
			t.ack(ds...)
			t.claims("c")
		}},
	{Text: "MaxBytes bounds the sum of the sizes: body, key and headers. What does not fit stays claimable.",
		Name: "BytesAreBounded", Test: func(t *T) {
			for _, b := range numbered("", 10) {
				t.put(t.sized(b, 100))
			}
			var got []string
			for range 10 {
				ds := t.claimWith(store.Lease{For: lease}, store.Want{Topic: t.Topic, Limit: 10, MaxBytes: 350})
				t.check(len(ds) <= 3, "claimed %d messages of 100 bytes; the bound is 350", len(ds))
				got = append(got, bodiesOf(ds)...)
			}
			t.check(slices.Equal(got, numbered("", 10)), "claimed %q in portions", got)
		}},
	{Text: "A first message that is larger than MaxBytes is given all the same, alone.",
		Name: "OversizeComesAlone", Test: func(t *T) {
			t.put(t.sized("huge", 1000), t.sized("small", 10), t.sized("huge too", 1000))
			want := store.Want{Topic: t.Topic, Limit: 10, MaxBytes: 100}
			t.wantBodies(t.claimWith(store.Lease{For: lease}, want), "huge")
			t.wantBodies(t.claimWith(store.Lease{For: lease}, want), "small")
			t.wantBodies(t.claimWith(store.Lease{For: lease}, want), "huge too")
		}},
	{Text: "MaxBytes cuts a run, too; the rest of the lane follows in order.",
		Name: "BytesBoundARun", Test: func(t *T) {
			var msgs []pawl.Message
			for _, b := range numbered("", 6) {
				m := t.sized(b, 99)
				m.Key = []byte("k")
				msgs = append(msgs, m)
			}
			t.put(msgs...)
			var got []string
			for len(got) < 6 {
				ds := t.claimWith(store.Lease{For: lease}, store.Want{Topic: t.Topic, Limit: 10, MaxBytes: 250})
				t.check(len(ds) != 0 && len(ds) <= 2, "claimed %d messages of 100 bytes; the bound is 250", len(ds))
				t.ack(ds...)
				got = append(got, bodiesOf(ds)...)
			}
			t.check(slices.Equal(got, numbered("", 6)), "the lane gave %q", got)
		}},
	{Text: "One claim serves several topics, each within its own limits, and gives nothing of others.",
		Name: "ClaimOfSeveralTopics", Test: func(t *T) {
			for _, topic := range []string{"a", "b", "c", "d"} {
				for range 5 {
					t.put(pawl.Message{Topic: topic, Body: []byte(topic)})
				}
			}
			ds := t.claimWith(store.Lease{For: lease},
				store.Want{Topic: "c", Limit: 2}, store.Want{Topic: "a", Limit: 100}, store.Want{Topic: "d"},
				store.Want{Topic: "none", Limit: 5})
			got := bodiesOf(ds)
			slices.Sort(got)
			want := []string{"a", "a", "a", "a", "a", "c", "c"}
			t.check(slices.Equal(got, want), "claimed %q; want %q", got, want)
			for _, d := range ds {
				t.check(d.Topic == string(d.Body), "a delivery of topic %q says topic %q", d.Body, d.Topic)
			}
		}},
	{Text: "A claim of a topic that is not there yields nothing, and creates nothing.",
		Name: "UnknownTopicIsEmpty", Test: func(t *T) {
			t.nothing()
			if t.has(store.CanTopics) {
				t.wantErr(errOf(t.topics().Topic(t.ctx(), t.Topic)), store.ErrNotFound)
			}
			ds := t.claimWith(store.Lease{For: lease}, store.Want{Topic: "not a topic\x00", Limit: 1})
			t.check(len(ds) == 0, "claimed %q", bodiesOf(ds))
		}},
	{Text: "The deliveries of one lane follow one another, lanes come by rank.",
		Name: "LanesFollowOneAnother", Test: func(t *T) {
			for _, b := range numbered("", 4) {
				t.put(t.keyed("k", "k"+b), t.keyed("l", "l"+b), t.msg("u"+b))
			}
			t.claims("k0", "k1", "k2", "k3", "l0", "l1", "l2", "l3", "u0", "u1", "u2", "u3")
		}},
	{Text: "Topic names are compared byte by byte, case included.",
		Name: "TopicNamesAreExact", Test: func(t *T) {
			topics := []string{"A", "a", "a.b", "a-b", "_a", "a_b"}
			for _, topic := range topics[:5] {
				t.put(pawl.Message{Topic: topic, Body: []byte(topic)})
			}
			// A store may refuse a name that differs in . and _ only from one that is there.
			_, err := t.Store.Append(t.ctx(), store.NewBatch(pawl.Message{Topic: "a_b", Body: []byte("a_b")}))
			if errors.Is(err, store.ErrInvalid) {
				topics = topics[:5]
			} else {
				t.must(err)
			}
			for _, topic := range topics {
				t.Topic = topic
				t.claims(topic)
			}
		}},
}

// sized is a message of that size by its body, key and headers.
func (t *T) sized(body string, size int) pawl.Message {
	m := t.msg(body)
	m.Headers = map[string]string{"pad": ""}
	m.Headers["pad"] = string(make([]byte, size-m.Size()))
	return m
}
