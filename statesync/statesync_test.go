package statesync

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// over runs a test over all stores that keep a state.
func over(t *testing.T, test func(t *testing.T, s store.Store)) {
	t.Run("memory", func(t *testing.T) {
		s := memory.New(memory.Config{})
		t.Cleanup(func() { _ = s.Close() })
		test(t, s)
	})
	t.Run("sqlite", func(t *testing.T) {
		s, err := sqlite.Open(t.Context(), sqlite.Config{Path: t.TempDir() + "/pawl.db"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		test(t, s)
	})
	for name, open := range servers {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func topic[T any](t *testing.T, s store.Store, c Config) *Topic[T] {
	t.Helper()
	c.Every = 10 * time.Millisecond
	made, err := New[T](s, "flags", c)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func must[T any](t *testing.T, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestAgainstModel does what it likes, and compares with a map.
func TestAgainstModel(t *testing.T) {
	over(t, func(t *testing.T, s store.Store) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r, ctx := rand.New(rand.NewPCG(seed, 0)), t.Context()
		flags := topic[int](t, s, Config{Writer: "w", Schema: "1"})
		type version struct {
			value   int
			version int64
			deleted bool
		}
		model := map[string][]version{}
		newest := func(key string) (v version) {
			if all := model[key]; len(all) > 0 {
				v = all[len(all)-1]
			}
			return v
		}
		for range 150 {
			key := []string{"a", "a/b", "b"}[r.IntN(3)]
			was := newest(key)
			have := was.version
			if was.deleted {
				have = 0
			}
			want := []int64{AnyVersion, have, have + 1, 0}[r.IntN(4)]
			fits := want == AnyVersion || want == have
			value, del := r.IntN(100), r.IntN(4) == 0
			var v Value[int]
			var err error
			if del {
				v, err = flags.Delete(ctx, key, want)
			} else {
				v, err = flags.Put(ctx, key, value, want)
			}
			switch {
			case !fits && !errors.Is(err, store.ErrConflict):
				t.Fatalf("version %d of %d: %v", want, have, err)
			case fits && del && have == 0 && !errors.Is(err, store.ErrNotFound):
				t.Fatalf("nothing is removed: %v", err)
			case fits && !(del && have == 0):
				must(t, v, err)
				if v.Version <= was.version || v.Writer != "w" || v.Schema != "1" || v.Deleted != del || v.Key != key {
					t.Fatalf("%+v after version %d", v, was.version)
				}
				model[key] = append(model[key], version{v.Value, v.Version, del})
				if !del && v.Value != value {
					t.Fatalf("%d, not %d", v.Value, value)
				}
			}
			got, err := flags.Get(ctx, key)
			if now := newest(key); now.deleted || now.version == 0 {
				if !errors.Is(err, store.ErrNotFound) {
					t.Fatalf("get %s: %v", key, err)
				}
			} else if must(t, got, err).Value != now.value || got.Version != now.version {
				t.Fatalf("get %s: %+v, want %+v", key, got, now)
			}
		}
		there := 0
		for key, all := range model {
			if !newest(key).deleted {
				there++
			}
			past := must2(flags.History(ctx, key))(t)
			if len(past) != len(all) {
				t.Fatalf("%s has %d versions, want %d", key, len(past), len(all))
			}
			for i, v := range past {
				want := all[len(all)-1-i]
				if v.Version != want.version || v.Deleted != want.deleted || v.Value != want.value {
					t.Errorf("history of %s: %+v, want %+v", key, v, want)
				}
			}
		}
		if all := must2(flags.List(ctx, ""))(t); len(all) != there {
			t.Errorf("%d values, want %d", len(all), there)
		}
	})
}

func must2[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T { t.Helper(); return must(t, v, err) }
}

// TestWritersAndWatchers: every watcher ends at the same value, versions never fall, the history is complete.
func TestWritersAndWatchers(t *testing.T) {
	over(t, func(t *testing.T, s store.Store) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		const writers, each, watchers = 8, 10, 8
		var writing, watching sync.WaitGroup
		ends := make([]Value[int], watchers)
		for n := range watchers {
			flags := topic[int](t, s, Config{Refresh: 50 * time.Millisecond})
			watching.Go(func() {
				told, skipped := int64(0), int64(0)
				for v := range flags.Watch(ctx, "") {
					if v.Version <= ends[n].Version {
						t.Errorf("version %d after %d", v.Version, ends[n].Version)
					}
					if ends[n] = v; told > 0 {
						skipped += v.Skipped
					}
					if told++; v.Value == -1 {
						return
					}
				}
				t.Error("the last value was not seen")
			})
		}
		for w := range writers {
			flags := topic[int](t, s, Config{})
			writing.Go(func() {
				for n := range each {
					must(t, Value[int]{}, errOf(flags.Put(ctx, "k", w*each+n, AnyVersion)))
				}
			})
		}
		writing.Wait()
		flags := topic[int](t, s, Config{})
		before := must2(flags.Get(ctx, "k"))(t)
		if _, err := flags.Put(ctx, "k", 7, before.Version-1); !errors.Is(err, store.ErrConflict) {
			t.Errorf("a stale writer: %v", err)
		}
		last := must2(flags.Put(ctx, "k", -1, before.Version))(t)
		watching.Wait()
		for n, end := range ends {
			if end.Version != last.Version {
				t.Errorf("watcher %d ends at %+v", n, end)
			}
		}
		past := must2(flags.History(ctx, "k"))(t)
		values := map[int]bool{}
		for i, v := range past {
			values[v.Value] = true
			if i > 0 && v.Version >= past[i-1].Version {
				t.Errorf("version %d below %d", v.Version, past[i-1].Version)
			}
		}
		if len(past) != writers*each+1 || len(values) != len(past) {
			t.Errorf("%d versions with %d values", len(past), len(values))
		}
	})
}

func errOf(_ any, err error) error { return err }

// TestPoison: what cannot be decoded is ignored, by readers and watchers, and can be replaced.
func TestPoison(t *testing.T) {
	over(t, func(t *testing.T, s store.Store) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		texts, numbers := topic[string](t, s, Config{}), topic[int](t, s, Config{})
		good := must2(numbers.Put(ctx, "k", 1, 0))(t)
		must2(texts.Put(ctx, "k", "poison", AnyVersion))(t)
		must2(numbers.entries.PutState(ctx, numbers.key("k"), []byte("no JSON"), AnyVersion, "x"))(t)
		if v := must2(numbers.Get(ctx, "k"))(t); v.Value != 1 || v.Version != good.Version {
			t.Errorf("the state is %+v", v)
		}
		if all := must2(numbers.List(ctx, ""))(t); len(all) != 1 || all[0].Value != 1 {
			t.Errorf("the list is %+v", all)
		}
		for v := range numbers.Watch(ctx, "") {
			if v.Version != good.Version || v.Value != 1 {
				t.Errorf("the watch begins with %+v", v)
			}
			break
		}
		next := must2(numbers.Put(ctx, "k", 2, good.Version))(t)
		for v := range numbers.Watch(ctx, "") {
			if v.Version != next.Version || v.Value != 2 {
				t.Errorf("the watch has %+v", v)
			}
			break
		}
		if f := numbers.Figures(); f.Poisoned == 0 {
			t.Error("poison is not counted")
		}
		if past := must2(numbers.History(ctx, "k"))(t); len(past) != 2 {
			t.Errorf("the history is %+v", past)
		}
		// The same poison is archived as the same version, whoever does it, and however late.
		e := must2(numbers.entries.PutState(ctx, numbers.key("k"), []byte("no JSON"), AnyVersion, "x"))(t)
		_, _, n, err := numbers.current(ctx, "k")
		must(t, 0, err)
		must(t, 0, numbers.archive(ctx, "k", n, &e))
		_, _, again, err := numbers.current(ctx, "k")
		if must(t, 0, err); n != again {
			t.Errorf("poison is version %d, and %d once that is archived", n, again)
		}
		next = must2(numbers.Put(ctx, "k", 2, next.Version))(t)
		// What was right is not lost with the entry that something else writes over.
		must2(numbers.entries.PutState(ctx, numbers.key("k"), []byte("no JSON"), AnyVersion, "x"))(t)
		if v := must2(numbers.Get(ctx, "k"))(t); v.Value != 2 || v.Version != next.Version {
			t.Errorf("the state is %+v", v)
		}
		must2(numbers.Put(ctx, "k", 3, next.Version))(t)
		if past := must2(numbers.History(ctx, "k"))(t); len(past) != 4 || past[1].Version != next.Version {
			t.Errorf("the history is %+v", past)
		}
	})
}

// TestAnyOrder: entries that are read in any order, and again, have one result; older ones count with AllowRollback.
func TestAnyOrder(t *testing.T) {
	s := memory.New(memory.Config{})
	flags := topic[int](t, s, Config{})
	var entries []store.Entry
	for n := range 6 {
		must2(flags.Put(t.Context(), "k", n, AnyVersion))(t)
		e, err := flags.entries.GetState(t.Context(), flags.key("k"))
		entries = append(entries, must(t, e, err))
	}
	for range 200 {
		v := view[int]{topic: flags, known: map[string]seen{}}
		end := -1
		all := append(append([]store.Entry{}, entries...), entries...)
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for i := range all {
			if value, ok := v.take(&all[i]); ok {
				if value.Value <= end {
					t.Fatalf("%d after %d", value.Value, end)
				}
				end = value.Value
			}
		}
		if end != 5 {
			t.Fatalf("ends at %d", end)
		}
	}
	if flags.Figures().Stale == 0 {
		t.Error("stale versions are not counted")
	}
	flags = topic[int](t, s, Config{AllowRollback: true})
	v := view[int]{topic: flags, known: map[string]seen{}}
	v.take(&entries[5])
	if value, ok := v.take(&entries[2]); !ok || value.Value != 2 || flags.Figures().Rollbacks != 1 {
		t.Errorf("a rollback: %+v %v", value, flags.Figures())
	}
	if value, ok := v.take(&entries[5]); !ok || value.Skipped != 2 {
		t.Errorf("%+v", value)
	}
}

// TestHistoryIsKept: a thousand versions of a key, and not all.
func TestHistoryIsKept(t *testing.T) {
	s := memory.New(memory.Config{})
	flags := topic[int](t, s, Config{})
	for n := range keepPast + 50 {
		must2(flags.Put(t.Context(), "k", n, AnyVersion))(t)
	}
	if past := must2(flags.History(t.Context(), "k"))(t); len(past) != keepPast || past[0].Value != keepPast+49 {
		t.Errorf("%d versions, the newest is %+v", len(past), past[0])
	}
}

func TestRefused(t *testing.T) {
	s := memory.New(memory.Config{})
	flags := topic[string](t, s, Config{})
	for _, err := range []error{
		errOf(flags.Put(t.Context(), "", "", 0)), errOf(flags.Put(t.Context(), "a b", "", 0)),
		errOf(flags.Put(t.Context(), "a", "", -2)),
		errOf(flags.Put(t.Context(), "a", strings.Repeat("x", store.MaxStateValue), 0)),
		errOf(New[int](s, "a/b", Config{})),
		errOf(New[int](s, "a", Config{Every: -1})), errOf(New[int](s, "a", Config{Refresh: -1})),
	} {
		if err == nil || errors.Is(err, store.ErrConflict) {
			t.Errorf("not refused: %v", err)
		}
	}
}
