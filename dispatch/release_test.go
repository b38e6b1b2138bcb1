package dispatch_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
)

// giving is an observer that is told of what handlers give back.
type giving struct{ witness }

func (g *giving) GivenBack(topic string, n int) { g.add("given back "+topic, n) }

// ours is an error that gives a delivery back for a reason of the runtime's own.
type ours struct{ error }

func (o ours) Unwrap() error { return o.error }
func (ours) HandBack() bool  { return true }

// A downstream that refuses everything uses up no attempts and asks no policy. It is
// told all the same: counted and an event each time, logged now and then.
func TestReleasesAreTold(t *testing.T) {
	bubble(t, func(r *rig) {
		var s sink
		var g giving
		var log logged
		r.append(pawl.Message{Topic: "a", ID: "x"})
		c := one(1, func(context.Context, *pawl.Delivery) error {
			return pawl.Release(time.Second, "503\nService Unavailable")
		})
		c.Events, c.Observer, c.Logger = &s, &g, log.logger()
		r.run(c)
		time.Sleep(30*time.Second + time.Millisecond)
		events := strings.Count(s.list("x"), "Engine/TaskModel/Failed 1 released: 503")
		equal(r, log.count(`level=WARN msg="delivery given back" queue_topic=a reason=503 after=1s task_id=x`), 1)
		g.mu.Lock()
		told := g.n["given back a"]
		g.mu.Unlock()
		if events < 20 || events != told {
			t.Errorf("%d events, %d counted", events, told)
		}
		time.Sleep(time.Minute)
		if log.count("delivery given back") != 2 || log.count("not_logged=") != 1 {
			t.Error(log.text.String())
		}
	})
}

// What nobody refused is no news: our own reasons, those of a drain, and none at all.
func TestOwnReleasesAreNotTold(t *testing.T) {
	bubble(t, func(r *rig) {
		var s sink
		var g giving
		var log logged
		r.append(numbered("a", 3)...)
		var seen sync.Map
		c := one(1, func(ctx context.Context, d *pawl.Delivery) error {
			_, again := seen.LoadOrStore(d.ID, true)
			switch {
			case d.ID == "a-0" && !again:
				return pawl.Throttled(ours{pawl.Release(time.Second, "makes way")}, time.Second)
			case d.ID == "a-1" && !again:
				return pawl.Release(time.Second, "")
			case d.ID == "a-2":
				<-ctx.Done()
				return pawl.Release(0, "it was stopped")
			}
			return nil
		})
		c.Events, c.Observer, c.Logger, c.DrainTimeout = &s, &g, log.logger(), time.Second
		c.Topics[0].Concurrency = 2
		r.run(c)
		time.Sleep(10 * time.Second)
		r.stop()
		equal(r, r.ended(), nil)
		for _, id := range []string{"a-0", "a-1"} {
			r.gone(id)
			equal(r, s.list(id), "Engine/TaskModel/Started 1, Engine/TaskModel/Started 1, Engine/TaskModel/Completed 1")
		}
		equal(r, s.list("a-2"), "Engine/TaskModel/Started 1")
		equal(r, log.count("given back"), 0)
		equal(r, g.n["given back a"], 1) // the one without a reason
	})
}

var _ dispatch.ReleaseObserver = &giving{}
