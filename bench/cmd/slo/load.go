package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/bench/internal/beside"
	"github.com/pawl-dev/pawl/bench/internal/meter"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
)

// throughput works off a backlog with one process, and with several.
func (s *slo) throughput(at *site) error {
	single := 0.0
	for _, n := range []int{1, 2, 4, 8} {
		rate, err := s.workOff(at, n)
		if err != nil {
			return err
		}
		if n == 1 {
			single = rate
			s.add(row{Objective: "throughput, 1 process", Store: at.name, Target: "–", Measured: rate, Unit: "msg/s",
				Note: "of this machine; what follows are ratios to it"})
			continue
		}
		s.least(fmt.Sprintf("throughput, %d processes", n), at, 0.9, rate/single, "", fmt.Sprintf(
			"ratio of the sum to one process, on %d processors", runtime.NumCPU()))
	}
	return nil
}

func (s *slo) workOff(at *site, n int) (float64, error) {
	topic := fmt.Sprintf("work-off-%d", n)
	if err := at.fill(s.ctx, topic, s.messages); err != nil {
		return 0, err
	}
	var all []*process
	defer func() {
		for _, p := range all {
			p.kill()
		}
	}()
	for range n {
		p, err := at.start(s.ctx, topic, 30*time.Second, empties)
		if err != nil {
			return 0, err
		}
		all = append(all, p)
	}
	began := time.Now()
	for _, p := range all {
		if err := p.begin(); err != nil {
			return 0, err
		}
	}
	last := int64(0)
	for _, p := range all {
		line, err := p.says("")
		if err != nil {
			return 0, err
		}
		at, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			return 0, err
		}
		last = max(last, at)
	}
	return float64(s.messages) / time.Unix(0, last).Sub(began).Seconds(), nil
}

// latencies is an observer that keeps how long deliveries took.
type latencies struct {
	mu   sync.Mutex
	took []time.Duration
	done int
}

func (*latencies) StoreCall(string, time.Duration, int, error) {}
func (*latencies) Claimed(string, int, []time.Duration)        {}
func (*latencies) Ran(string, []time.Duration)                 {}
func (*latencies) Refused(string, string, int)                 {}
func (*latencies) Load(string, int, int, int, int)             {}
func (*latencies) Decided(string, string, string, string, pawl.Kind, string, string, string, string) {
}

// Settled keeps the time from visible to acked.
func (l *latencies) Settled(_, _ string, n int, done []time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took, l.done = append(l.took, done...), l.done+n
}

func (l *latencies) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done
}

// halfLoad measures from visible to acked while messages come at half of the rate at which this process can append and
// carry out.
func (s *slo) halfLoad(at *site) error {
	full := &latencies{}
	err := at.working(s.ctx, "full", full, func() error {
		sent := 0
		for began := time.Now(); time.Since(began) < s.load/3; sent += 200 {
			if err := at.fill(s.ctx, "full", 200); err != nil {
				return err
			}
			for sent-full.count() > 2000 && time.Since(began) < s.load/3 { // no more ahead than that
				time.Sleep(time.Millisecond)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	rate := float64(full.count()) / (s.load / 3).Seconds()
	half := &latencies{}
	err = at.working(s.ctx, "half", half, func() error {
		sent := 0
		for began := time.Now(); time.Since(began) < s.load; time.Sleep(10 * time.Millisecond) {
			due := int(rate / 2 * time.Since(began).Seconds())
			if err := at.fill(s.ctx, "half", due-sent); err != nil {
				return err
			}
			sent = due
		}
		for until := time.Now().Add(time.Minute); half.count() < sent && time.Now().Before(until); {
			time.Sleep(10 * time.Millisecond)
		}
		return nil
	})
	if err != nil {
		return err
	}
	slices.Sort(half.took)
	note := fmt.Sprintf("at %.0f msg/s", rate/2)
	if len(half.took) == 0 {
		return fmt.Errorf("nothing was carried out at half load")
	}
	milliseconds := func(share float64) float64 { return meter.Percentile(half.took, share).Seconds() * 1000 }
	s.most("delivery p95, half load", at, 100, milliseconds(0.95), "ms", note)
	s.most("delivery p99, half load", at, 250, milliseconds(0.99), "ms", note)
	return nil
}

// working calls do while this process carries out a topic.
func (at *site) working(ctx context.Context, topic string, o dispatch.Observer, do func() error) error {
	return workingOn(ctx, at.store, topic, 2*time.Second, func() {}, o, do)
}

func workingOn(ctx context.Context, on store.Store, topic string, lease time.Duration, call func(),
	o dispatch.Observer, do func() error) error {
	stop, err := beside.Dispatcher(ctx, on, dispatching(topic, lease, false, call, o), func(error) {}) // stop says it, too
	if err != nil {
		return err
	}
	return errors.Join(do(), stop(ctx))
}
