package kafka_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// chronicle is what handlers write down, apart from everything the store says of
// itself: of a message key/n, who carried it out, from when to when, and whether
// its end was accepted.
type chronicle struct {
	mu    sync.Mutex
	began time.Time
	by    map[string]map[int][]*entry // key, n
	over  int                         // messages that came to an accepted end
}

type entry struct {
	store      int // which process
	start, end time.Duration
	settled    time.Duration // when the answer to the verdict came; 0: it was refused, or none came
	final      bool          // the verdict ends the message
}

func (e *entry) String() string {
	return fmt.Sprintf("store %d from %v to %v (settled %v, final %v)", e.store, e.start, e.end, e.settled, e.final)
}

func newChronicle() *chronicle {
	return &chronicle{began: time.Now(), by: map[string]map[int][]*entry{}}
}

func (c *chronicle) now() time.Duration { return time.Since(c.began) }

func (c *chronicle) start(id string, in int) *entry {
	key, text, _ := strings.Cut(id, "/")
	n, _ := strconv.Atoi(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by[key] == nil {
		c.by[key] = map[int][]*entry{}
	}
	e := &entry{store: in, start: c.now()}
	c.by[key][n] = append(c.by[key][n], e)
	return e
}

func (c *chronicle) end(e *entry, final bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.end, e.final = c.now(), final
}

func (c *chronicle) settled(id string, e *entry) {
	key, text, _ := strings.Cut(id, "/")
	n, _ := strconv.Atoi(text)
	c.mu.Lock()
	defer c.mu.Unlock()
	first := e.final
	for _, other := range c.by[key][n] {
		first = first && !(other.final && other.settled > 0)
	}
	e.settled = c.now()
	if first {
		c.over++
	}
}

func (c *chronicle) finished() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over
}

// judge looks for messages that were lost, or carried out of order: a message
// began before the one before it in its key had come to an end that was accepted
// of anybody, or beside another of its key in one process.
func (c *chronicle) judge(t *testing.T, keys, messages int) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	lost, inverted, beside, again, overlaps := 0, 0, 0, 0, 0
	for k := range keys {
		key := fmt.Sprintf("k%d", k)
		for n := range messages {
			es := c.by[key][n]
			end, ok := earliestEnd(es)
			if !ok {
				if lost++; lost < 4 {
					t.Errorf("%s/%d is lost: %v", key, n, es)
				}
				continue
			}
			again += len(es) - 1
			for _, next := range c.by[key][n+1] {
				if next.start < end {
					if inverted++; inverted < 4 {
						t.Errorf("%s/%d began before the end of the one before it: %v; %v", key, n+1, next, es)
					}
				}
			}
		}
		b, o := c.besides(t, key)
		beside, overlaps = beside+b, overlaps+o
	}
	t.Logf(
		"%d keys of %d messages: lost %d, out of order %d, two of a key at once in a process %d, in two processes %d, repeated %d",
		keys, messages, lost, inverted, beside, overlaps, again)
}

// earliestEnd is when the first accepted, final verdict was given.
func earliestEnd(es []*entry) (end time.Duration, ok bool) {
	for _, e := range es {
		if e.final && e.settled > 0 && (!ok || e.end < end) {
			end, ok = e.end, true
		}
	}
	return end, ok
}

// besides counts deliveries of a key that were carried out at once.
func (c *chronicle) besides(t *testing.T, key string) (within, across int) {
	t.Helper()
	var all []*entry
	for _, es := range c.by[key] {
		all = append(all, es...)
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.end == 0 || b.end == 0 || a.start >= b.end || b.start >= a.end {
				continue
			}
			if a.store != b.store {
				across++
			} else if within++; within < 4 {
				t.Errorf("%s twice at once in one process: %v; %v", key, a, b)
			}
		}
	}
	return within, across
}

// manners are how handlers behave.
type manners struct {
	slow       time.Duration // at most, of an ordinary one
	odds, long int           // one of odds takes long milliseconds; 0: none does
	retry      int           // one of so many is to be tried again
	dead       int           // one of so many is a dead letter
}

