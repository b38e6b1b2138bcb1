package storetest

import (
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var resolveSentences = []Sentence{
	{Text: "A replay that keeps attempts is a replay in all else: attempts stand, rescues count anew.",
		Name: "ReplayKeepsAttempts", Test: func(t *T) {
			ids := t.put(t.keyed("k", "a"))
			t.lane("k", "b")
			t.heads(1)
			t.expire()
			for range 2 {
				t.retry(t.heads(1)[0], 0)
			}
			t.kill(t.heads(1)[0], "dead")
			t.noneRefused(t.dead().ReplayKeeping(t.ctx(), "", ids...))
			r := t.inState(ids[0], store.Waiting)
			t.check(r.Attempts == 3 && r.Rescues == 0 && r.Replays == 1 && len(r.History) == 4,
				"%d attempts, %d rescues, %d replays, history %+v", r.Attempts, r.Rescues, r.Replays, r.History)
			ds := t.claims("b", "a") // at the tail
			t.wantCounts(ds[1], 4, 0)
			t.ack(ds[0])
			t.kill(ds[1], "again")
			t.replay("", ids...)
			if r := t.inState(ids[0], store.Waiting); r.Attempts != 0 || r.Replays != 2 {
				t.Fatalf("after a plain replay %d attempts, %d replays", r.Attempts, r.Replays)
			}
		}},
	{Text: "A replay that keeps attempts refuses what is no dead letter, and goes to another topic where it is told to.",
		Name: "ReplayKeepingRefuses", Test: func(t *T) {
			dead := t.died(t.msg("dead"), "K", "r")
			live := t.put(t.msg("live"))[0]
			t.refusing(t.dead().ReplayKeeping(t.ctx(), "other", live, dead, "none")).want(store.ErrNotFound, live, "none")
			t.claims("live")
			t.claimsOf("other", "dead")
		}},
	{Text: "A resolved letter stays where and what it is, with who resolved it, when and why; dead letters are selected by it.",
		Name: "ResolvedStaysDead", Test: func(t *T) {
			var ids []string
			for _, body := range []string{"a", "b", "c"} {
				ids = append(ids, t.died(t.keyed("k", body), "K", "reason "+body))
			}
			was := t.get(ids[1])
			t.Advance(time.Minute)
			at := t.storeNow()
			t.resolve("it was paid by hand", ids[1])
			r := t.get(ids[1])
			by := r.Resolved
			t.check(by != nil && by.By == "me" && by.Note == "it was paid by hand", "resolved: %+v", by)
			t.near("the time of resolving", r.Resolved.At.Sub(at), 0)
			r.Resolved = nil
			t.sameRecord(r, was)
			t.nothing()
			for _, c := range []struct {
				of   *bool
				want []string
			}{{nil, []string{"a", "b", "c"}}, {new(false), []string{"a", "c"}}, {new(true), []string{"b"}}} {
				f := store.DeadFilter{Topic: t.Topic, Resolved: c.of}
				whole := t.deadLetters(f)
				t.wantRecords(whole, c.want...)
				f.Brief = true
				got := len(t.deadLetters(f))
				t.check(got == len(c.want), "%d in brief; want %q", got, c.want)
				f.Limit = 1
				first := idsOf(t.deadLetters(f))
				t.check(slices.Equal(first, idsOf(whole[:1])), "the first is %q", first)
			}
		}},
	{Text: "The figures count resolved letters apart from those that are open.",
		Name: "ResolvedIsNotOpen", Needs: needs(store.CanTopics, store.CanFigures), Test: func(t *T) {
			a, b := t.died(t.msg("a"), "K", "r"), t.died(t.msg("b"), "K", "r")
			t.resolve("", a)
			t.put(t.msg("live"))
			want := store.TopicStats{Appended: 3, Waiting: 1, Dead: 1, Resolved: 1}
			t.wantStats(want)
			t.resolve("", b)
			want.Dead, want.Resolved = 0, 2
			t.wantStats(want)
			t.noneRefused(t.dead().Reopen(t.ctx(), a))
			want.Dead, want.Resolved = 1, 1
			t.wantStats(want)
			t.noneRefused(t.dead().Purge(t.ctx(), b))
			t.replay("", a)
			t.wantStats(store.TopicStats{Appended: 3, Waiting: 2, Purged: 1})
		}},
	{Text: "Resolving what is resolved replaces the mark; Reopen takes it away, a replay ends it.",
		Name: "ResolveReplacesTheMark", Test: func(t *T) {
			id := t.died(t.msg("a"), "K", "r")
			t.resolve("first", id)
			t.resolve("second", id)
			r := t.get(id).Resolved
			t.check(r != nil && r.Note == "second", "resolved: %+v", r)
			for range 2 {
				t.noneRefused(t.dead().Reopen(t.ctx(), id))
				r := t.get(id).Resolved
				t.check(r == nil, "reopened, and resolved: %+v", r)
			}
			t.resolve("third", id)
			t.replay("", id)
			r = t.get(id).Resolved
			t.check(r == nil, "replayed, and resolved: %+v", r)
			t.kill(t.claimOne(), "again")
			r = t.get(id).Resolved
			t.check(r == nil, "dead again, and resolved: %+v", r)
		}},
	{Text: "Resolve and Reopen refuse what is no dead letter with ErrNotFound, and see to the others.",
		Name: "ResolveRefuses", Test: func(t *T) {
			dead := t.died(t.msg("dead"), "K", "r")
			live := t.put(t.msg("live"))[0]
			for _, do := range []func(...string) (map[string]error, error){
				func(ids ...string) (map[string]error, error) { return t.dead().Resolve(t.ctx(), "", "", ids...) },
				func(ids ...string) (map[string]error, error) { return t.dead().Reopen(t.ctx(), ids...) },
			} {
				t.refusing(do(live, dead, "none", dead)).want(store.ErrNotFound, live, "none")
				t.noneRefused(do())
			}
			t.inState(dead, store.IsDead)
			t.claims("live")
		}},
	{Text: "A resolved letter that was listed, purged and imported is resolved.",
		Name: "ImportKeepsTheMark", Test: func(t *T) {
			id := t.died(pawl.Message{Topic: t.Topic, Key: []byte("k"), Body: []byte("a")}, "K", "r")
			t.resolve("done", id)
			was := t.get(id)
			t.noneRefused(t.dead().Purge(t.ctx(), id))
			t.importDead(was)
			r := t.get(id)
			t.check(r.Resolved != nil && r.Resolved.Note == "done" && r.Resolved.By == "me" &&
				r.Resolved.At.Equal(was.Resolved.At), "resolved: %+v; want %+v", r.Resolved, was.Resolved)
		}},
}

func (t *T) resolve(note string, ids ...string) {
	t.noneRefused(t.dead().Resolve(t.ctx(), "me", note, ids...))
}
