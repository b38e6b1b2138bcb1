package guide_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cron"
	"github.com/pawl-dev/pawl/statesync"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// keepsSchedules writes a schedule, and fires it until ctx ends.
func keepsSchedules(ctx context.Context, s store.Store) {
	schedules, err := cron.New(s, cron.Config{})
	if err != nil {
		log.Fatal(err)
	}
	err = schedules.Put(ctx, cron.Schedule{
		Name: "nightly", Cron: "30 2 * * 1-5", Zone: "Europe/Berlin", Topic: "reports", Body: []byte("nightly"),
	})
	if err != nil {
		log.Fatal(err)
	}
	schedules.Run(ctx) // in every process: one of them fires
}

// sharesFlags sets a flag if nobody has, and prints every change until ctx ends.
func sharesFlags(ctx context.Context, s store.Store) {
	flags, err := statesync.New[bool](s, "flags", statesync.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := flags.Put(ctx, "beta", true, 0); err != nil { // version 0: there was none
		log.Print(err)
	}
	for v := range flags.Watch(ctx, "") {
		fmt.Println(v.Key, v.Value, v.Deleted)
	}
}

func TestKeepsSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // begins on Saturday, 1 January 2000
		s := memory.New(memory.Config{})
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 4*24*time.Hour)
		defer cancel()
		keepsSchedules(ctx, s)
		var ticks []string
		for m := range s.List(t.Context(), store.Filter{Topic: "reports"}) {
			ticks = append(ticks, m.Headers[cron.HeaderTick])
		}
		if got := fmt.Sprint(ticks); got != "[2000-01-03T02:30:00+01:00 2000-01-04T02:30:00+01:00]" {
			t.Error(got)
		}
		c, err := cron.New(s, cron.Config{})
		if err != nil {
			t.Fatal(err)
		}
		if all, err := c.List(t.Context()); err != nil || len(all) != 1 || all[0].Origin != "go" {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

func Example_flags() {
	s := memory.New(memory.Config{})
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	sharesFlags(ctx, s)
	// Output: beta true false
}
