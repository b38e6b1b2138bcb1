package storetest

import (
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var emitSentences = []Sentence{
	{Text: "What an ack emits is appended with it, whole: body, key, headers, priority.",
		Name: "EmitComesWithTheAck", Test: func(t *T) {
			d := t.claimed("parent")[0]
			child := pawl.Message{Topic: "other", Key: []byte("k\x00"), Priority: 7, Body: []byte("child\xff"),
				Headers: map[string]string{"a": "b", "c": ""}}
			t.emit(d, child)
			t.nothing()
			t.Topic = "other"
			got := t.claimOne()
			child.ID = pawl.EmitID(d.ID, 0)
			t.wantMessage(got.Message, child)
		}},
	{Text: "What a lost settlement emits does not appear.",
		Name: "EmitNeverWithoutTheAck", Needs: needs(store.CanDeadline), Test: func(t *T) {
			old := t.claimed("parent")[0]
			t.expire()
			now := t.claimOne()
			t.lost(emitting(old, pawl.Message{Topic: "other", Body: []byte("late")}))
			t.ack(now)
			t.lost(emitting(now, pawl.Message{Topic: "other", Body: []byte("twice")}))
			t.claimsOf("other")
		}},
	{Text: "The id of an emitted message is EmitID of its parent and its index, whatever id it was given.",
		Name: "EmitIDsDerive", Test: func(t *T) {
			id := t.put(t.msg("parent"))[0]
			t.emit(t.claimOne(), pawl.Message{Topic: "other", ID: "mine"}, pawl.Message{Topic: "third"},
				pawl.Message{Topic: "other"})
			t.Topic = "other"
			got := each(t.claim(10), func(d pawl.Delivery) string { return d.ID })
			want := []string{pawl.EmitID(id, 0), pawl.EmitID(id, 2)}
			t.check(slices.Equal(got, want), "emitted ids %q; want %q", got, want)
		}},
	{Text: "An emitted message whose id or unique key is there already is skipped and counted; the ack and the others stand.",
		Name: "EmitDuplicateIsSkipped", Needs: needs(store.CanUnique, store.CanTopics), Test: func(t *T) {
			id := t.put(t.msg("parent"))[0]
			other := pawl.Message{Topic: "other", Body: []byte("first"), Unique: pawl.Unique{Key: "u"}}
			sameID := pawl.Message{Topic: "other", Body: []byte("same id"), ID: pawl.EmitID(id, 1)}
			t.put(other, sameID)
			other.Body = []byte("second")
			t.emit(t.claimOne(), other, pawl.Message{Topic: "other", Body: []byte("id is there")},
				pawl.Message{Topic: "other", Body: []byte("new")})
			t.nothing()
			t.Topic = "other"
			t.claims("first", "same id", "new")
			st := t.stats()
			t.check(st.Duplicates == 2 && st.Appended == 3, "%d duplicates, %d appended; want 2 and 3", st.Duplicates,
				st.Appended)
		}},
	{Text: "Of two emitted messages with one unique key in one batch, one is stored.",
		Name: "EmitDuplicatesWithinABatch", Needs: needs(store.CanUnique), Test: func(t *T) {
			ds := t.claimed("a", "b")
			child := pawl.Message{Topic: "other", Unique: pawl.Unique{Key: "u", Scope: "s"}}
			t.settled(emitting(ds[0], child, child), emitting(ds[1], child))
			t.Topic = "other"
			got := t.claim(10)
			t.check(len(got) == 1, "%d messages with one unique key", len(got))
		}},
	{Text: "A settlement that emits with another verdict than ack is refused by itself and changes nothing.",
		Name: "EmitGoesWithAckOnly", Test: func(t *T) {
			for _, v := range []store.Verdict{store.Retry, store.Dead, store.Release} {
				t.put(t.msg(v.String()))
				d := t.claimOne()
				s := emitting(d, pawl.Message{Topic: "other"})
				s.Verdict = v
				t.refusedAlone(s)
				t.nothing()
				t.ack(d)
			}
			t.claimsOf("other")
		}},
	{Text: "A settlement that emits what no store takes is refused by itself, with an InvalidError; its delivery stays leased, the rest of the batch takes effect.",
		Name: "InvalidEmitRefusesItsItem", Test: func(t *T) {
			ds := t.claimed("a", "b", "c")
			good := pawl.Message{Topic: "other", Body: []byte("good")}
			bad := pawl.Message{Topic: "no topic name", Body: []byte("bad")}
			refused := t.settle(emitting(ds[0], good), emitting(ds[1], good, bad), verdict(ds[2], store.Ack))
			t.invalid(t.wantItems(refused, 1)[0].Err)
			t.nothing()
			t.emit(ds[1], pawl.Message{Topic: "other", Body: []byte("mended")})
			t.claimsOf("other", "good", "mended")
		}},
	{Text: "Emitted messages are appended in the order in which they were emitted.",
		Name: "EmitKeepsItsOrder", Test: func(t *T) {
			t.put(t.msg("parent"))
			want := numbered("", 60)
			children := each(want, func(b string) pawl.Message {
				return pawl.Message{Topic: "other", Key: []byte("k"), Body: []byte(b)}
			})
			t.emit(t.claimOne(), children...)
			t.claimsOf("other", want...)
		}},
	{Text: "A message that is emitted into the lane of its parent joins the tail of that lane.",
		Name: "EmitToOneself", Test: func(t *T) {
			ds := t.claimedRun("k", "a", "b")
			t.lane("k", "c")
			t.emit(ds[0], t.keyed("k", "child"))
			t.nothing()
			t.emit(ds[1], t.keyed("k", "last"))
			t.claims("c", "child", "last")
		}},
	{Text: "An emitted message may have a delay, from the ack.",
		Name: "EmitCanBeDelayed", Needs: needs(store.CanDelay), Test: func(t *T) {
			t.put(t.msg("parent"))
			t.Advance(time.Minute)
			t.emit(t.claimOne(), t.delayed(t.msg("late"), 2*time.Minute))
			t.later(90 * time.Second)
			t.later(time.Minute, "late")
		}},
	{Text: "An ack frees its message's unique key before what it emits takes one: a message may emit its own successor.",
		Name: "EmitFreesBeforeItTakes", Needs: needs(store.CanUnique), Test: func(t *T) {
			m := t.msg("0")
			m.Unique.Key = "heartbeat"
			t.put(m)
			for _, b := range []string{"1", "2"} {
				m.Body = []byte(b)
				t.emit(t.claimOne(), m)
			}
			t.claims("2")
		}},
	{Text: "Every message of a run emits with its own ack.",
		Name: "EmitOfARunAddsUp", Test: func(t *T) {
			t.lane("k", "a", "b", "c")
			var items []store.Settlement
			for _, d := range t.claims("a", "b", "c") {
				items = append(items, emitting(d, pawl.Message{Topic: "other", Key: []byte("k"),
					Body: []byte(strings.ToUpper(string(d.Body)))}))
			}
			items[2].Verdict, items[2].Emit = store.Retry, nil
			t.settled(items...)
			t.claimsOf("other", "A", "B")
		}},
}

// refusedAlone settles one item that no store takes.
func (t *T) refusedAlone(s store.Settlement) {
	t.invalid(t.wantItems(t.settle(s), 0)[0].Err)
}
