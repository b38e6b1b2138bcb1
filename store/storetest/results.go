package storetest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

var resultSentences = []Sentence{
	{Text: "ScanResults returns messages in the order of appending, whatever their priority, and their cursors rise.",
		Name: "ResultsComeInOrder", Test: func(t *T) {
			t.unordered()
			for i, priority := range []int{0, 100, 50, 0, 100} {
				m := t.keyed("k", fmt.Sprint(i))
				m.Priority = priority
				t.put(m, pawl.Message{Topic: "other"})
			}
			t.scanAll(0, 100, "0", "1", "2", "3", "4")
			t.scanAll(0, 2, "0", "1", "2", "3", "4")
		}},
	{Text: "A scan goes on behind its cursor, sees what was appended since, and every message once, whatever the limit.",
		Name: "ResultsGoOnFromACursor", Test: func(t *T) {
			t.unordered()
			next := t.scanAll(0, 10)
			t.put(t.msg("a"), t.msg("b"), t.msg("c"))
			next = t.scanAll(next, 1, "a", "b", "c")
			t.put(pawl.Message{Topic: "other"})
			next = t.scanAll(next, 10)
			t.put(t.msg("d"))
			t.scanAll(next, 10, "d")
			t.scanAll(next, 10, "d") // a scan changes nothing
		}},
	{Text: "A result holds the message as it was appended.",
		Name: "ResultsAreWhole", Needs: needs(store.CanUnique), Test: func(t *T) {
			t.unordered()
			m := pawl.Message{
				Topic: t.Topic, ID: "id", Key: []byte("k\x00"), Priority: 7, Body: []byte("b\x00\xff"),
				Headers: map[string]string{"h": "v"},
				Unique:  pawl.Unique{Key: "u", Scope: "s", For: time.Hour},
			}
			t.put(m)
			t.scanAll(0, 10, string(m.Body))
			results, _ := t.scan(0, 10)
			got := results[0].Message
			t.check(got.ID == m.ID && bytes.Equal(got.Key, m.Key) && got.Priority == 7 &&
				bytes.Equal(got.Body, m.Body) && maps.Equal(got.Headers, m.Headers) && got.Unique == m.Unique,
				"result %+v; want %+v", got, m)
		}},
	{Text: "A topic with order by key is refused; one that is not there has no results.",
		Name: "ResultsNeedNoOrder", Test: func(t *T) {
			t.scanAll(0, 10)
			t.removeResults(7, 0)
			t.lane("k", "a")
			_, _, err := t.results().ScanResults(t.ctx(), t.Topic, 0, 10)
			t.wantErr(err, store.ErrInvalid)
			t.wantErr(errOf(t.results().RemoveResults(t.ctx(), t.Topic, 7)), store.ErrInvalid)
			t.claims("a")
		}},
	{Text: "A cursor below 0 and a limit that is none are refused; large results come in several scans.",
		Name: "ResultsHaveLimits", Test: func(t *T) {
			t.unordered()
			_, _, err := t.results().ScanResults(t.ctx(), t.Topic, -1, 10)
			t.wantErr(err, store.ErrInvalid)
			for _, limit := range []int{0, -1, store.MaxBatch + 1} {
				_, _, err = t.results().ScanResults(t.ctx(), t.Topic, 0, limit)
				t.wantErr(err, store.ErrTooLarge)
			}
			t.wantErr(errOf(t.results().RemoveResults(t.ctx(), t.Topic, -1)), store.ErrInvalid)
			large := strings.Repeat("x", backend.ResultBytes/2+1)
			t.put(t.msg(large), t.msg(large+"2"), t.msg(large+"3"))
			t.scanAll(0, 10, large, large+"2", large+"3")
			if results, _ := t.scan(0, 10); len(results) == 3 {
				t.Fatalf("one scan returned %d bytes", 3*len(large))
			}
		}},
	{Text: "RemoveResults removes what stands up to the cursor, frees ids and unique keys, and leaves what is behind it or in other topics.",
		Name: "ResultsAreRemoved", Needs: needs(store.CanUnique), Test: func(t *T) {
			t.unordered()
			t.put(pawl.Message{Topic: "other", Body: []byte("stays")})
			t.put(t.withID("mine", "a"), t.unique("b", "u", pawl.Unique{}), t.msg("c"))
			next := t.scanAll(0, 10, "a", "b", "c")
			t.put(t.msg("d"))
			results, _ := t.scan(0, 10)
			t.removeResults(results[0].Cursor, 1)
			t.scanAll(0, 10, "b", "c", "d")
			t.removeResults(next, 2)
			t.removeResults(next, 0)
			t.scanAll(0, 10, "d")
			t.put(t.withID("mine", "e"), t.unique("f", "u", pawl.Unique{}))
			next = t.scanAll(next, 10, "d", "e", "f")
			t.claimsOf("other", "stays")
			const many = 1200
			want := numbered("", many)
			t.put(each(want, t.msg)...)
			last := t.scanAll(next, 500, want...)
			t.removeResults(last, many+3)
			t.scanAll(0, 500)
			t.nothing()
		}},
	{Text: "Removed results count as acked, in a topic that retains too; those that are leased stay.",
		Name: "RemovedResultsAreAcked", Needs: needs(store.CanFigures, store.CanDelay), Test: func(t *T) {
			retain := time.Hour
			t.declare(store.Declaration{Name: t.Topic, Order: store.OrderNone, Retain: &retain})
			t.put(t.msg("a"), t.msg("b"), t.msg("c"))
			d := t.claimOne()
			t.put(t.delayed(t.msg("late"), time.Hour))
			next := t.scanAll(0, 10, "a", "b", "c", "late")
			t.removeResults(next, 3)
			t.wantStats(store.TopicStats{Appended: 4, Acked: 3, Leased: 1})
			t.ack(d)
			t.wantStats(store.TopicStats{Appended: 4, Acked: 4})
			t.scanAll(0, 10)
		}},
	{Text: "The cursor passes no message of a transaction that has not committed yet.",
		Name: "ResultsPassNoOpenTransaction", Needs: needs(store.CanTxAppend), OpenTx: true, Test: func(t *T) {
			t.unordered()
			t.put(t.msg("before"))
			next := t.scanAll(0, 10, "before")
			t.Tx(t, func(do appendTx) bool {
				t.putTx(do, t.msg("open"))
				t.put(t.msg("after"))
				results, cursor := t.scan(next, 10)
				t.check(len(results) == 0, "the scan went to %d, past what a transaction has appended", cursor)
				return true
			})
			t.scanAll(next, 10, "open", "after")
			t.Tx(t, func(do appendTx) bool {
				t.putTx(do, t.msg("never"))
				return false
			})
			t.put(t.msg("last"))
			t.scanAll(next, 10, "open", "after", "last")
		}},
	{Text: "One process scans and removes what another one appended.",
		Name: "ResultsAreShared", Needs: needs(store.CanProcesses), Test: func(t *T) {
			t.unordered()
			t.put(t.msg("a"))
			next := t.scanAll(0, 10, "a")
			peer := t.peer()
			peer.put(t.msg("b"))
			peer.removeResults(t.scanAll(next, 10, "b"), 2)
			t.scanAll(0, 10)
		}},
}

