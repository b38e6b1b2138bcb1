package api_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/cron"
	"github.com/pawl-dev/pawl/internal/operate"
)

// TestSchedules: they have the form of `pawl schedules ls -o json`, with the outcome of the last message.
func TestSchedules(t *testing.T) {
	onStores(t, api.Config{Access: api.Access{Tokens: tokens}}, func(t *testing.T, d *door) {
		d = d.with(t).as("secret-admin")
		c, err := cron.New(d.store, cron.Config{Owner: "test"})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []cron.Schedule{{Name: "nightly", Cron: "30 2 * * *", Zone: "Europe/Berlin", Topic: "reports"},
			{Name: "poll", Every: time.Hour, Topic: "polls"}} {
			if err := c.Put(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		d.want(200, d.post("/v1/schedules/poll/run", ``))
		var all []operate.Schedule
		if d.want(200, d.get("/v1/schedules")).into(t, &all); len(all) != 2 {
			t.Fatalf("%+v", all)
		}
		if n := all[0]; n.Name != "nightly" || n.Zone != "Europe/Berlin" || n.NextAt == nil || n.LastTick != nil ||
			n.LastOutcome != "" {
			t.Errorf("%+v", n)
		}
		var poll operate.Schedule
		d.want(200, d.get("/v1/schedules/poll")).into(t, &poll)
		if poll.Every != "1h0m0s" || poll.Zone != "UTC" || poll.LastOutcome != "waiting" || all[1].LastOutcome != "waiting" {
			t.Errorf("%+v", poll)
		}
		d.want(404, d.get("/v1/schedules/none"))
	})
}
