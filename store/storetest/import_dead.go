package storetest

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var importSentences = []Sentence{
	{Text: "Dead looks for a text, whatever the case, in reason, errors of attempts, id, key, values of headers and body.",
		Name: "DeadHaveTheText", Test: func(t *T) {
			a := t.msg("a")
			a.ID, a.Key, a.Headers = "ID-of-a", []byte("Schlüssel 1"), map[string]string{"name": "Value_One"}
			t.put(a)
			t.retry(t.claimOne(), 0)
			t.kill(t.claimOne(), "Gave UP")
			t.died(t.msg("NEEDLE in a body b"), "K", "r")
			binary := t.keyed("k\xffneedle", "c\xff needle")
			t.died(binary, "K", "r")
			for text, want := range map[string]string{
				"id-OF-a": "a", "SCHLÜSSEL": "a", "value_one": "a", "gave up": "a", "failed": "a", "name": "",
				"needle": "NEEDLE in a body b", "eedl%": "", "_": "a", "absent": "",
			} {
				got := recordBodies(t.deadLetters(store.DeadFilter{Text: text}))
				t.check(strings.Join(got, "|") == want, "text %q: %q; want %q", text, got, want)
			}
			for range 3 {
				t.died(t.msg("needle again"), "K", "r")
			}
			if got := t.deadLetters(store.DeadFilter{Text: "needle", Limit: 3}); len(got) != 3 {
				t.Fatalf("a limit of 3 gave %d", len(got))
			}
			t.listsDead(store.DeadFilter{Text: "again", Reason: "R", Limit: 1}, "needle again")
		}},
	{Text: "A record keeps the facts that its failures state, within their limits; dead letters are selected by those of the last, in brief too.",
		Name: "DeadKeepFacts", Test: func(t *T) {
			many := map[string]string{"long": strings.Repeat("é", pawl.MaxAttrValue),
				strings.Repeat("n", pawl.MaxAttrName+1): "left out", "bad": "a\xff\x00"}
			for i := range pawl.MaxAttrs {
				many[fmt.Sprint("z", 100+i)] = "v"
			}
			for i, attrs := range []map[string]string{{"status": "404", "host": "a"}, {"status": "404", "host": "b"},
				{"status": "40"}, nil, many} {
				t.put(t.msg(fmt.Sprint(i)))
				t.fails(t.claimOne(), store.Retry, store.Failure{Kind: "Test", Attrs: map[string]string{"status": "500"}})
				t.fails(t.claimOne(), store.Dead, store.Failure{Kind: "Test", Attrs: attrs})
			}
			for _, c := range []struct {
				attrs map[string]string
				limit int
				want  []string
			}{
				{map[string]string{"status": "404"}, 0, []string{"0", "1"}},
				{map[string]string{"status": "404"}, 1, []string{"0"}},
				{map[string]string{"status": "404", "host": "b"}, 1, []string{"1"}},
				{map[string]string{"status": "500"}, 0, nil},
				{map[string]string{"host": ""}, 0, nil},
			} {
				f := store.DeadFilter{Attrs: c.attrs, Limit: c.limit}
				t.Logf("%+v", f)
				t.wantRecords(t.deadLetters(f), c.want...)
				f.Brief = true
				n := len(t.deadLetters(f))
				t.check(n == len(c.want), "in brief: %d; want %d", n, len(c.want))
			}
			all := t.deadLetters(store.DeadFilter{})
			h := all[0].History
			t.check(h[0].Attrs["status"] == "500" && all[0].Attrs()["host"] == "a" && all[3].Attrs() == nil,
				"history %+v", h)
			kept := all[4].Attrs()
			t.check(len(kept) == pawl.MaxAttrs && len(kept["long"]) <= pawl.MaxAttrValue &&
				kept["bad"] == store.Text("a\xff\x00"), "%d facts: %v", len(kept), kept)
		}},
	{Text: "A brief listing of dead letters leaves out body, headers, history and origin, and nothing else.",
		Name: "DeadInBrief", Test: func(t *T) {
			m := t.keyed("k", "body needle")
			m.Headers = map[string]string{"a": "1"}
			t.put(m)
			t.retry(t.claimOne(), 0)
			t.kill(t.claimOne(), "reason")
			t.died(pawl.Message{Topic: "other"}, "K", "r")
			for _, f := range []store.DeadFilter{{}, {Topic: t.Topic}, {Text: "NEEDLE"}, {Kind: "Test", Limit: 1}} {
				whole := t.deadLetters(f)
				f.Brief = true
				brief := t.deadLetters(f)
				t.check(len(brief) != 0 && len(brief) == len(whole), "%+v: %d letters in brief, %d else", f, len(brief),
					len(whole))
				for i := range brief {
					whole[i].Body, whole[i].Headers, whole[i].History, whole[i].Origin = nil, nil, nil, nil
					t.sameRecord(brief[i], whole[i])
					t.check(brief[i].Body == nil && brief[i].Headers == nil && brief[i].History == nil, "in brief: %+v",
						brief[i])
				}
			}
		}},
	{Text: "Edit changes body and headers of a dead letter and nothing else; it stays dead, and is delivered so after a replay.",
		Name: "EditChangesWhereItIs", Needs: needs(store.CanLookup), Test: func(t *T) {
			m := t.keyed("k", "wrong")
			m.Headers = map[string]string{"a": "1", "b": "2"}
			id := t.died(m, "K", "r")
			other := t.died(t.msg("other"), "K", "r")
			before := t.get(id)
			t.edit(store.Edit{ID: id, Body: []byte("right\x00"), Headers: map[string]string{"b": "3", "c": ""}})
			after := t.get(id)
			before.Body, before.Headers = []byte("right\x00"), map[string]string{"a": "1", "b": "3", "c": ""}
			t.sameRecord(after, before)
			t.edit(store.Edit{ID: id}, store.Edit{ID: other, Headers: map[string]string{"x": "y"}})
			t.sameRecord(t.get(id), before)
			t.edit(store.Edit{ID: id, Body: []byte{}}, store.Edit{ID: id, Headers: map[string]string{"d": "4"}})
			t.nothing()
			t.replay("", id, other)
			ds := t.claims("", "other")
			if ds[0].Headers["d"] != "4" || ds[0].Headers["a"] != "1" || ds[1].Headers["x"] != "y" {
				t.Fatalf("delivered with headers %v and %v", ds[0].Headers, ds[1].Headers)
			}
		}},
	{Text: "Edit refuses what is not there, what is not dead and what no store takes, one by one.",
		Name: "EditRefuses", Test: func(t *T) {
			dead := t.died(t.msg("dead"), "K", "r")
			ids := t.put(t.msg("leased"), t.msg("waiting"))
			t.wantBodies(t.claim(1), "leased")
			body := []byte("edited")
			t.refusing(t.dead().Edit(t.ctx(), store.Edit{ID: "none", Body: body},
				store.Edit{ID: dead, Body: body})).want(store.ErrNotFound, "none")
			refused := t.refusing(t.dead().Edit(t.ctx(), store.Edit{ID: ids[0], Body: body},
				store.Edit{ID: ids[1], Body: body}))
			why := store.ErrConflict
			if !t.has(store.CanLookup) && errors.Is(refused.of[ids[0]], store.ErrNotFound) {
				why = store.ErrNotFound // it need not know that they are there
			}
			refused.want(why, ids...)
			t.refusing(t.dead().Edit(t.ctx(), store.Edit{ID: dead,
				Body: make([]byte, pawl.MaxBody+1)})).invalid(dead)
			many := map[string]string{}
			for _, name := range numbered("h", pawl.MaxHeaders) {
				many[name] = "v"
			}
			t.edit(store.Edit{ID: dead, Headers: many})
			tooMany := store.Edit{ID: dead, Headers: map[string]string{"one more": "v"}}
			t.refusing(t.dead().Edit(t.ctx(), tooMany)).invalid(dead)
			t.wantErr(errOf(t.dead().Edit(t.ctx(), make([]store.Edit, store.MaxBatch+1)...)), store.ErrTooLarge)
			t.noneRefused(t.dead().Edit(t.ctx()))
			t.wantDead("edited")
			t.claims("waiting")
		}},
	{Text: "Import stores dead letters as they are: a letter that was listed, purged and imported is the same.",
		Name: "ImportStoresThemAsTheyAre", Needs: needs(store.CanLookup), Test: func(t *T) {
			m := pawl.Message{Topic: "new-topic", Key: []byte("k\xff"), Priority: 3, Body: []byte("body\x00"),
				Headers: map[string]string{"a": "b\x00"},
				Delay:   time.Minute, Unique: pawl.Unique{Key: "u", Scope: "s", For: time.Hour}}
			want := letter(m, "foreign")
			want.State = store.IsDead
			t.importDead(want)
			t.sameRecord(t.get("foreign"), want)
			t.sameRecord(t.deadLetters(store.DeadFilter{})[0], want)
			t.died(t.keyed("k", "native"), "K", "r")
			native := t.deadLetters(store.DeadFilter{Topic: t.Topic})
			t.noneRefused(t.dead().Purge(t.ctx(), native[0].ID))
			t.gone(native[0].ID)
			t.importDead(native...)
			t.sameRecord(t.get(native[0].ID), native[0])
		}},
	{Text: "An imported letter is a dead letter like any other: listed last, replayed, purged; it takes its unique key at the replay.",
		Name: "ImportedAreDeadLetters", Needs: needs(store.CanUnique), Test: func(t *T) {
			t.died(t.msg("old"), "K", "r")
			u := t.unique("u", "key", pawl.Unique{})
			often := letter(t.msg("c"), "c")
			often.Replays = math.MaxInt16 // nothing ends there
			t.importDead(letter(t.keyed("k", "a"), "a"), letter(u, "b"), often)
			t.wantDead("old", "a", "u", "c")
			t.put(t.unique("first", "key", pawl.Unique{}))
			t.claims("first")
			t.refusing(t.dead().Replay(t.ctx(), "", "c", "b", "a")).want(store.ErrConflict, "b")
			ds := t.claims("c", "a")
			t.check(ds[1].Attempt == 1 && string(ds[1].Key) == "k", "delivery of an imported letter %+v", ds[1])
			t.noneRefused(t.dead().Purge(t.ctx(), "b"))
			t.wantDead("old")
		}},
	{Text: "Import refuses ids that are there with ErrConflict and what no store takes, one by one, and stores the others.",
		Name: "ImportRefuses", Test: func(t *T) {
			dead := t.died(t.msg("dead"), "K", "r")
			live := t.put(t.msg("live"))[0]
			good := letter(t.msg("good"), "good")
			t.refusing(t.dead().Import(t.ctx(), letter(t.msg("x"), dead), good)).want(store.ErrConflict, dead)
			if t.has(store.CanLookup) {
				t.refusing(t.dead().Import(t.ctx(), letter(t.msg("x"), live))).want(store.ErrConflict, live)
			}
			t.refusing(t.dead().Import(t.ctx(), good)).want(store.ErrConflict, "good")
			bad := map[string]func(*store.Record){
				"topic": func(r *store.Record) { r.Topic = "no topic" }, "body": func(r *store.Record) {
					r.Body = make([]byte, pawl.MaxBody+1)
				},
				"no death": func(r *store.Record) { r.DeadAt = time.Time{} }, "no birth": func(r *store.Record) {
					r.EnqueuedAt = time.Time{}
				},
				"waiting": func(r *store.Record) { r.State = store.Waiting }, "attempts": func(r *store.Record) {
					r.Attempts = -1
				},
				"replays": func(r *store.Record) { r.Replays = 1 << 40 }, "key": func(r *store.Record) { r.Key = []byte{} },
			}
			for name, spoil := range bad {
				r := letter(t.msg("x"), name)
				spoil(&r)
				t.refusing(t.dead().Import(t.ctx(), r, letter(t.msg("x"), "beside "+name))).invalid(name)
			}
			t.refusing(t.dead().Import(t.ctx(), letter(t.msg("x"), ""))).invalid("")
			t.wantErr(errOf(t.dead().Import(t.ctx(), make([]store.Record, store.MaxBatch+1)...)), store.ErrTooLarge)
			got := len(t.deadLetters(store.DeadFilter{}))
			t.check(got == 2+len(bad), "%d dead letters; want %d", got, 2+len(bad))
			t.claims("live")
			if !t.has(store.CanUnique) {
				return
			}
			if r := t.append(pawl.Message{Topic: t.Topic, ID: "good"})[0]; r.DuplicateOf != "good" {
				t.Fatalf("an append of a imported id: %+v", r)
			}
		}},
	{Text: "Buried letters count as appended, and block their lane where the topic parks.",
		Name: "BuriedAreCounted", Needs: needs(store.CanTopics, store.CanFigures), Test: func(t *T) {
			t.declare(store.Declaration{Park: new(true)})
			t.importDead(letter(t.keyed("k", "a"), "a"), letter(t.msg("b"), "b"))
			t.wantStats(store.TopicStats{Appended: 2, Dead: 2})
			t.lane("k", "c")
			t.nothing()
			t.wantDead("a", "b", "c")
			t.wantStats(store.TopicStats{Appended: 3, Dead: 3})
		}},
	{Text: "A message can die, be replayed and die again, with its whole history.",
		Name: "DeathCanRepeat", Test: func(t *T) {
			id := t.died(t.keyed("k", "a"), "K", "0")
			for _, reason := range []string{"1", "2"} {
				t.replay("", id)
				t.kill(t.claimOne(), reason)
			}
			r := t.wantDead("a")[0]
			reasons := each(r.History, func(h store.Attempt) string { return h.Error })
			t.check(slices.Equal(reasons, []string{"0", "1", "2"}) && r.Replays == 2 && r.Attempts == 1 &&
				r.Reason == "2", "history %q, %d replays, %d attempts, reason %q", reasons, r.Replays, r.Attempts,
				r.Reason)
		}},
}

