package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/store"
)

var stateSentences = []Sentence{
	{Text: "What PutState stored, GetState returns: value, version, writer and time; ErrNotFound for a key without an entry.",
		Name: "StateIsKept", Test: func(t *T) {
			t.wantErr(errOf(t.entries().GetState(t.ctx(), "none")), store.ErrNotFound)
			hostile := []string{"a", "A", "a/b", "%_'\"\\", "é 漢", "\xef\xbf\xbf", strings.Repeat("k", store.MaxStateKey)}
			for _, key := range hostile {
				put, err := t.entries().PutState(t.ctx(), key, []byte("v\x00\xff"+key), 0, "w\xff\x00")
				t.must(err)
				t.check(put.Writer == store.Text("w\xff\x00") && put.Version >= 1 && !put.At.IsZero(), "put %+v", put)
				got := t.entry(key)
				t.wantEntry(got, key, "v\x00\xff"+key, put.Version)
				t.check(got.Writer == put.Writer && got.At.Equal(put.At), "got %+v; put %+v", got, put)
			}
			large := strings.Repeat("x", store.MaxStateValue)
			t.wantEntry(t.putState("a", large), "a", large, t.entry("a").Version)
			t.wantEntry(t.putState("a", ""), "a", "", t.entry("a").Version)
			t.wantEntry(t.entry("A"), "A", "v\x00\xffA", t.entry("A").Version)
		}},
	{Text: "PutState and DeleteState change an entry of the version that they name and no other: ErrConflict.",
		Name: "StateComparesVersions", Test: func(t *T) {
			put := func(version int64, value string) (store.Entry, error) {
				return t.entries().PutState(t.ctx(), "k", []byte(value), version, "w")
			}
			t.wantErr(errOf(put(7, "not there")), store.ErrConflict)
			first, err := put(0, "first")
			t.must(err)
			for _, version := range []int64{0, first.Version - 1, first.Version + 1} {
				if version == first.Version {
					continue
				}
				t.wantErr(errOf(put(version, "stale")), store.ErrConflict)
				t.wantErr(t.entries().DeleteState(t.ctx(), "k", version), store.ErrConflict)
			}
			t.wantEntry(t.entry("k"), "k", "first", first.Version)
			second, err := put(first.Version, "second")
			t.must(err)
			t.wantErr(errOf(put(first.Version, "late")), store.ErrConflict)
			third, err := put(store.AnyVersion, "third")
			t.must(err)
			t.check(second.Version > first.Version && third.Version > second.Version, "versions %d, %d, %d",
				first.Version, second.Version, third.Version)
			t.wantEntry(t.entry("k"), "k", "third", third.Version)
		}},
	{Text: "Every change of the state takes a version above all before it, whatever its key.",
		Name: "StateVersionsGrow", Test: func(t *T) {
			last := int64(0)
			grown := func(e store.Entry) {
				t.check(e.Version > last, "version %d of %q after version %d", e.Version, e.Key, last)
				last = e.Version
			}
			for _, key := range []string{"b", "a", "c", "a", "a", "b"} {
				grown(t.putState(key, key))
			}
			t.must(t.entries().DeleteState(t.ctx(), "a", store.AnyVersion))
			grown(t.putState("a", "again"))
			t.must(t.entries().DeleteState(t.ctx(), "a", last))
			t.must(t.entries().DeleteState(t.ctx(), "b", store.AnyVersion))
			t.must(t.entries().DeleteState(t.ctx(), "c", store.AnyVersion))
			grown(t.putState("c", "alone"))
		}},
	{Text: "DeleteState removes an entry; ErrNotFound if there is none, and the key can be put as a new one.",
		Name: "StateDeletes", Test: func(t *T) {
			e := t.putState("k", "v")
			t.putState("l", "w")
			t.must(t.entries().DeleteState(t.ctx(), "k", e.Version))
			t.wantErr(errOf(t.entries().GetState(t.ctx(), "k")), store.ErrNotFound)
			for _, version := range []int64{store.AnyVersion, 0, e.Version} {
				t.wantErr(t.entries().DeleteState(t.ctx(), "k", version), store.ErrNotFound)
			}
			t.wantKeys("", 0, "l")
			t.must(errOf(t.entries().PutState(t.ctx(), "k", nil, 0, "w")))
			t.wantKeys("", 0, "l", "k")
		}},
	{Text: "ListState selects by the prefix of the key as it stands, by version, every one once while nothing changes.",
		Name: "StateListsByPrefix", Test: func(t *T) {
			t.wantKeys("", 0)
			keys := []string{"op/9", "op/1", "op", "oq/1", "op%1", "op_1", "OP/1", "opé/1", "op/\uffff"}
			for _, key := range keys {
				t.putState(key, "v")
			}
			t.wantKeys("", 0, keys...)
			t.wantKeys("op/", 0, "op/9", "op/1", "op/\uffff")
			t.wantKeys("op%", 0, "op%1")
			t.wantKeys("op_", 0, "op_1")
			t.wantKeys("o_", 0)
			t.wantKeys("%", 0)
			t.wantKeys("opé", 0, "opé/1")
			t.wantKeys("op/1x", 0)
			t.putState("op/9", "later")
			t.wantKeys("op/", 0, "op/1", "op/\uffff", "op/9")
			for _, err := range t.entries().ListState(t.ctx(), "", 0) {
				t.must(err)
				break // a caller may have enough
			}
			const many = 450
			want := make([]string, many)
			for i := range many {
				want[i] = "many/" + strconv.Itoa(i)
				t.putState(want[i], "v")
			}
			t.wantKeys("many/", 0, want...)
		}},
	{Text: "ListState after a version yields what was put since, and nothing else.",
		Name: "StateListsWhatIsNew", Test: func(t *T) {
			a, b := t.putState("a", "1"), t.putState("b", "1")
			t.wantKeys("", a.Version, "b")
			t.wantKeys("", b.Version)
			t.putState("a", "2")
			t.must(t.entries().DeleteState(t.ctx(), "b", store.AnyVersion))
			c := t.putState("c", "1")
			t.wantKeys("", b.Version, "a", "c")
			t.wantKeys("c", b.Version, "c")
			t.wantKeys("", c.Version)
		}},
	{Text: "LatestState yields what ListState does, the highest version first, below a version or all of it.",
		Name: "StateListsTheLatest", Test: func(t *T) {
			t.wantLatest("", 0)
			const many = 250
			var want []string
			versions := map[string]int64{}
			for i := range many {
				key := "many/" + strconv.Itoa(i)
				want = slices.Insert(want, 0, key)
				versions[key] = t.putState(key, "v").Version
				t.putState("other/"+strconv.Itoa(i), "v")
			}
			t.wantLatest("many/", 0, want...)
			t.wantLatest("many/", versions["many/200"], want[many-200:]...)
			t.wantLatest("many/", versions["many/0"])
			t.must(t.entries().DeleteState(t.ctx(), "many/2", store.AnyVersion))
			t.putState("many/0", "later")
			t.wantLatest("many/", versions["many/4"], "many/3", "many/1")
			for e, err := range t.entries().LatestState(t.ctx(), "many/", 0) {
				t.must(err)
				t.wantEntry(e, "many/0", "later", e.Version)
				break // a caller may have enough
			}
		}},
	{Text: "A key or value beyond the limits is refused before any I/O.",
		Name: "StateRefusesWhatNoStoreTakes", Test: func(t *T) {
			for _, key := range []string{"", strings.Repeat("k", store.MaxStateKey+1), "a\x00", "a\xff"} {
				t.invalid(errOf(t.entries().PutState(t.ctx(), key, nil, 0, "w")))
				t.invalid(errOf(t.entries().GetState(t.ctx(), key)))
				t.invalid(t.entries().DeleteState(t.ctx(), key, 0))
			}
			t.invalid(errOf(t.entries().PutState(t.ctx(), "k", make([]byte, store.MaxStateValue+1), 0, "w")))
			t.invalid(errOf(t.entries().PutState(t.ctx(), "k", nil, -2, "w")))
			t.invalid(t.entries().DeleteState(t.ctx(), "k", -2))
			t.wantKeys("", 0)
		}},
	{Text: "What a caller does to its value afterwards changes nothing in the store.",
		Name: "StateIsTheCallers", Test: func(t *T) {
			value := []byte("before")
			e, err := t.entries().PutState(t.ctx(), "k", value, 0, "w")
			t.must(err)
			copy(value, "AFTER!")
			copy(e.Value, "AFTER!")
			copy(t.entry("k").Value, "AFTER!")
			t.wantEntry(t.entry("k"), "k", "before", e.Version)
		}},
	{Text: "Clock is the store's clock, and so is the time of an entry.",
		Name: "StateHasTheStoresClock", Test: func(t *T) {
			before := t.storeClock()
			t.Advance(time.Hour)
			e := t.putState("k", "v")
			after := t.storeClock()
			t.near("what the clock moved", after.Sub(before), time.Hour)
			t.check(!e.At.Before(before) && !e.At.After(after.Add(time.Millisecond)), "put at %v, between %v and %v",
				e.At, before, after)
		}},
	{Text: "What one process put, another one sees at once.",
		Name: "StateIsShared", Needs: needs(store.CanProcesses), Test: func(t *T) {
			peer := t.peer()
			e := t.putState("k", "v")
			t.wantEntry(peer.entry("k"), "k", "v", e.Version)
			got, err := peer.entries().PutState(t.ctx(), "k", []byte("w"), e.Version, "peer")
			t.must(err)
			t.wantEntry(t.entry("k"), "k", "w", got.Version)
			t.wantErr(errOf(t.entries().PutState(t.ctx(), "k", nil, e.Version, "late")), store.ErrConflict)
		}},
	{Text: "The state is there when the store is opened again.",
		Name: "StateSurvives", Needs: needs(store.CanSurvive), Test: func(t *T) {
			e := t.putState("k", "v")
			t.Store = t.Reopen(t)
			t.wantEntry(t.entry("k"), "k", "v", e.Version)
			later := t.putState("l", "")
			t.check(later.Version > e.Version, "version %d after %d", later.Version, e.Version)
		}},
}

