package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

var markSentences = []Sentence{
	{Text: "What PutMarks wrote, GetMarks returns: scope, key, value, version and expiry, whatever bytes they hold; what is not there is left out.",
		Name: "MarksAreKept", Test: func(t *T) {
			t.noMark("a")
			hostile := []string{"a", "A", "a/b", "%_'\"\\", "é 漢", "\x00", "\xff\xfe", "a\x00b",
				strings.Repeat("\xf0", pawl.MaxKey)}
			want, versions := map[string]string{}, map[int64]bool{}
			for _, scope := range []string{"s", "S", "\x00\xff", strings.Repeat("s", pawl.MaxKey)} {
				var marks []pawl.Mark
				for _, key := range hostile {
					want[key] = "v\x00\xff" + key
					marks = append(marks, pawl.Mark{Scope: scope, Key: key, Value: []byte(want[key])})
				}
				marks[0].For = time.Hour
				for _, v := range t.putMarks(marks...) {
					t.check(!versions[v], "version %d is given twice", v)
					versions[v] = true
				}
				found := t.wantMarks(scope, want, append(hostile, "none", "a")...)
				for key, m := range found {
					t.check(versions[m.Version] && m.Until.IsZero() == (key != "a"), "mark %+v", m)
				}
			}
			t.putMarks(mark("empty", ""))
			t.wantMark("empty", "")
			t.must(errOf(t.marks().PutMarks(t.ctx())))
			t.wantMarks("scope", nil)

			many, keys := map[string]string{}, []string{"none", "empty"}
			var marks []pawl.Mark
			for i := range 250 { // a store may look for them part by part
				key := fmt.Sprint("many ", i)
				many[key] = fmt.Sprint(i)
				marks, keys = append(marks, mark(key, many[key])), append(keys, key)
			}
			t.putMarks(marks...)
			many["empty"] = ""
			t.wantMarks("scope", many, append(keys, "many 0")...)
		}},
	{Text: "A mark with If 0 is written if there is none of its key, and else not: the first writer wins.",
		Name: "FirstMarkWins", Test: func(t *T) {
			version := t.putMarks(mark("k", "first"))[0]
			receipts := t.tryMarks(mark("k", "second"), mark("l", "first"))
			t.check(receipts[0] == (store.MarkReceipt{}) && receipts[1].Put, "receipts %+v; want the first not written",
				receipts)
			m := t.wantMark("k", "first")
			t.check(m.Version == version, "version %d; want %d", m.Version, version)
			other := mark("k", "other")
			other.Scope = "scope2"
			t.putMarks(other)
			t.wantMark("k", "first")
		}},
	{Text: "A mark with a version as If is written or removed only where that version is; with AnyVersion whatever is there.",
		Name: "MarksCompareVersions", Test: func(t *T) {
			with := func(value string, version int64) pawl.Mark { return markIf("k", value, version) }
			without := func(version int64) pawl.Mark {
				m := with("", version)
				m.Remove = true
				return m
			}
			t.notPut(with("not there", 7))
			t.notPut(without(7))
			t.notPut(without(store.AnyVersion))
			first := t.putMarks(with("first", store.AnyVersion))[0]
			second := t.putMarks(with("second", first))[0]
			t.notPut(with("stale", first))
			t.notPut(without(first))
			third := t.putMarks(with("third", store.AnyVersion))[0]
			t.notPut(with("stale", second))
			if m := t.wantMark("k", "third"); m.Version != third || first == second || second == third || first == third {
				t.Fatalf("versions %d, %d, %d, and %+v", first, second, third, m)
			}
			t.putMarks(mark("l", "stays"))
			t.putMarks(without(third))
			t.noMark("k")
			t.notPut(with("gone", third))
			t.putMarks(mark("k", "anew"))
			t.putMarks(without(store.AnyVersion))
			t.noMark("k")
			t.wantMark("l", "stays")
		}},
	{Text: "A mark that has expired counts as not there: for reading, for listing, for the first writer and for versions.",
		Name: "MarksExpire", Test: func(t *T) {
			short, long := mark("short", "v"), mark("long", "v")
			short.For, long.For = 10*time.Minute, 30*time.Minute
			versions := t.putMarks(short, long, mark("ever", "v"))
			until := t.wantMark("short", "v").Until
			t.check(!until.IsZero(), "a mark that is kept for ten minutes does not say until when")
			t.Advance(5 * time.Minute)
			t.wantMark("short", "v")
			t.notPut(short)
			t.Advance(6 * time.Minute)
			t.noMark("short")
			t.wantListed("scope", "", "ever", "long")
			swap := markIf("short", "v", versions[0])
			t.notPut(swap)
			swap.Remove = true
			t.notPut(swap)
			t.putMarks(mark("short", "anew"))
			swap = long
			swap.If, swap.For, swap.Value = versions[1], 0, []byte("for ever")
			t.putMarks(swap)
			t.Advance(time.Hour)
			t.wantMark("short", "anew")
			t.wantMark("long", "for ever")
			t.wantMark("ever", "v")
		}},
	{Text: "A mark that no store takes is refused with an InvalidError, so is the second of a key in one call; the others are written.",
		Name: "MarksAreRefusedOneByOne", Test: func(t *T) {
			bad := []pawl.Mark{
				{Key: "k"}, {Scope: "scope"}, mark(strings.Repeat("k", pawl.MaxKey+1), ""),
				{Scope: strings.Repeat("s", pawl.MaxKey+1), Key: "k"}, mark("k", strings.Repeat("v", pawl.MaxMark+1)),
				{Scope: "scope", Key: "k", For: -1}, {Scope: "scope", Key: "k", For: pawl.MaxDelay + 1},
				{Scope: "scope", Key: "k", If: -2}, {Scope: "scope", Key: "k", Remove: true},
			}
			receipts := t.tryMarks(append(bad, mark("good", "v"), mark("good", "w"))...)
			for i, r := range receipts {
				good := i == len(bad)
				t.check(good == r.Put && good == (r.Err == nil) && good == (r.Version > 0), "mark %d: %+v", i, r)
				if r.Err != nil {
					t.invalid(r.Err)
				}
			}
			t.wantMark("good", "v")
			t.wantListed("scope", "", "good")
			t.invalid(errOf(t.marks().GetMarks(t.ctx(), "", "k")))
			t.invalid(t.marks().Forget(t.ctx(), ""))
			for _, err := range t.marks().ListMarks(t.ctx(), "", "") {
				t.invalid(err)
			}
		}},
	{Text: "Calls beyond the limits of a batch are ErrTooLarge.",
		Name: "MarksBeyondTheLimits", Test: func(t *T) {
			t.wantErr(errOf(t.marks().PutMarks(t.ctx(), make([]pawl.Mark, store.MaxBatch+1)...)), store.ErrTooLarge)
			t.wantErr(errOf(t.marks().GetMarks(t.ctx(), "scope", make([]string, store.MaxBatch+1)...)),
				store.ErrTooLarge)
			value, many := make([]byte, pawl.MaxMark), []pawl.Mark{}
			for i := range store.MaxBatchBytes/pawl.MaxMark + 1 {
				many = append(many, pawl.Mark{Scope: "scope", Key: fmt.Sprint(i), Value: value})
			}
			t.wantErr(errOf(t.marks().PutMarks(t.ctx(), many...)), store.ErrTooLarge)
			t.wantListed("scope", "")
		}},
	{Text: "What a caller does to a mark's value afterwards changes nothing in the store.",
		Name: "MarksAreTheCallers", Test: func(t *T) {
			m := mark("k", "before")
			t.putMarks(m)
			copy(m.Value, "AFTER!")
			copy(t.wantMark("k", "before").Value, "AFTER!")
			for m, err := range t.marks().ListMarks(t.ctx(), "scope", "") {
				t.must(err)
				copy(m.Value, "AFTER!")
			}
			t.wantMark("k", "before")
		}},
	{Text: "ListMarks yields the marks of one scope by prefix, in the order of the bytes of their keys, every one once while nothing changes.",
		Name: "MarksListByKey", Test: func(t *T) {
			t.wantListed("scope", "")
			keys := []string{"op/9", "op/1", "op", "oq/1", "op%1", "op_1", "OP/1", "opé/1", "\xff", "\xff\xff",
				"\xffa", "\x00"}
			for _, key := range keys {
				t.putMarks(mark(key, "v"))
			}
			elsewhere := mark("op/5", "v")
			elsewhere.Scope = "scope/"
			t.putMarks(elsewhere)
			slices.Sort(keys)
			t.wantListed("scope", "", keys...)
			t.wantListed("scope", "op/", "op/1", "op/9")
			t.wantListed("scope", "op%", "op%1")
			t.wantListed("scope", "o_")
			t.wantListed("scope", "\xff", "\xff", "\xffa", "\xff\xff")
			t.wantListed("scope/", "", "op/5")
			for _, err := range t.marks().ListMarks(t.ctx(), "scope", "") {
				t.must(err)
				break // a caller may have enough
			}
			many := numbered("many/", 2500)
			t.putMarks(each(many, func(key string) pawl.Mark { return mark(key, "v") })...)
			slices.Sort(many)
			t.wantListed("scope", "many/", many...)
		}},
	{Text: "A value can have four megabytes, and a listing of many such reads in pages.",
		Name: "LargeMarks", Test: func(t *T) {
			value := bytes.Repeat([]byte("0123456789abcdef"), pawl.MaxMark/16)
			for i := range 5 {
				m := mark(fmt.Sprint("k", i), "")
				m.Value = slices.Concat(value[:len(value)-1], []byte{byte('0' + i)})
				t.putMarks(m)
			}
			n := 0
			for m, err := range t.marks().ListMarks(t.ctx(), "scope", "") {
				t.must(err)
				t.check(len(m.Value) == len(value) && m.Value[len(value)-1] == byte('0'+n) &&
					m.Key == fmt.Sprint("k", n), "mark %q has %d bytes", m.Key, len(m.Value))
				n++
			}
			t.check(n == 5, "%d marks; want 5", n)
		}},
	{Text: "Forget removes all marks of a scope and no others; the first writer wins anew.",
		Name: "ForgetRemovesAScope", Test: func(t *T) {
			t.must(t.marks().Forget(t.ctx(), "scope"))
			marks := each(numbered("", 2500), func(key string) pawl.Mark { return mark(key, "v") })
			t.putMarks(marks...)
			for _, scope := range []string{"scope2", "scop", "SCOPE"} {
				t.putMarks(pawl.Mark{Scope: scope, Key: "k"})
			}
			t.must(t.marks().Forget(t.ctx(), "scope"))
			t.wantListed("scope", "")
			t.noMark("0", "2499")
			for _, scope := range []string{"scope2", "scop", "SCOPE"} {
				t.wantListed(scope, "", "k")
			}
			t.putMarks(marks[0])
		}},
	{Text: "Forget frees the unique keys of messages that name the scope, also of those that are there, and no others.",
		Name: "ForgetFreesUniqueKeys", Needs: needs(store.CanUnique), Test: func(t *T) {
			unique := func(key, scope string, d time.Duration) pawl.Message {
				return t.unique(key, key, pawl.Unique{Scope: scope, For: d})
			}
			freed := []pawl.Message{unique("a", "scope", pawl.Forever), unique("b", "scope", time.Hour),
				unique("c", "scope", 0)}
			kept := []pawl.Message{
				unique("a", "scope2", pawl.Forever), unique("a", "scop", 0), unique("a", "", pawl.Forever),
				{Topic: "scope", Unique: pawl.Unique{Key: "a"}},
			}
			t.put(freed...)
			t.put(kept...)
			t.must(t.marks().Forget(t.ctx(), "scope"))
			for i, r := range t.append(append(kept, freed...)...) {
				taken := r.DuplicateOf != ""
				t.check(taken == (i < len(kept)), "message %d: %+v", i, r)
			}
			// The end of the message that had a key before frees nobody else's.
			for range len(freed) {
				t.ack(t.claim(1)...)
			}
			if r := t.append(freed[2])[0]; r.DuplicateOf == "" {
				t.Fatal("a message that had lost its key freed that of another")
			}
		}},
}

