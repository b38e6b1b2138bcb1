package dispatch_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
)

// crew is two processes, started again when they die.
type crew struct {
	*rig
	owners atomic.Int64
	deaths atomic.Int64
	handle func(process int, kill func(), d *pawl.Delivery)
}

// live keeps one of the processes up until ctx ends. What is sent to kill ends it.
func (c *crew) live(ctx context.Context, process int, kill <-chan struct{}) {
	for ctx.Err() == nil {
		dies := make(chan struct{}, 1)
		config := one(60, func(ctx context.Context, d *pawl.Delivery) error {
			c.handle(process, func() {
				select {
				case dies <- struct{}{}:
				default:
				}
				<-ctx.Done()
			}, d)
			return ctx.Err()
		})
		config.Logger = quiet
		config.Topics[0].Lease = 5 * time.Second
		config.Owner = fmt.Sprintf("process %d.%d", process, c.owners.Add(1))
		d, err := dispatch.New(c.store, config)
		if err != nil {
			c.Error(err)
			return
		}
		running, stop := context.WithCancel(ctx)
		done := make(chan error, 1)
		go func() { done <- d.Run(running) }()
		select {
		case <-ctx.Done():
		case <-kill:
			c.deaths.Add(1)
			d.Kill()
		case <-dies:
			c.deaths.Add(1)
			d.Kill()
		}
		stop()
		<-done
	}
}

// until runs the crew until nothing is left, or for that long.
func (c *crew) until(limit time.Duration, kills ...<-chan struct{}) {
	c.Helper()
	ctx, stop := context.WithCancel(c.Context())
	var wg sync.WaitGroup
	for process := range 2 {
		var kill <-chan struct{}
		if len(kills) > process {
			kill = kills[process]
		}
		wg.Go(func() { c.live(ctx, process, kill) })
	}
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(time.Second) {
		if s := c.stats("a"); s.Waiting+s.Delayed+s.Leased == 0 {
			break
		}
	}
	stop()
	wg.Wait()
}

// Processes that are killed every ten seconds, while there is work all the time and no
// message is why, make no dead letter.
func TestManyKillsThatNoMessageCauses(t *testing.T) {
	lasting := 20 * time.Minute
	if testing.Short() {
		lasting /= 4
	}
	for _, work := range []time.Duration{5 * time.Second, 9 * time.Second} {
		t.Run(work.String(), func(t *testing.T) {
			bubble(t, func(r *rig) {
				c := &crew{rig: r, handle: func(int, func(), *pawl.Delivery) { time.Sleep(work) }}
				kills := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
				more := int(120 * 10 * time.Second / work) // as much as both can do in ten seconds
				r.append(numbered("a", more)...)
				go func() {
					for n := range int(lasting / (10 * time.Second)) {
						time.Sleep(10 * time.Second)
						r.append(prefixed("a", fmt.Sprint(n, "-"), more)...)
						kills[rand.N(2)] <- struct{}{}
					}
				}()
				c.until(3*lasting, kills[0], kills[1])
				s := r.stats("a")
				if s.Dead > 0 || s.Waiting+s.Leased+s.Delayed > 0 || c.deaths.Load() < int64(lasting/(12*time.Second)) {
					t.Errorf("%d deaths of processes: %d messages are done, %d dead, %d left", c.deaths.Load(), s.Acked,
						s.Dead, s.Waiting+s.Leased+s.Delayed)
				}
			})
		})
	}
}

// Two messages that kill only while both are in hand of one process are both done in
// the end, or one of them is dead; no other one is.
func TestAPairThatKillsTogether(t *testing.T) {
	bubble(t, func(r *rig) {
		var mu sync.Mutex
		in := map[int]map[string]bool{0: {}, 1: {}}
		r.append(numbered("a", 500)...)
		c := &crew{rig: r}
		c.handle = func(process int, kill func(), d *pawl.Delivery) {
			if d.ID != "a-3" && d.ID != "a-7" {
				time.Sleep(time.Second)
				return
			}
			mu.Lock()
			in[process][d.ID] = true
			both := len(in[process]) == 2
			if both {
				clear(in[process])
			}
			mu.Unlock()
			if both {
				kill()
				return
			}
			time.Sleep(time.Second)
			mu.Lock()
			delete(in[process], d.ID)
			mu.Unlock()
		}
		c.until(time.Hour)
		s := r.stats("a")
		if s.Acked < 499 || s.Waiting+s.Leased+s.Delayed > 0 || c.deaths.Load() > 10 {
			t.Errorf("%d deaths; %d done, %d dead, %d left", c.deaths.Load(), s.Acked, s.Dead,
				s.Waiting+s.Leased+s.Delayed)
		}
	})
}

// A message that takes a while to kill its process is found like a quick one.
func TestASlowKiller(t *testing.T) {
	bubble(t, func(r *rig) {
		r.append(numbered("a", 500)...)
		c := &crew{rig: r}
		c.handle = func(_ int, kill func(), d *pawl.Delivery) {
			time.Sleep(time.Second)
			if d.ID == "a-100" {
				time.Sleep(3 * time.Second)
				kill()
			}
		}
		c.until(time.Hour)
		s := r.stats("a")
		equal(r, []int64{s.Acked, s.Dead, c.deaths.Load()}, []int64{499, 1, 7})
	})
}
