package enginetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

var workScenarios = []Scenario{
	{Text: "Messages of a key are carried out one at a time and in order, whatever fails and however long it takes.",
		Name: "OrderPerKey", Test: func(r *Rig) {
			const keys, each = 20, 30
			var l lanes
			r.append(inLanes("a", keys, each)...)
			r.finish(topic("a", calm, 8, func(_ context.Context, d *pawl.Delivery) error {
				return l.during(d, func() error {
					if r.random(3) == 0 {
						time.Sleep(time.Duration(r.random(3000)) * time.Microsecond)
					}
					if d.Body[0] == 7 { // poison: dead at once, and its lane goes on
						return pawl.Permanent(errBroken)
					}
					return r.failing(d, 5)
				})
			}))
			l.check(r)
			r.balanced("a", keys*each, keys)
		}},
	{Text: "A message that fails until its attempts are used up is a dead letter with its whole history.",
		Name: "RetriesExhausted", Needs: needs(store.CanDeadLetters), Test: func(r *Rig) {
			m := pawl.Message{
				ID: "x", Topic: "a", Key: []byte("k"), Body: []byte("the body"), Priority: 7,
				Headers: map[string]string{"content-type": "text/plain"},
			}
			r.append(m, pawl.Message{ID: "y", Topic: "a", Key: []byte("k")})
			of := topic("a", calm, 2, func(_ context.Context, d *pawl.Delivery) error {
				if d.ID == "x" {
					return pawl.OfKind("Download", fmt.Errorf("attempt %d: %w", d.Attempt, errBroken))
				}
				return nil
			})
			c := dispatch.Config{Owner: "the worker", UntilEmpty: true, Topics: []dispatch.Topic{of}}
			r.must(r.ended(r.startWith(r.Store, c)))
			r.balanced("a", 2, 1)
			rec := r.dead()["x"]
			r.check(string(rec.Body) == "the body" && string(rec.Key) == "k" && rec.Priority == 7 &&
				rec.Headers["content-type"] == "text/plain", "the dead letter is not the message: %+v", rec.Message)
			r.check(rec.Kind == "Download" && rec.Attempts == deadMax && len(rec.History) == deadMax &&
				rec.Fingerprint != "", "kind %q, %d attempts, %d in the history, fingerprint %q", rec.Kind, rec.Attempts,
				len(rec.History), rec.Fingerprint)
			for i, a := range rec.History {
				want := "retry: "
				if i+1 == deadMax {
					want = "dead: "
				}
				r.check(a.Attempt == i+1 && a.Worker == "the worker" && a.Kind == "Download" && a.Rule == "quick" &&
					a.Error == fmt.Sprintf("attempt %d: broken", i+1) && !a.EndedAt.Before(a.StartedAt) &&
					strings.HasPrefix(a.Action, want), "attempt %d: %+v; want action %q", i+1, a, want)
			}
		}},
	{Text: "A message that cannot be decoded is a dead letter at once, and delays no other.",
		Name: "PoisonIsFast", Needs: needs(store.CanDeadLetters), Test: func(r *Rig) {
			msgs := numbered("a", 200)
			for i := range msgs {
				msgs[i].Body = []byte{byte(i % 2)}
			}
			r.append(msgs...)
			decode := func(body []byte, v *int) error {
				if body[0] == 1 {
					return errBroken
				}
				return nil
			}
			h := pawl.Typed(decode, func(context.Context, int, *pawl.Delivery) error { return nil })
			r.finish(dispatch.Topic{Name: "a", Handler: h, Concurrency: 4, Lease: calm})
			r.balanced("a", 200, 100)
			for id, rec := range r.dead() {
				if rec.Kind != pawl.KindDecode || rec.Attempts != 1 {
					r.Fatalf("%s: %s after %d attempts", id, rec.Kind, rec.Attempts)
				}
			}
		}},
	{Text: "Emitted messages appear once, with the ack, however often the delivery was repeated.",
		Name: "EmitsAppearOnce", Needs: needs(store.CanEmitAtomic), Test: func(r *Rig) {
			var got counts
			r.append(numbered("a", 50)...)
			r.finish(topic("a", calm, 4, func(_ context.Context, d *pawl.Delivery) error {
				for i := range 3 {
					d.Emit(pawl.Message{Topic: "b", Body: []byte{byte(i)}})
				}
				if d.Attempt < 3 {
					return errBroken
				}
				return nil
			}),
				topic("b", calm, 4, func(_ context.Context, d *pawl.Delivery) error {
					got.add(d.ID)
					return nil
				}))
			r.balanced("a", 50, 0)
			r.balanced("b", 150, 0)
			for i := range 50 {
				for j := range 3 {
					if n := got.of[pawl.EmitID(fmt.Sprintf("a-%d", i), j)]; n != 1 {
						r.Fatalf("emit %d of a-%d was delivered %d times", j, i, n)
					}
				}
			}
		}},
	{Text: "An urgent message behind thousands of others is the very next one that is started.",
		Name: "UrgentIsNext", Needs: needs(store.CanPriority), Test: func(r *Rig) {
			r.urgentIsNext(numbered("a", 5000), nil)
		}},
	{Text: "An urgent message in a lane of its own is the very next one, however many lanes wait, some of them long.",
		Name: "UrgentLaneIsNext", Needs: needs(store.CanPriority), Test: func(r *Rig) {
			bulk := inLanes("a", 20, 50)
			for i := range 1000 {
				bulk = append(bulk, pawl.Message{ID: fmt.Sprintf("long-%d", i), Topic: "a", Key: []byte("long")})
			}
			r.urgentIsNext(bulk, []byte("urgent"))
		}},
	{Text: "A lane that is held stays closed for that long, and no other.",
		Name: "HoldIsPolite", Needs: needs(store.CanDelay), Test: func(r *Rig) {
			const pause = 150 * time.Millisecond
			var mu sync.Mutex
			last := map[string]time.Time{}
			r.append(inLanes("a", 3, 4)...)
			began := time.Now()
			r.finish(topic("a", calm, 8, func(_ context.Context, d *pawl.Delivery) error {
				mu.Lock()
				defer mu.Unlock()
				key := string(d.Key)
				gap := r.now().Sub(last[key])
				r.check(gap >= pause-2*time.Millisecond, "lane %s is open again after %v", key, gap)
				last[key] = r.now()
				d.Hold(pause)
				return nil
			}))
			took := time.Since(began)
			r.check(took <= 6*time.Second, "three rounds of %v took %v", pause, took)
			r.balanced("a", 12, 0)
		}},
	{Text: "A batch handler's verdicts count one by one, and end runs.",
		Name: "BatchesHaveVerdicts", Test: func(r *Rig) {
			var l lanes
			r.append(inLanes("a", 10, 30)...)
			r.finish(dispatch.Topic{Name: "a", Concurrency: 2, BatchSize: 50, Lease: calm,
				Batch: pawl.BatchHandlerFunc(func(_ context.Context, ds []*pawl.Delivery) []error {
					errs := make([]error, len(ds))
					failed := map[string]bool{}
					for i, d := range ds {
						if key := string(d.Key); !failed[key] { // else it is delivered again, whatever we say
							errs[i] = l.during(d, func() error { return r.failing(d, 10) })
							failed[key] = errs[i] != nil
						}
					}
					return errs
				})})
			l.check(r)
			r.balanced("a", 300, 0)
		}},
	{Text: "A drain gives back what was not started: no attempt, no rescue.",
		Name: "DrainCostsNothing", Test: func(r *Rig) {
			var n atomic.Int64
			full := make(chan struct{})
			r.append(numbered("a", 2000)...)
			e := r.start(r.Store, topic("a", calm, 4, func(context.Context, *pawl.Delivery) error {
				if n.Add(1) == 500 {
					close(full)
				}
				if n.Load() >= 500 {
					time.Sleep(100 * time.Millisecond)
				}
				return nil
			}))
			<-full
			r.end(e)
			s := r.stats()["a"]
			if s.Acked < 500 || s.Acked > 1000 || s.Acked+s.Waiting != 2000 || s.Rescues != 0 || s.Retried != 0 {
				r.Fatalf("%+v", s)
			}
			r.finish(topic("a", calm, 4, func(_ context.Context, d *pawl.Delivery) error {
				r.check(d.Attempt == 1 && d.Rescues == 0, "%s: attempt %d, %d rescues", d.ID, d.Attempt, d.Rescues)
				return nil
			}))
			r.balanced("a", 2000, 0)
		}},
	{Text: "While a lane of a higher priority has more messages, lower priorities do not take the slot that it has.",
		Name: "LaneKeepsItsSlot", Needs: needs(store.CanPriority), Test: func(r *Rig) {
			r.keepsSlot("a", 50)
			r.keepsSlot("b", pawl.MaxPriority)
		}},
	{Text: "A paused topic is not processed by any process until it is resumed.",
		Name: "PauseHolds", Test: func(r *Rig) {
			var n atomic.Int64
			e := r.start(r.Store, topic("a", calm, 1, func(context.Context, *pawl.Delivery) error {
				n.Add(1)
				return nil
			}))
			r.append(pawl.Message{Topic: "a"}) // over a log this makes the topic
			r.until("the first message", func() bool { return n.Load() == 1 })
			r.must(e.Pause(context.Background(), "a", 0, "a test", "because"))
			time.Sleep(2 * time.Second) // as long as other processes may take to notice
			r.append(numbered("a", 10)...)
			time.Sleep(300 * time.Millisecond)
			if n.Load() != 1 {
				r.Fatalf("%d were carried out in a pause", n.Load()-1)
			}
			r.must(e.Resume(context.Background(), "a"))
			r.until("the pause is over", func() bool { return n.Load() == 11 })
		}},
}

