//go:build linux

package crash

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// stateLine is a version of a value, as `pawl state` prints it.
type stateLine struct {
	Value   int
	Version int64
	at      time.Time // when it was read
}

// watcher is a process that prints the versions of a value.
type watcher struct {
	*family
	mu   sync.Mutex
	rest []byte
	seen []stateLine
}

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		w.rest = rest
		v := stateLine{at: time.Now()}
		if err := json.Unmarshal(line, &v); err != nil {
			return 0, err
		}
		w.seen = append(w.seen, v)
	}
}

func (w *watcher) versions() []stateLine {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

// TestStateOverKills: eight processes watch a value that eight others write, and each is killed now and then. Every
// watcher ends at the last value, versions never fall, a write that was confirmed is in the history once, and a change
// reaches a process within a second. With PAWL_BARS=1 it takes some minutes; else three processes watch and three
// write, and one of each is killed for certain.
func TestStateOverKills(t *testing.T) {
	besideUnless(t, strict(), 8)
	onEachStore(t, stateOverKills)
	t.Run("Kafka", func(t *testing.T) { stateOverKills(t, kafkaSite(t, "")) })
}

func stateOverKills(t *testing.T, s *site) {
	t.Parallel()
	r := seed(t)
	writers, watchers, each, every := 3, 3, 4, 500*time.Millisecond
	if strict() {
		writers, watchers, each, every = 8, 8, 100, time.Second
	}
	s.must(t, "state", "put", "flags", "k", "0")
	var all []*watcher
	now := make([]*watcher, watchers)
	watch := func(n int) {
		w := &watcher{}
		w.family = launch(t, s.env(), nil, w, "state", "watch", "flags", "k", "-o", "jsonl")
		all, now[n] = append(all, w), w
	}
	for n := range watchers {
		watch(n)
	}
	for _, w := range now {
		eventually(t, time.Minute, "a watch begins", func() bool { return len(w.versions()) > 0 })
	}

	var writing sync.WaitGroup
	var mu sync.Mutex
	var confirmed []stateLine
	for n := range writers {
		own := rand.New(rand.NewPCG(r.Uint64(), 0))
		writing.Go(func() {
			for i := range each {
				var out bytes.Buffer
				f := launch(t, s.env(), nil, &out, "state", "put", "flags", "k", strconv.Itoa(1+n*each+i), "-o", "json")
				if own.IntN(8) == 0 || n == 0 && i == 0 {
					time.Sleep(time.Duration(own.IntN(60)) * time.Millisecond)
					f.killAll()
				}
				<-f.exited
				v := stateLine{at: time.Now()}
				if f.cmd.ProcessState.Success() {
					if err := json.Unmarshal(out.Bytes(), &v); err != nil {
						t.Error(err)
					}
					mu.Lock()
					confirmed = append(confirmed, v)
					mu.Unlock()
				}
				time.Sleep(time.Duration(own.IntN(200)) * time.Millisecond)
			}
		})
	}
	written := make(chan struct{})
	go func() { writing.Wait(); close(written) }()
	for killed := 0; written != nil || killed == 0; {
		select {
		case <-written:
			written = nil
		case <-time.After(every):
			killed++
			n := r.IntN(watchers)
			now[n].killAll()
			<-now[n].exited
			watch(n)
		}
	}
	endsAlike(t, s, now)
	historyOf(t, s, confirmed)
	lagsOf(t, all, confirmed)
}

// endsAlike writes a last value, and waits until each watcher has it. A stale writer changes nothing.
func endsAlike(t *testing.T, s *site, now []*watcher) {
	t.Helper()
	var last stateLine
	text := s.must(t, "state", "put", "flags", "k", "1000000", "-o", "json").stdout
	if err := json.Unmarshal([]byte(text), &last); err != nil {
		t.Fatal(err)
	}
	if code := s.run(t, nil, "state", "put", "flags", "k", "7", "--if-version",
		strconv.FormatInt(last.Version-1, 10)).code; code != 5 {
		t.Errorf("a stale writer has exit code %d", code)
	}
	for _, w := range now {
		eventually(t, time.Minute, "each watcher ends at the last value", func() bool {
			seen := w.versions()
			return len(seen) > 0 && seen[len(seen)-1].Version == last.Version && seen[len(seen)-1].Value == 1_000_000
		})
	}
}

// historyOf compares the history with what was confirmed.
func historyOf(t *testing.T, s *site, confirmed []stateLine) {
	t.Helper()
	var past []stateLine
	text := s.must(t, "state", "history", "flags", "k", "-o", "json").stdout
	if err := json.Unmarshal([]byte(text), &past); err != nil {
		t.Fatal(err)
	}
	times := map[int]int{}
	for i, v := range past {
		times[v.Value]++
		if i > 0 && v.Version >= past[i-1].Version {
			t.Errorf("the history has version %d below %d", v.Version, past[i-1].Version)
		}
	}
	for value, n := range times {
		if n != 1 {
			t.Errorf("value %d is %d times in the history", value, n)
		}
	}
	for _, v := range confirmed {
		if times[v.Value] == 0 {
			t.Errorf("value %d was confirmed, and is not in the history", v.Value)
		}
	}
}

// lagsOf measures how long after its write was confirmed each watcher had a change, or a later one.
func lagsOf(t *testing.T, all []*watcher, confirmed []stateLine) {
	t.Helper()
	var lags []time.Duration
	for _, w := range all {
		seen := w.versions()
		for i := 1; i < len(seen); i++ {
			if seen[i].Version <= seen[i-1].Version {
				t.Errorf("a watcher has version %d after %d", seen[i].Version, seen[i-1].Version)
			}
		}
		for _, v := range confirmed {
			if len(seen) == 0 || seen[0].at.After(v.at) {
				continue // it was started later
			}
			i, _ := slices.BinarySearchFunc(seen, v.Version, func(a stateLine, n int64) int { return int(a.Version - n) })
			if i < len(seen) { // else it was killed before
				lags = append(lags, max(0, seen[i].at.Sub(v.at)))
			}
		}
	}
	if len(lags) == 0 {
		t.Fatal("no change reached a watcher")
	}
	slices.Sort(lags)
	p95, p99, longest := lags[len(lags)*95/100], lags[len(lags)*99/100], lags[len(lags)-1]
	t.Logf("%d writes were confirmed; %d changes reached a watcher: p95 %v, p99 %v, at most %v", len(confirmed),
		len(lags), p95, p99, longest)
	if p95 > bound(2*time.Second) || p99 > bound(time.Second) || longest > bound(10*time.Second) {
		t.Errorf("p95 %v, p99 %v, at most %v", p95, p99, longest)
	}
}
