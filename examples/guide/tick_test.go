package guide_test

import (
	"context"
	"errors"
	"log"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// ticker returns a topic whose message repeats itself each minute, and the first of them. Work that fails, or is cut
// off, is not the end of it; a mark is.
func ticker(marks store.Shared, work func(context.Context) error) (dispatch.Topic, pawl.Message) {
	tick := pawl.Message{
		Topic: "report", Delay: time.Minute,
		Key:    []byte("tick"),                                   // one at a time, in all processes
		Unique: pawl.Unique{Key: "tick", For: pawl.UntilClaimed}, // one waits, at most
	}
	report := pawl.HandlerFunc(func(ctx context.Context, d *pawl.Delivery) error {
		stop, err := marks.GetMarks(ctx, "stop", "report")
		if err != nil || len(stop) > 0 {
			return err // without a next tick
		}
		if err := work(ctx); err != nil {
			log.Print(err) // the next tick tries again; a dead letter would be the last one
		}
		d.Emit(tick) // together with the ack, or not at all
		return nil
	})
	first := tick
	first.Delay = 0
	return dispatch.Topic{Name: "report", Handler: report}, first
}

func TestTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, s := t.Context(), memory.New(memory.Config{})
		defer s.Close()
		var runs, running atomic.Int64
		topic, first := ticker(s, func(context.Context) error {
			if running.Add(1) > 1 {
				t.Error("two ticks at once")
			}
			defer running.Add(-1)
			time.Sleep(5 * time.Second)
			if runs.Add(1)%3 == 0 {
				return errors.New("the report failed")
			}
			return nil
		})
		start := func() (kill func()) {
			d, err := dispatch.New(s, dispatch.Config{Topics: []dispatch.Topic{topic}})
			if err != nil {
				t.Fatal(err)
			}
			send(s, first) // every process does; while a tick waits, it is a duplicate
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = d.Run(ctx)
			}()
			return func() {
				d.Kill()
				<-ended
			}
		}
		waits := func() (n int) {
			for range s.List(ctx, store.Filter{Topic: "report"}) {
				n++
			}
			return n
		}

		one := start()
		inTick := func() {
			for running.Load() == 0 {
				time.Sleep(time.Second)
			}
		}
		inTick()
		other := start() // its first tick waits for the one that runs, and takes the place of the next
		time.Sleep(time.Hour)
		// A period is a minute, and the five seconds of the work.
		if n := runs.Load(); n < 55 || n > 57 || waits() != 1 {
			t.Errorf("%d ticks in an hour, %d wait", n, waits())
		}

		inTick()
		one() // both are killed, one of them in the middle of a tick
		other()
		defer start()()
		time.Sleep(10 * time.Minute)
		if n := waits(); n != 1 {
			t.Errorf("%d ticks wait after a crash", n)
		}
		before := runs.Load()
		time.Sleep(65 * time.Minute)
		if n := runs.Load() - before; n < 59 || n > 61 || waits() > 1 {
			t.Errorf("%d ticks in 60 periods after a crash, %d wait", n, waits())
		}

		if _, err := s.PutMarks(ctx, pawl.Mark{Scope: "stop", Key: "report"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		before = runs.Load()
		time.Sleep(time.Hour)
		if runs.Load() != before || waits() != 0 {
			t.Errorf("%d ticks after the stop, %d wait", runs.Load()-before, waits())
		}
	})
}
