package observe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

func bus(t testing.TB, taps ...Tap) (*Bus, *Metrics) {
	t.Helper()
	m, _ := metrics(t)
	b, err := NewBus(NewEventTypes(), m, taps...)
	if err != nil {
		t.Fatal(err)
	}
	return b, m
}

func event(id string) Envelope {
	return Envelope{Domain: DomainEngine, Type: "Download", Phase: PhaseStarted, MessageID: id}
}

// books checks that nothing is lost silently.
func books(t *testing.T, b *Bus, lag uint64) {
	t.Helper()
	for _, f := range b.Flows() {
		sum := f.Delivered + f.Lag
		for _, n := range f.Dropped {
			sum += n
		}
		if f.Offered != sum || f.Lag != lag {
			t.Errorf("%+v: the sum is %d, the lag should be %d", f, sum, lag)
		}
	}
}

// Of what is offered, everything was delivered or dropped, for every consumer,
// whatever it does.
func TestOfferedIsDeliveredPlusDropped(t *testing.T) {
	var got, good, calls int
	b, m := bus(t,
		Tap{Name: "good", Queue: 5000, Consumer: ConsumerFunc(func(Envelope) error { good++; return nil })},
		Tap{Name: "bad", Queue: 3, Consumer: ConsumerFunc(func(Envelope) error {
			calls++
			switch calls % 3 { // three at least come through its queue
			case 0:
				return errors.New("broken")
			case 1:
				panic("oh")
			}
			got++
			return nil
		})},
	)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 1000 {
				if err := b.Emit(event(strconv.Itoa(i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	books(t, b, 0)
	flows := b.Flows()
	if flows[0].Delivered != 4000 || good != 4000 {
		t.Errorf("a bad neighbour cost events: %+v, %d", flows[0], good)
	}
	bad := flows[1]
	if bad.Offered != 4000 || bad.Delivered != uint64(got) || bad.Dropped[dropFailed] == 0 ||
		bad.Dropped[dropPanicked] == 0 {
		t.Errorf("%+v, %d", bad, got)
	}
	for reason, n := range bad.Dropped {
		if counted := figure(t, m.eventsDropped.WithLabelValues("bad", reason)); counted != float64(n) {
			t.Errorf("%s: counted %v, dropped %d", reason, counted, n)
		}
	}
}

// A consumer that never comes back makes nobody wait, and the others go on.
func TestSlowConsumerBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck, seen, lag := make(chan struct{}), 0, 0.0
		m, reg := metrics(t)
		b, err := NewBus(NewEventTypes(), m,
			Tap{Name: "stuck", Queue: 10, Consumer: ConsumerFunc(func(Envelope) error { <-stuck; return nil })},
			Tap{Name: "quick", Queue: 1000, Consumer: ConsumerFunc(func(Envelope) error { seen++; return nil })},
		)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for i := range 500 {
			if err := b.Emit(event(strconv.Itoa(i))); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				synctest.Wait() // the first one is in its hands, ten more wait
			}
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("the caller waited %v", waited)
		}
		synctest.Wait()
		f := b.Flows()[0]
		if seen != 500 || f.Dropped[dropFull] != 489 || f.Delivered != 0 || f.Lag != 11 {
			t.Errorf("%d seen; %+v", seen, f)
		}
		for _, l := range gather(t, reg)["pawl_events_lag"].GetMetric() {
			if l.GetLabel()[0].GetValue() == "stuck" {
				lag = l.GetGauge().GetValue()
			}
		}
		if lag != float64(f.Lag) {
			t.Errorf("lag %v, %d", lag, f.Lag)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err = b.Close(ctx)
		if err == nil || !strings.Contains(err.Error(), `"stuck"`) || !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if f = b.Flows()[0]; f.Dropped[dropClosed] != 10 || f.Lag != 1 {
			t.Errorf("%+v", f)
		}
		close(stuck)
		synctest.Wait()
		books(t, b, 0)
	})
}

// figure is what a collector of one metric says.
func figure(t *testing.T, c prometheus.Collector) float64 {
	t.Helper()
	ch := make(chan prometheus.Metric, 1)
	c.Collect(ch)
	var m dto.Metric
	if err := (<-ch).Write(&m); err != nil {
		t.Fatal(err)
	}
	return m.GetCounter().GetValue() + m.GetGauge().GetValue()
}

// The events of a message come in their order, to every consumer, and sequence
// numbers only rise.
func TestOrderOfAMessage(t *testing.T) {
	type seen struct {
		last map[string]int
		seq  uint64
	}
	var taps []Tap
	for i := range 3 {
		s := &seen{last: map[string]int{}}
		taps = append(taps, Tap{Name: strconv.Itoa(i), Queue: 100 + 10000*i,
			Consumer: ConsumerFunc(func(e Envelope) error {
				n, _ := strconv.Atoi(e.Attrs["n"])
				if n <= s.last[e.MessageID] || e.Seq <= s.seq {
					return fmt.Errorf("message %s: %d after %d, seq %d after %d", e.MessageID, n, s.last[e.MessageID],
						e.Seq, s.seq)
				}
				s.last[e.MessageID], s.seq = n, e.Seq
				return nil
			})})
	}
	b, _ := bus(t, taps...)
	var wg sync.WaitGroup
	for id := range 8 {
		wg.Go(func() {
			for n := range 1000 {
				e := event(strconv.Itoa(id))
				e.Attrs = map[string]string{"n": strconv.Itoa(n + 1)}
				if err := b.Emit(e); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := b.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	books(t, b, 0)
	for _, f := range b.Flows() {
		if f.Dropped[dropFailed] > 0 {
			t.Errorf("out of order: %+v", f)
		}
	}
}

// What is not registered is an error for the caller, and counted; so is what
// comes too late.
func TestUnknownEventsAreRefused(t *testing.T) {
	var got []string
	b, m := bus(t, Tap{Name: "all", Consumer: ConsumerFunc(func(e Envelope) error {
		got = append(got, e.Type+" "+e.Phase)
		if e.ID == "" || e.Time.IsZero() {
			t.Errorf("incomplete: %+v", e)
		}
		return nil
	})})
	for _, e := range []Envelope{
		{Domain: DomainEngine, Type: "Nothing", Phase: PhaseStarted},
		{Domain: DomainSystem, Type: "Download", Phase: PhaseStarted},
		{Domain: DomainEngine, Type: "Parser", Phase: PhaseRetry},
		{Domain: DomainEngine, Type: "Parser", Phase: "Ended"},
	} {
		if err := b.Emit(e); !errors.Is(err, ErrUnknownEvent) {
			t.Errorf("%+v: %v", e, err)
		}
	}
	if err := b.Emit(Envelope{Domain: DomainEngine, Type: "Parser", Phase: "Received"}); err != nil {
		t.Error(err)
	}
	if err := errors.Join(b.SystemStarted("store", nil), b.SystemChecked("store", errors.New("away")),
		b.SystemStopped("store", errors.New("late")),
		b.SystemError("store", errors.New("away")), b.SystemError("store", nil)); err != nil {
		t.Error(err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := b.Emit(event("late")); !errors.Is(err, ErrBusClosed) {
		t.Error(err)
	}
	if err := b.Close(t.Context()); err != nil {
		t.Error("the second close:", err)
	}
	want := "[Parser Started SystemHealth Started SystemHealth Completed SystemHealth Failed SystemError Failed SystemError Completed]"
	if fmt.Sprint(got) != want {
		t.Errorf("got  %v\nwant %s", got, want)
	}
	unknown, late := figure(t, m.eventsRefused.WithLabelValues(dropUnknown)),
		figure(t, m.eventsRefused.WithLabelValues(dropClosed))
	if unknown != 4 || late != 1 {
		t.Errorf("%v unknown and %v late ones were counted", unknown, late)
	}
}

func TestNewBusReportsEverything(t *testing.T) {
	m, _ := metrics(t)
	good := ConsumerFunc(func(Envelope) error { return nil })
	_, err := NewBus(NewEventTypes(), m, Tap{Name: "a", Consumer: good}, Tap{Name: "a", Consumer: good}, Tap{Name: "b"},
		Tap{Name: "c", Consumer: good, Queue: -1})
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Fatal(err)
	}
}

func BenchmarkEmit(b *testing.B) {
	events, _ := bus(b, Tap{Name: "none", Consumer: ConsumerFunc(func(Envelope) error { return nil })})
	e := event("x")
	for b.Loop() {
		_ = events.Emit(e)
	}
}
