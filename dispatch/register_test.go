package dispatch_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/dispatch/roster"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// registered returns the registrations that are in the rig's store.
func (r *rig) registered() (all []roster.Registration) {
	r.Helper()
	for said, err := range roster.All(r.Context(), r.mem) {
		if err != nil {
			r.Fatal(err)
		}
		all = append(all, *said.Registration)
	}
	return all
}

func registering(change func(*dispatch.Config)) dispatch.Config {
	limit, err := dispatch.NewLimiter(dispatch.LimitConfig{Name: "shop", Concurrency: 2})
	if err != nil {
		panic(err)
	}
	c := dispatch.Config{Owner: "program", Version: "v1", Topics: []dispatch.Topic{{
		Name: "mail", Concurrency: 3, Limits: []*dispatch.Limiter{limit},
		Handler: pawl.HandlerFunc(func(context.Context, *pawl.Delivery) error { return nil }),
	}}}
	if change != nil {
		change(&c)
	}
	return c
}

// TestDispatcherRegistersItself while it runs, with its topics, slots and limits, by default.
func TestDispatcherRegistersItself(t *testing.T) {
	bubble(t, func(r *rig) {
		r.run(registering(nil))
		time.Sleep(time.Minute)
		all := r.registered()
		if len(all) != 1 || all[0].Owner != "program" || all[0].Version != "v1" || len(all[0].Topics) != 1 {
			t.Fatalf("%+v", all)
		}
		at := all[0].Topics[0]
		if l := at.Limit("shop"); at.Topic != "mail" || at.Concurrency != 3 || l == nil || l.Concurrency != 2 {
			t.Errorf("%+v", at)
		}
		for e, err := range r.mem.ListState(t.Context(), roster.Prefix, 0) {
			if age := time.Since(e.At); err != nil || age > roster.Every {
				t.Errorf("it reported %v ago: %v", age, err)
			}
		}
		r.stop()
		equal(t, r.ended(), nil)
		if all := r.registered(); len(all) != 0 {
			t.Errorf("it has ended: %+v", all)
		}
	})
}

// TestDrainByRegistration: one whose registration says that it drains does so, at the latest when it renews it.
func TestDrainByRegistration(t *testing.T) {
	bubble(t, func(r *rig) {
		r.run(registering(nil))
		time.Sleep(time.Minute + roster.Every/2) // not at the moment in which it looks for requests
		if err := operate.Drain(r.Context(), r.mem, "nobody", "ann"); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
		equal(t, operate.Drain(r.Context(), r.mem, "program", "ann"), nil)
		if all := r.registered(); len(all) != 1 || !all[0].Draining {
			t.Errorf("%+v", all)
		}
		time.Sleep(roster.Every)
		if err := r.ended(); !errors.Is(err, dispatch.ErrAsked) {
			t.Error(err)
		}
		if all := r.registered(); len(all) != 0 {
			t.Errorf("it has ended: %+v", all)
		}
		if err := operate.Drain(r.Context(), r.mem, "program", "ann"); !errors.Is(err, store.ErrNotFound) {
			t.Error(err)
		}
	})
}

// TestUnregisteredDispatcher says nothing.
func TestUnregisteredDispatcher(t *testing.T) {
	bubble(t, func(r *rig) {
		r.run(registering(func(c *dispatch.Config) { c.Unregistered = true }))
		time.Sleep(time.Minute)
		if all := r.registered(); len(all) != 0 {
			t.Errorf("%+v", all)
		}
	})
}

// TestKilledDispatcherStaysRegistered, as that of a process that was killed.
func TestKilledDispatcherStaysRegistered(t *testing.T) {
	bubble(t, func(r *rig) {
		r.run(registering(nil))
		synctest.Wait()
		r.d.Kill()
		synctest.Wait()
		if all := r.registered(); len(all) != 1 {
			t.Errorf("%+v", all)
		}
	})
}

// TestResultsAreNobodysWork: a topic that the program reads whole is registered as that, so that nobody is told to
// start a worker.
func TestResultsAreNobodysWork(t *testing.T) {
	bubble(t, func(r *rig) {
		r.run(registering(func(c *dispatch.Config) { c.Results = []string{"found"} }))
		if err := store.Send(t.Context(), r.mem, pawl.Message{ID: "a", Topic: "found"}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(roster.Every)
		x, err := operate.Explain(t.Context(), r.mem, r.mem, r.mem, "a")
		if err != nil || !strings.Contains(x.Why, "it is a result") || x.Served == nil || !*x.Served {
			t.Errorf("%v: %+v", err, x)
		}
	})
}