func (t *T) entries() store.Shared { return optional[store.Shared](t) }

// putState puts a value, whatever is there.
func (t *T) putState(key, value string) store.Entry {
	e, err := t.entries().PutState(t.ctx(), key, []byte(value), store.AnyVersion, "writer")
	t.must(err)
	return e
}

func (t *T) wantEntry(got store.Entry, key, value string, version int64) {
	t.check(got.Key == key && string(got.Value) == value && got.Version == version,
		"entry %+v; want %q = %q at version %d", got, key, value, version)
}

func (t *T) entry(key string) store.Entry {
	e, err := t.entries().GetState(t.ctx(), key)
	t.must(err)
	return e
}

// wantErr fails unless err is want; of says what was tried, if its error does not.
func (t *T) wantErr(err, want error, of ...any) {
	if !errors.Is(err, want) {
		t.Fatalf("%serror %v; want %v", fmt.Sprint(of...), err, want)
	}
}

// stateKeys are the keys that ListState yields.
func (t *T) stateKeys(prefix string, after int64) []string {
	keys := []string{}
	for e, err := range t.entries().ListState(t.ctx(), prefix, after) {
		t.must(err)
		keys = append(keys, e.Key)
	}
	return keys
}

// wantLatest is wantKeys of LatestState.
func (t *T) wantLatest(prefix string, before int64, want ...string) {
	got := []string{}
	for e, err := range t.entries().LatestState(t.ctx(), prefix, before) {
		t.must(err)
		got = append(got, e.Key)
	}
	t.check(slices.Equal(got, append([]string{}, want...)), "prefix %q before %d: %q; want %q", prefix, before, got,
		want)
}