// urgentIsNext carries out bulk in one slot, and at the 1,000th appends an urgent message with
// a key: nothing of the rest may be started before it.
func (r *Rig) urgentIsNext(bulk []pawl.Message, key []byte) {
	gate, at := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	var order []string
	r.append(bulk...)
	e := r.start(r.Store, topic("a", calm, 1, func(_ context.Context, d *pawl.Delivery) error {
		mu.Lock()
		order = append(order, d.ID)
		n := len(order)
		mu.Unlock()
		if n == 1000 {
			close(at)
			<-gate
		}
		return nil
	}))
	<-at
	r.append(pawl.Message{ID: "urgent", Topic: "a", Key: key, Priority: pawl.MaxPriority})
	e.Wake("a")
	messages, _ := store.As[store.Inspector](r.Store)
	r.until("the urgent message is brought", func() bool {
		m, err := messages.Get(context.Background(), "urgent")
		return err == nil && m.State == store.Leased
	})
	time.Sleep(500 * time.Millisecond) // what is held is looked over meanwhile, and not given back yet
	close(gate)
	r.until("all are done", func() bool { return r.stats()["a"].Acked == int64(len(bulk)+1) })
	mu.Lock()
	defer mu.Unlock()
	if i := slices.Index(order, "urgent"); i != 1000 {
		r.Fatalf("urgent was started as number %d, 1000 was next", i)
	}
}