func (t *T) results() store.Results { return optional[store.Results](t) }

func (t *T) scan(after int64, limit int) ([]store.Result, int64) {
	results, next, err := t.results().ScanResults(t.ctx(), t.Topic, after, limit)
	t.must(err)
	last := after
	for _, r := range results {
		t.check(r.Topic == t.Topic && r.Cursor > last && !r.EnqueuedAt.IsZero(), "result %+v behind cursor %d", r, last)
		last = r.Cursor
	}
	t.check(next >= last && len(results) <= limit, "%d results up to %d; the next cursor is %d", len(results), last,
		next)
	return results, next
}

// scanAll scans until there are no more for now; a store may need a moment to see
// what was just committed.
func (t *T) scanAll(after int64, limit int, want ...string) (next int64) {
	got := []string{}
	t.eventually(fmt.Sprintf("there are %d results", len(want)), func() bool {
		for {
			results, cursor := t.scan(after, limit)
			if len(results) == 0 {
				return len(got) >= len(want)
			}
			for _, r := range results {
				got = append(got, string(r.Body))
			}
			after = cursor
		}
	})
	t.check(slices.Equal(got, append([]string{}, want...)), "results %q; want %q", got, want)
	_, next = t.scan(after, limit)
	return next
}

func (t *T) removeResults(upTo int64, want int64) {
	removed, err := t.results().RemoveResults(t.ctx(), t.Topic, upTo)
	t.must(err)
	t.check(removed == want, "%d results were removed up to %d; want %d", removed, upTo, want)
}

// claimsOf claims everything of another topic.
func (t *T) claimsOf(topic string, want ...string) {
	t.wantBodies(t.claimWith(store.Lease{For: lease}, store.Want{Topic: topic, Limit: 100}), want...)
}

// oneReader: who scans while several append gets every message once, and never
// goes past one that comes later.
func oneReader(t *T) {
	const workers, each = 5, 120
	t.unordered()
	var written atomic.Int32
	seen, next := map[string]int{}, int64(0)
	look := func(t *T) {
		results, cursor := t.scan(next, 50)
		for _, r := range results {
			seen[r.ID]++
		}
		next = cursor
	}
	t.together(workers+1, func(i int, t *T) {
		if i < workers {
			defer written.Add(1)
			for range each {
				t.put(t.msg("m"), t.msg("n"))
			}
			return
		}
		for written.Load() < workers {
			look(t)
		}
	})
	t.eventually("everything was seen", func() bool {
		look(t)
		return len(seen) == 2*workers*each
	})
	for id, n := range seen {
		t.check(n == 1, "message %s was seen %d times", id, n)
	}
}