// letter is a dead letter from elsewhere.
func letter(m pawl.Message, id string) store.Record {
	m.ID = id
	at := time.Date(2025, 3, 4, 5, 6, 7, 123_456_000, time.UTC)
	return store.Record{
		Message: m, Rank: 7, Attempts: 2, Rescues: 3, Lonely: 1, Replays: 4, EnqueuedAt: at, DeadAt: at.Add(time.Hour),
		Kind: "Import", Reason: "as it was", Fingerprint: "abcdefabcdef",
		History: []store.Attempt{
			{Attempt: 1, StartedAt: at, EndedAt: at.Add(time.Second), Worker: "w", Kind: "K", Error: "first", Rule: "r",
				Action: "retry", NextAt: at.Add(time.Minute)},
			{Attempt: 2, StartedAt: at.Add(time.Minute), EndedAt: at.Add(time.Hour), Worker: "w", Kind: "K",
				Error: "last", Rule: "r", Action: "dead"},
		},
	}
}

// importDead imports letters, which must succeed.
func (t *T) importDead(letters ...store.Record) {
	t.noneRefused(t.dead().Import(t.ctx(), letters...))
}

func (t *T) edit(edits ...store.Edit) {
	t.noneRefused(t.dead().Edit(t.ctx(), edits...))
}

// sameRecord compares dead letters, whose times agree to the microsecond.
func (t *T) sameRecord(got, want store.Record) {
	for _, r := range []*store.Record{&got, &want} {
		r.EnqueuedAt, r.DeadAt = r.EnqueuedAt.UTC().Truncate(time.Microsecond),
			r.DeadAt.UTC().Truncate(time.Microsecond)
		history := make([]store.Attempt, len(r.History))
		for i, a := range r.History {
			a.StartedAt, a.EndedAt, a.NextAt = a.StartedAt.UTC(), a.EndedAt.UTC(), a.NextAt.UTC()
			history[i] = a
		}
		r.History = history
		if len(r.Headers) == 0 {
			r.Headers = nil
		}
		if len(r.Body) == 0 {
			r.Body = nil
		}
	}
	t.check(reflect.DeepEqual(got, want), "record\n%+v\nwant\n%+v", got, want)
}