func (t *T) marks() store.Shared { return optional[store.Shared](t) }

// mark is one in the scope of the test.
func mark(key, value string) pawl.Mark {
	return pawl.Mark{Scope: "scope", Key: key, Value: []byte(value)}
}

// markIf is a mark that takes the place of that version.
func markIf(key, value string, version int64) pawl.Mark {
	m := mark(key, value)
	m.If = version
	return m
}

// putMarks writes marks, all of which must be taken, and returns their versions.
func (t *T) putMarks(marks ...pawl.Mark) (versions []int64) {
	for i, r := range t.tryMarks(marks...) {
		if r.Err != nil || !r.Put || (r.Version < 1) != marks[i].Remove {
			t.Fatalf("mark %q: %+v", marks[i].Key, r)
		}
		versions = append(versions, r.Version)
	}
	return versions
}

func (t *T) tryMarks(marks ...pawl.Mark) []store.MarkReceipt {
	receipts, err := t.marks().PutMarks(t.ctx(), marks...)
	t.must(err)
	t.check(len(receipts) == len(marks), "%d receipts for %d marks", len(receipts), len(marks))
	return receipts
}

// notPut tries marks that something else is in the way of.
func (t *T) notPut(marks ...pawl.Mark) {
	for i, r := range t.tryMarks(marks...) {
		if r != (store.MarkReceipt{}) {
			t.Fatalf("mark %q if %d: %+v; want it not written", marks[i].Key, marks[i].If, r)
		}
	}
}

