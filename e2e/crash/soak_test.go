//go:build linux

package crash

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestSoak lets workers and producers die in every way, and checks that every
// message came to its end, in order, once.
func TestSoak(t *testing.T) {
	beside(t, 45)
	onEachStore(t, soak)
}

func soak(t *testing.T, s *site) {
	p := newPlan(t, s)
	nodes, producers := chaos(t, p)
	last, emptied := finish(t, p)
	nodes = append(nodes, last...)
	dead, rescued := map[string]bool{}, 0
	letters := s.dead(t, p.topic)
	for _, d := range letters {
		dead[d.ID] = true
		if d.Kind == "Rescue" {
			rescued++
		}
	}
	all, err := readHistory(nodes)
	if err != nil {
		t.Fatal(err)
	}
	figures, found := s.topic(t, p.topic), judge(all, dead, p.lease+15*time.Second)
	t.Log("\n" + table(p, nodes, producers, found, figures, emptied, all))
	for _, kind := range slices.Sorted(maps.Keys(found.faults)) {
		list := found.faults[kind]
		t.Errorf("%d times: %s. The first:\n  %s", len(list), kind, strings.Join(list[:min(3, len(list))], "\n  "))
	}
	account(t, p, producers, found, figures, len(letters), all)
	if rescued > p.messages/1000 {
		t.Errorf("%d dead letters of kind Rescue: chance alone does not kill a message's worker three times", rescued)
	}
	t.Logf("%d messages, %d kills, %d stops, %d drains: lost %d, stuck %d, out of order %d, two live leases %d, overcounted attempts %d, slowest rescue %v after the kill",
		found.counts["messages"], count(nodes, killed)+count(nodes, hurried), count(nodes, stopped),
		count(nodes, drained),
		len(found.faults[lost]), figures.open(), len(found.faults[outOfOrder]),
		len(found.faults[twoLeases])+len(found.faults[trampled]),
		len(found.faults[overcount]), quantile(found.rescue, 1))
}

// chaos runs nodes and producers, and returns when all is sent and everybody gone.
func chaos(t *testing.T, p *plan) ([]*node, []*producer) {
	r := seed(t)
	producing, stopProducing := context.WithTimeout(t.Context(), p.duration+2*time.Minute)
	defer stopProducing()
	working, stopWorking := context.WithCancel(t.Context())
	defer stopWorking()
	var nodes []*node
	var producers []*producer
	var workers, senders sync.WaitGroup
	for i := range p.nodes {
		n := &node{t: t, name: fmt.Sprintf("node%d", i+1), plan: p, rand: rand.New(rand.NewPCG(r.Uint64(), 1))}
		nodes = append(nodes, n)
		workers.Go(func() { n.live(working) })
	}
	for i := range p.producers {
		m := &producer{t: t, plan: p, number: i, unique: i%2 == 1, rand: rand.New(rand.NewPCG(r.Uint64(), 2)),
			usual: time.Second}
		producers = append(producers, m)
		senders.Go(func() { m.live(producing) })
	}
	senders.Wait()
	stopWorking()
	workers.Wait()
	return nodes, producers
}

// finish carries out what is left, without any harm, with two processes.
func finish(t *testing.T, p *plan) (last []*node, took time.Duration) {
	t.Helper()
	began := time.Now()
	for i := range 2 {
		n := &node{t: t, name: fmt.Sprintf("last%d", i+1), plan: p, rand: rand.New(rand.NewPCG(1, uint64(i))),
			flags: []string{"--until-empty"}}
		n.rise()
		last = append(last, n)
	}
	for _, n := range last {
		if code := n.lives[0].wait(t, 3*time.Minute); code != 0 {
			t.Fatalf("work --until-empty: exit code %d: %s", code, n.lives[0].tail(2000))
		}
	}
	return last, time.Since(began)
}

// account compares the journals with what the store counted.
func account(t *testing.T, p *plan, producers []*producer, found *findings, figures figures, dead int,
	all []*delivery) {
	t.Helper()
	check := func(what string, got, want int64) {
		if got != want {
			t.Errorf("%s: %d, want %d (%+v)", what, got, want, figures)
		}
	}
	check("stuck: messages that are neither acked nor dead", figures.open(), 0)
	check("dead letters counted and listed", figures.Dead, int64(dead))
	check("acked, of what is appended and not dead", figures.AckedTotal, figures.AppendedTotal-figures.Dead)
	check("messages that workers saw, of what is appended", int64(found.counts["messages"]), figures.AppendedTotal)
	seen := map[string]bool{}
	for _, d := range all {
		seen[d.id] = true
	}
	again := 0
	for _, m := range producers {
		again += m.again
		missing := 0
		for seq := range p.messages / p.producers {
			if !seen[m.id(seq)] {
				missing++
			}
		}
		check(fmt.Sprintf("messages of producer %d that no worker saw", m.number), int64(missing), 0)
	}
	if got := figures.AppendedTotal; got < int64(p.messages) || got > int64(p.messages+again) {
		t.Errorf("appended: %d, want %d and at most %d that were repeated after their ack", got, p.messages, again)
	}
	sends, twice := map[string]int{}, []string{}
	for _, d := range all {
		if first, ok := sends[d.id]; producers[d.Producer].unique && ok && first != d.Send {
			twice = append(twice, fmt.Sprintf("%s by send %d and by send %d", d.id, first, d.Send))
		}
		sends[d.id] = d.Send
	}
	if len(twice) > 0 {
		t.Errorf("%d times a message was stored again after its ack, in spite of its unique key; the first: %s",
			len(twice), twice[0])
	}
}