// crew is the handlers of one process.
type crew struct {
	t       *testing.T
	log     *chronicle
	store   *kafka.Store
	number  int
	topic   string
	manners manners
	seed    uint64
	wg      sync.WaitGroup
	stop    context.CancelFunc
}

// hire starts handlers on a store.
func hire(t *testing.T, log *chronicle, s *kafka.Store, number int, topic string, seed uint64, m manners) *crew {
	ctx, stop := context.WithCancel(context.Background())
	c := &crew{t: t, log: log, store: s, number: number, topic: topic, manners: m, seed: seed, stop: stop}
	c.wg.Go(func() { c.run(ctx) })
	return c
}

// leave stops claiming. Handlers that run go on, and find their store closed.
func (c *crew) leave() {
	c.stop()
	_ = c.store.Close()
}

func (c *crew) run(ctx context.Context) {
	r := rand.New(rand.NewPCG(c.seed, uint64(c.number)))
	slots := make(chan struct{}, 64)
	for ctx.Err() == nil {
		free := cap(slots) - len(slots)
		var ds []pawl.Delivery
		if free > 0 {
			terms := store.Lease{For: time.Minute, Owner: "crew", Alone: len(slots) == 0}
			// it may be closed, or without a broker
			ds, _ = c.store.Claim(ctx, []store.Want{{Topic: c.topic, Limit: free, Run: 1}}, terms)
		}
		for _, d := range ds {
			slots <- struct{}{}
			odd := [3]int{r.Int(), r.Int(), r.Int()}
			work := rand.N(c.manners.slow + 1)
			c.wg.Go(func() { c.carryOut(d, odd, work); <-slots })
		}
		if len(ds) == 0 {
			time.Sleep(2 * time.Millisecond)
		}
	}
}

func (c *crew) carryOut(d pawl.Delivery, odd [3]int, work time.Duration) {
	m := &c.manners
	hit := func(i, odds int) bool { return odds > 0 && odd[i]%odds == 0 }
	e := c.log.start(d.ID, c.number)
	if hit(0, m.odds) {
		work = time.Duration(m.long) * time.Millisecond
	}
	time.Sleep(work)
	st := store.Settlement{Token: d.Token, ID: d.ID, Verdict: store.Ack}
	switch {
	case hit(1, m.retry):
		st.Verdict, st.After, st.Failure = store.Retry, time.Duration(odd[2]%20)*time.Millisecond,
			store.Failure{Kind: pawl.KindPanic, Error: "unlucky"}
	case hit(2, m.dead):
		st.Verdict, st.Failure = store.Dead, store.Failure{Kind: pawl.KindPanic, Error: "hopeless"}
	}
	c.log.end(e, st.Verdict == store.Ack || st.Verdict == store.Dead)
	refused, err := c.store.Settle(context.Background(), store.Batch[store.Settlement]{Items: []store.Settlement{st}})
	if err == nil && len(refused) == 0 {
		c.log.settled(d.ID, e)
	}
}

// orders are messages 0, 1, … of each key, appended in that order, a round of all
// keys at a time.
func orders(t *testing.T, s *kafka.Store, topic string, keys, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		var batch store.Batch[pawl.Message]
		for k := range keys {
			key := fmt.Sprintf("k%d", k)
			batch.Items = append(batch.Items, pawl.Message{Topic: topic, ID: fmt.Sprintf("%s/%d", key, n),
				Key: []byte(key), Body: []byte("x")})
		}
		rs, err := s.Append(t.Context(), batch)
		if err != nil {
			t.Fatalf("round %d: %v", n, err)
		}
		for _, r := range rs {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
	}
}

// await waits until so many messages are over.
func (c *chronicle) await(t *testing.T, want int, limit time.Duration) {
	t.Helper()
	for began := time.Now(); c.finished() < want; time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > limit {
			t.Errorf("%d of %d messages are over after %v", c.finished(), want, limit)
			return
		}
	}
}