func (t *T) wantMarks(scope string, want map[string]string, keys ...string) map[string]store.Marked {
	found, err := t.marks().GetMarks(t.ctx(), scope, keys...)
	t.must(err)
	t.check(len(found) == len(want), "%d marks of %q: %v; want %v", len(found), scope, found, want)
	for key, value := range want {
		m := found[key]
		t.check(m.Scope == scope && m.Key == key && string(m.Value) == value && m.Version >= 1,
			"mark %+v; want %q = %.40q", m, key, value)
	}
	return found
}

func (t *T) wantMark(key, value string) store.Marked {
	return t.wantMarks("scope", map[string]string{key: value}, key)[key]
}

func (t *T) noMark(keys ...string) {
	t.wantMarks("scope", nil, keys...)
}

// listed are the keys that ListMarks yields.
func (t *T) listed(scope, prefix string) (keys []string) {
	for m, err := range t.marks().ListMarks(t.ctx(), scope, prefix) {
		t.must(err)
		t.check(m.Scope == scope && m.Version >= 1, "listed %+v", m)
		keys = append(keys, m.Key)
	}
	return keys
}

func (t *T) wantListed(scope, prefix string, want ...string) {
	got := t.listed(scope, prefix)
	t.check(slices.Equal(got, want), "marks of %q with prefix %q: %q; want %q", scope, prefix, got, want)
}

// oneMarker: several mark the same keys at once, in different orders. Each key has one
// winner, and all agree which.
func oneMarker(t *T) {
	const workers, keys = 6, 200
	var won atomic.Int64
	t.together(workers, func(i int, t *T) {
		marks := each(numbered("", keys), func(key string) pawl.Mark { return mark(key, fmt.Sprint(i)) })
		if i%2 == 1 {
			slices.Reverse(marks)
		}
		for some := range slices.Chunk(marks, 20) {
			for _, r := range t.tryMarks(some...) {
				if r.Put {
					won.Add(1)
				}
			}
		}
	})
	got := len(t.listed("scope", ""))
	t.check(won.Load() == keys && got == keys, "%d marks of %d keys were won, %d are there", won.Load(), keys, got)
}
