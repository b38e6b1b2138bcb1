package cron

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestMissed: what becomes of ticks for which there was no scheduler.
func TestMissed(t *testing.T) {
	for missed, want := range map[string]string{
		"":         "00:01:00 fired, 00:02:00 missed, 00:03:00 missed, 00:04:00 made_up, 00:05:00 fired",
		MissedSkip: "00:01:00 fired, 00:02:00 missed, 00:03:00 missed, 00:04:00 missed, 00:05:00 fired",
		MissedAll:  "00:01:00 fired, 00:02:00 missed, 00:03:00 made_up, 00:04:00 made_up, 00:05:00 fired",
	} {
		t.Run(missed, func(t *testing.T) {
			bubble(t, func(r *rig) {
				r.put(Schedule{Name: "s", Every: time.Minute, Missed: missed, MissedWithin: 100 * time.Second})
				stop := r.start("a")
				time.Sleep(90 * time.Second)
				stop()
				time.Sleep(153 * time.Second) // 00:04:03: the last tick is recent, but nobody was there
				stop = r.start("b")
				time.Sleep(90 * time.Second)
				stop()
				r.want(r.history("s"), want)
				runs, err := r.History(r.Context(), "s")
				r.must(err)
				if missed == "" {
					r.want(runs[1].Why, "due 00:04 UTC; no scheduler from 00:01:30 to 00:04:03; "+
						"made up at 00:04:03 because missed: once")
				}
			})
		})
	}
}

// TestDueWhileItStarts: a process that has written its schedules is there, and what is due before it fires is late.
func TestDueWhileItStarts(t *testing.T) {
	bubble(t, func(r *rig) {
		time.Sleep(500 * time.Millisecond)
		_, err := r.Declare(r.Context(), "f", []Schedule{{Name: "s", Every: time.Minute, Topic: "t", Missed: MissedSkip}})
		r.must(err)
		time.Sleep(65 * time.Second)
		ctx, cancel := context.WithTimeout(r.Context(), 10*time.Second)
		defer cancel()
		r.Scheduler.Run(ctx)
		r.want(r.history("s"), "00:01:00 fired")
	})
	bubble(t, func(r *rig) {
		time.Sleep(500 * time.Millisecond) // it looks at 30.5 s and at 32.5 s
		stop := r.start("a")
		time.Sleep(30*time.Second + 100*time.Millisecond)
		r.put(Schedule{Name: "s", Every: time.Second, Missed: MissedSkip}) // the first one
		time.Sleep(2 * idle)
		stop()
		r.want(r.history("s")[:32], "00:00:31 fired, 00:00:32 fired, ")
	})
}

// TestManyMissed: a long absence is written down in full.
func TestManyMissed(t *testing.T) {
	bubble(t, func(r *rig) {
		r.put(Schedule{Name: "s", Every: time.Second, Missed: MissedAll})
		time.Sleep(12_345*time.Second + time.Second/2)
		stop := r.start("a")
		time.Sleep(time.Second / 4)
		stop()
		got := strings.Split(r.history("s"), ", ")
		if len(got) != 12_345 || strings.Count(strings.Join(got, ","), "made_up") != maxMadeUp {
			t.Errorf("%d rows, %d ticks", len(got), len(r.ticks()))
		}
	})
}

// TestLongAbsenceInParts: what was missed in a long absence is saved part by part, between which other schedules have
// their turn and the lease is renewed. All of it was in memory first, and copied again and again while it was saved.
func TestLongAbsenceInParts(t *testing.T) {
	bubble(t, func(r *rig) {
		r.put(Schedule{Name: "s", Every: time.Second, Missed: MissedSkip, MissedWithin: time.Hour})
		r.put(Schedule{Name: "other", Every: time.Hour})
		booked, before, saved := 0, 0, false
		s, err := New(r.store, Config{Owner: "a", Booked: func(name string, _ Run) {
			if name == "other" {
				before = max(before, booked)
			} else if booked++; booked == 2*most+1 {
				_, err := r.entries.GetState(r.Context(), runPrefix+"s")
				saved = err == nil
			}
		}})
		r.must(err)
		time.Sleep(7*time.Hour + time.Second/2)
		ctx, cancel := context.WithTimeout(r.Context(), 2*idle)
		defer cancel()
		s.Run(ctx)
		if !saved || before > most || booked < 7*3600 {
			t.Errorf("%d booked, saved on the way: %v, %d before those of another schedule", booked, saved, before)
		}
	})
}