func (t *T) wantKeys(prefix string, after int64, want ...string) {
	got := t.stateKeys(prefix, after)
	t.check(slices.Equal(got, append([]string{}, want...)), "prefix %q after %d: %q; want %q", prefix, after, got, want)
}

func (t *T) storeClock() time.Time {
	now, err := t.entries().Clock(t.ctx())
	t.must(err)
	return now
}

// oneCounter: several count in one entry by comparing versions. No step is lost, and a
// watcher sees the last one.
func oneCounter(t *T) {
	const workers, steps = 6, 15
	seen, watched := int64(0), "0"
	watch := func(t *T) {
		for e, err := range t.entries().ListState(t.ctx(), "", seen) {
			t.must(err)
			t.check(e.Version > seen, "version %d after %d", e.Version, seen)
			if seen = e.Version; e.Key == "counter" {
				watched = string(e.Value)
			}
		}
	}
	t.together(workers, func(i int, t *T) {
		for range steps {
			t.putState("noise/"+strconv.Itoa(i), "")
			t.countOne()
			if i == 0 {
				watch(t)
			}
		}
	})
	watch(t)
	got, want := string(t.entry("counter").Value), strconv.Itoa(workers*steps)
	t.check(watched == want && got == want, "counted %s, watched %s; want %s", got, watched, want)
}

// countOne adds one to the counter, however often others are quicker.
func (t *T) countOne() {
	for {
		e, err := t.entries().GetState(t.ctx(), "counter")
		if !errors.Is(err, store.ErrNotFound) {
			t.must(err)
		}
		n, _ := strconv.Atoi(string(e.Value)) // none is 0
		_, err = t.entries().PutState(t.ctx(), "counter", fmt.Append(nil, n+1), e.Version, "w")
		if !errors.Is(err, store.ErrConflict) {
			t.must(err)
			return
		}
	}
}