// keepsSlot carries out a lane of that priority and others of a lower one in one slot. The others take no turns with
// the lane: only a claim that a busy machine held up for long may let one of them in.
func (r *Rig) keepsSlot(name string, priority int) {
	const n = 30
	for i := range n {
		r.append(pawl.Message{Topic: name, Key: fmt.Append(nil, "low", i)})
	}
	for range n {
		r.append(pawl.Message{Topic: name, Key: []byte("vip"), Priority: priority})
	}
	var mu sync.Mutex
	begun, low := 0, 0
	r.finish(topic(name, calm, 1, func(_ context.Context, d *pawl.Delivery) error {
		time.Sleep(50 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		if begun++; begun <= n && d.Priority == 0 {
			low++
		}
		return nil
	}))
	if low > 2*n/5 { // half of them, if they took turns
		r.Errorf("priority %d: %d of the first %d are of the lower priority", priority, low, n)
	}
}

// failing fails a delivery once in n, but never its last attempt.
func (r *Rig) failing(d *pawl.Delivery, n int) error {
	if d.Attempt < deadMax && r.random(n) == 0 {
		return errBroken
	}
	return nil
}

// lanes checks that lanes are carried out in order and never twice at once.
type lanes struct {
	mu   sync.Mutex
	busy map[string]bool
	next map[string]int
	bad  []string
}

// during carries out a message of [inLanes]. With errBroken it is not over with it.
func (l *lanes) during(d *pawl.Delivery, do func() error) error {
	key, n := string(d.Key), int(d.Body[0])
	l.mu.Lock()
	if l.busy == nil {
		l.busy, l.next = map[string]bool{}, map[string]int{}
	}
	if l.busy[key] {
		l.bad = append(l.bad, fmt.Sprintf("lane %s is carried out twice at once, at %d", key, n))
	}
	if n != l.next[key] {
		l.bad = append(l.bad, fmt.Sprintf("lane %s: %d is carried out, %d was next", key, n, l.next[key]))
	}
	l.busy[key] = true
	l.mu.Unlock()
	err := do()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.busy[key] = false; err != errBroken {
		l.next[key] = n + 1
	}
	return err
}

func (l *lanes) check(r *Rig) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.check(len(l.bad) == 0, "%s", strings.Join(l.bad, "\n"))
}

// inLanes returns n messages for each of keys lanes, interleaved; the body is
// the number in the lane.
func inLanes(topic string, keys, n int) []pawl.Message {
	var msgs []pawl.Message
	for i := range n {
		for k := range keys {
			key := fmt.Sprintf("k%d", k)
			msgs = append(msgs, pawl.Message{ID: fmt.Sprintf("%s-%s-%d", topic, key, i), Topic: topic, Key: []byte(key),
				Body: []byte{byte(i)}})
		}
	}
	return msgs
}
