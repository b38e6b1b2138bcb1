package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/open"
	"github.com/pawl-dev/pawl/store"
)

// killedWorker measures how long a message of a killed worker takes until another one has it, with leases of two lengths.
func (s *slo) killedWorker(at *site) error {
	type outcome struct {
		took time.Duration
		err  error
	}
	leases, results := []time.Duration{30 * time.Second, 2 * time.Second}, [2]outcome{}
	var wg sync.WaitGroup
	for i, lease := range leases {
		wg.Go(func() { results[i].took, results[i].err = s.rescue(at, lease) })
	}
	wg.Wait()
	s.most("recovery of a killed worker, lease 30 s", at, 45, results[0].took.Seconds(), "s", "")
	s.most("recovery of a killed worker, lease 2 s", at, 10, results[1].took.Seconds(), "s", "")
	return errors.Join(results[0].err, results[1].err)
}

func (s *slo) rescue(at *site, lease time.Duration) (time.Duration, error) {
	topic := "killed-" + lease.String()
	p, err := at.start(s.ctx, topic, lease, holds)
	if err != nil {
		return 0, err
	}
	defer p.kill()
	if err := errors.Join(at.fill(s.ctx, topic, 1), p.begin()); err != nil {
		return 0, err
	}
	if _, err := p.says("holds"); err != nil {
		return 0, err
	}
	got := make(chan time.Time, 1)
	var took time.Duration
	err = workingOn(s.ctx, at.store, topic, lease, func() { got <- time.Now() }, nil, func() error {
		if err := store.Sleep(s.ctx, lease/4); err != nil { // it has been extended, or not
			return err
		}
		p.kill()
		began := time.Now()
		select {
		case t := <-got:
			took = t.Sub(began)
		case <-time.After(2*lease + time.Minute):
			return errors.New("nobody took the message of a killed worker")
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
		return nil
	})
	return took, err
}

// availability is the share of seconds with progress while work waits, while workers are killed and started again.
func (s *slo) availability(at *site) error {
	const workers, lease, topic = 3, 2 * time.Second, "available"
	var all [workers]*process
	var err error
	var works atomic.Int64 // how often a worker said that it carried something out
	start := func(i int) {
		if all[i], err = at.start(s.ctx, topic, lease, forever); err == nil {
			err = all[i].begin()
		}
		if err == nil {
			go func(p *process) {
				for {
					if _, err := p.says("works"); err != nil {
						return
					}
					works.Add(1)
				}
			}(all[i])
		}
	}
	for i := range all {
		if start(i); err != nil {
			return err
		}
	}
	defer func() {
		for _, p := range all {
			if p != nil {
				p.kill()
			}
		}
	}()
	seconds, idle, kills, seen := 0, 0, 0, int64(0)
	for began, next := time.Now(), time.Now().Add(5*time.Second); time.Since(began) < s.faults; time.Sleep(time.Second) {
		stats, err := at.topics.Stats(s.ctx, topic) // what waits now has waited since the last look
		if err != nil || len(stats) > 1 {
			return fmt.Errorf("figures of %d topics: %w", len(stats), err)
		}
		if err := at.fill(s.ctx, topic, 500); err != nil {
			return err
		}
		if len(stats) == 0 {
			continue
		}
		if now := works.Load(); seconds == 0 && now == 0 {
			continue // the first message is still to come
		} else if seconds++; now == seen && stats[0].Waiting > 0 {
			idle++
		} else {
			seen = now
		}
		if time.Now().After(next) {
			i := rand.IntN(workers)
			all[i].kill()
			kills++
			if start(i); err != nil {
				return err
			}
			next = time.Now().Add(5 * time.Second)
		}
	}
	if err != nil || seconds == 0 {
		return errors.Join(err, errors.New("there was no second to count"))
	}
	s.least("availability under kills", at, 99.9, 100*(1-float64(idle)/float64(seconds)), "%", fmt.Sprintf(
		"seconds with progress while work waited, of %d, with %d kills", seconds, kills))
	return nil
}

// restart measures from the return of a server's restart to the next message that is carried out.
func (s *slo) restart(at *site) error {
	services := os.Getenv("PAWL_TEST_SERVICES")
	if !at.server || services == "" {
		return nil
	}
	return s.away(at, at.store, "recovery after a restart of the server", func() error {
		out, err := exec.CommandContext(s.ctx, services, "restart", "postgres").CombinedOutput()
		if err != nil {
			return fmt.Errorf("restart: %w: %s", err, out)
		}
		return nil
	})
}

// network measures the same after connections hung for five seconds and broke.
func (s *slo) network(at *site) error {
	if !at.server {
		return nil
	}
	u, err := url.Parse(at.url)
	if err != nil {
		return err
	}
	link, err := newLink(s.ctx, u.Host)
	if err != nil {
		return err
	}
	defer link.close()
	u.Host = link.address
	behind, err := open.Open(s.ctx, open.Config{URL: u.String()})
	if err != nil {
		return err
	}
	defer func() { _ = behind.Close() }()
	return s.away(at, behind, "recovery after a lost network", func() error {
		link.freeze()
		defer link.thaw()
		return store.Sleep(s.ctx, 5*time.Second)
	})
}

// away has messages come and go while something takes the server away; the figure is from when it is back.
func (s *slo) away(at *site, over store.Store, objective string, fault func() error) error {
	topic, done := "away-"+pawl.NewID()[24:], atomic.Int64{}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	go func() {
		for ctx.Err() == nil { // a send that fails is not counted
			within, stop := context.WithTimeout(ctx, time.Second)
			_ = store.Send(within, at.store, pawl.Message{Topic: topic})
			stop()
			time.Sleep(20 * time.Millisecond)
		}
	}()
	return workingOn(s.ctx, over, topic, 10*time.Second, func() { done.Add(1) }, nil, func() error {
		for done.Load() == 0 && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		if err := fault(); err != nil {
			return err
		}
		back, seen := time.Now(), done.Load()
		for done.Load() == seen && time.Since(back) < 2*time.Minute && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		s.most(objective, at, 30, time.Since(back).Seconds(), "s", "")
		return ctx.Err()
	})
}

// link passes connections on to a server until it is frozen: then nothing passes and nothing is closed. When it thaws,
// those that were frozen break.
type link struct {
	address string
	listen  net.Listener
	frozen  sync.RWMutex // held for writing while it is

	mu    sync.Mutex
	conns []net.Conn
}

func newLink(ctx context.Context, to string) (*link, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	k := &link{address: l.Addr().String(), listen: l}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := new(net.Dialer).DialContext(ctx, "tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			k.mu.Lock()
			k.conns = append(k.conns, in, out)
			k.mu.Unlock()
			go k.pass(in, out)
			go k.pass(out, in)
		}
	}()
	return k, nil
}

func (k *link) pass(from, to net.Conn) {
	_, _ = io.Copy(thawed{k, to}, from)
	k.frozen.RLock() // a frozen connection is not closed
	defer k.frozen.RUnlock()
	_, _ = from.Close(), to.Close()
}

// thawed writes while the link is not frozen.
type thawed struct {
	*link
	to io.Writer
}

func (w thawed) Write(p []byte) (int, error) {
	w.frozen.RLock()
	defer w.frozen.RUnlock()
	return w.to.Write(p)
}

func (k *link) freeze() { k.frozen.Lock() }

func (k *link) thaw() {
	k.breakAll()
	k.frozen.Unlock()
}

func (k *link) breakAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.conns {
		_ = c.Close()
	}
	k.conns = nil
}

func (k *link) close() { k.breakAll(); _ = k.listen.Close() }
