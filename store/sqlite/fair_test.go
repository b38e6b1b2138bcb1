package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestProcessesShareTheFile: four workers and two producers on one file. Nothing
// is lost, nothing is acked twice, and nobody is starved.
func TestProcessesShareTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path})
	var workers, producers []*process
	for range 2 {
		producers = append(producers, start(t, "producer", path))
	}
	for range 4 {
		workers = append(workers, start(t, "worker", path))
	}
	all := slices.Concat(producers, workers)
	for _, p := range all {
		p.reported(t)
	}
	early := map[*process]int{} // calls that were made while others were still starting
	for _, p := range all {
		early[p] = len(p.facts)
	}
	time.Sleep(2 * time.Second) // what they do is the test
	appended, acked := map[string]bool{}, map[string]int{}
	var each []string
	count := func(p *process, get func(fact) []string) (calls int) {
		for i, f := range p.stop(t) {
			for _, id := range get(f) {
				appended[id] = appended[id] || len(f.Appended) > 0
				if len(f.Acked) > 0 {
					acked[id]++
				}
			}
			if i >= early[p] && len(get(f)) > 0 {
				calls++
			}
		}
		return calls
	}
	var calls [][]int
	for i, group := range [][]*process{producers, workers} {
		calls = append(calls, nil)
		for _, p := range group {
			n := count(p, func(f fact) []string { return append(f.Appended, f.Acked...) })
			calls[i] = append(calls[i], n)
			each = append(each, fmt.Sprint(n))
		}
	}
	t.Logf("calls of 2 producers and 4 workers: %v", each)
	for _, group := range calls {
		// A few calls say nothing: the machine is busy otherwise.
		if least, most := slices.Min(group), slices.Max(group); most > 50 && least*3 < most {
			t.Errorf("calls %v: somebody is starved", group)
		}
	}
	for ds := range claimAll(t, s, "work") {
		for i := range ds {
			acked[ds[i].ID]++
		}
	}
	wrong := 0
	for id := range appended {
		if acked[id] != 1 {
			wrong++
		}
	}
	if wrong > 0 || len(appended) == 0 || len(acked) != len(appended) {
		t.Errorf("%d appended, %d acked, %d of them not once", len(appended), len(acked), wrong)
	}
	intact(t, path)
}

// TestNobodyWaitsForTheGreedy: a handle that always has the next call ready does
// not keep another one from writing.
func TestNobodyWaitsForTheGreedy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	greedy, modest := open(t, Config{Path: path}), open(t, Config{Path: path})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = greedy.Append(ctx, store.NewBatch(make([]pawl.Message, 20)...))
				_, _ = greedy.Append(ctx, store.NewBatch(pawl.Message{Topic: "greedy"}))
			}
		})
	}
	var took []time.Duration
	for range 100 {
		began := time.Now()
		if _, err := modest.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "modest"})); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	cancel()
	wg.Wait()
	slices.Sort(took)
	t.Logf("half within %v, nine of ten within %v, all within %v", took[50], took[90], took[99])
	if took[90] > time.Second {
		t.Errorf("one of ten appends took more than %v", took[90])
	}
}

// TestPickupAcrossProcesses: a lone message that another process appended is
// claimed within milliseconds.
func TestPickupAcrossProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path})
	p := start(t, "listener", path)
	<-p.facts // it listens
	const lone = 100
	for range lone {
		time.Sleep(10 * time.Millisecond) // the message is to come alone
		body := []byte(time.Now().Format(time.RFC3339Nano))
		if _, err := s.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "work", Body: body})); err != nil {
			t.Fatal(err)
		}
	}
	var took []time.Duration
	for f := range p.facts {
		if took = append(took, f.Pickup); len(took) == lone {
			break
		}
	}
	p.stop(t)
	slices.Sort(took)
	t.Logf("half within %v, nine of ten within %v, all within %v", took[lone/2], took[lone*9/10], took[lone-1])
	if took[lone/2] > 60*time.Millisecond { // unnoticed, it would be twice that
		t.Errorf("half of the messages waited more than %v", took[lone/2])
	}
}

// TestListeningIsCheap: who listens and gets nothing costs next to nothing.
func TestListeningIsCheap(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	open(t, Config{Path: path})
	p := start(t, "listener", path)
	before := <-p.facts // it listens
	time.Sleep(2 * time.Second)
	end := p.stop(t)
	after := end[len(end)-1]
	used := 100 * (after.CPU - before.CPU).Seconds() / 2
	t.Logf("%.2f%% of a processor, %d MB", used, after.RSS>>20)
	if used > 2 {
		t.Errorf("listening costs %.1f%% of a processor", used)
	}
	if mb := after.RSS >> 20; mb > 60 {
		t.Errorf("%d MB", mb)
	}
}

// claimAll yields what is left of a topic until there is nothing.
func claimAll(t *testing.T, s *Store, topic string) func(func([]pawl.Delivery) bool) {
	return func(yield func([]pawl.Delivery) bool) {
		for {
			ds, err := s.Claim(t.Context(), []store.Want{{Topic: topic, Limit: 1000}}, store.Lease{For: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			if len(ds) == 0 || !yield(ds) {
				return
			}
			var items []store.Settlement
			for i := range ds {
				items = append(items, store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Ack})
			}
			if refused, err := s.Settle(t.Context(), store.NewBatch(items...)); err != nil || len(refused) > 0 {
				t.Fatal(refused, err)
			}
		}
	}
}
