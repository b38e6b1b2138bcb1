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

// TestScheduleVerbs writes a schedule, looks at its ticks, and sends its message by hand.
func TestScheduleVerbs(t *testing.T) {
	onStores(t, api.Config{Access: api.Access{Tokens: tokens}}, func(t *testing.T, d *door) {
		d = d.with(t).as("secret-admin")
		d.want(403, d.as("secret-viewer").post("/v1/schedules/nightly/put", `{"topic":"reports","cron":"@daily"}`))
		for body, field := range map[string]string{
			`{"topic":"reports"}`: "cron",
			`{"topic":"reports","cron":"@daily","every_seconds":5}`:     "every",
			`{"topic":"reports","cron":"61 * * * *"}`:                   "cron",
			`{"topic":"reports","cron":"@daily","jitter_seconds":-1}`:   "jitter_seconds",
			`{"topic":"reports","cron":"@daily","jitter_seconds":1e9}`:  "jitter_seconds",
			`{"topic":"reports","cron":"@daily","body":"x","json":"x"}`: "json",
			`{"topic":"reports","cron":"@daily","every":"5m"}`:          "every",
		} {
			if got := fieldsOf(t, d.want(422, d.post("/v1/schedules/nightly/put", body))); got[0] != field &&
				got[0] != field+"_seconds" {
				t.Errorf("%s: %v", body, got)
			}
		}
		var s operate.Schedule
		d.want(200, d.post("/v1/schedules/nightly/put",
			`{"topic":"reports","cron":"30 2 * * *","zone":"Europe/Berlin","json":{"n": 1.0}}`)).into(t, &s)
		if s.Origin != "api" || s.NextAt == nil {
			t.Errorf("%+v", s)
		}
		var ticks []operate.Tick
		d.want(200, d.get("/v1/schedules/nightly/next?n=2&from=2026-03-28T00:00:00Z")).into(t, &ticks)
		if len(ticks) != 2 || ticks[1].Tick != "2026-03-29T03:00:00+02:00" {
			t.Errorf("%+v", ticks)
		}
		d.want(422, d.get("/v1/schedules/nightly/next?n=0"))
		d.want(200, d.post("/v1/schedules/nightly/run", `{"at":"2026-01-01T00:00:00Z"}`))
		var filled operate.Backfill
		backfill := `{"since":"2026-03-01T00:00:00Z","until":"2026-03-04T00:00:00Z"`
		for _, more := range []string{`,"dry_run":true}`, `,"rate":100}`} {
			d.want(200, d.post("/v1/schedules/nightly/backfill", backfill+more)).into(t, &filled)
			if filled.Count != 3 || filled.Ticks[0] != "2026-03-01T02:30:00+01:00" {
				t.Errorf("%+v", filled)
			}
		}
		d.want(200, d.post("/v1/schedules/nightly/backfill", backfill+"}")).into(t, &filled)
		if filled.Count != 0 {
			t.Errorf("the second time: %+v", filled)
		}
		d.want(422, d.post("/v1/schedules/nightly/backfill", backfill+`,"rate":0.01,"dry_run":false,"since":
			"2020-01-01T00:00:00Z"}`))
		var runs []operate.Run
		d.want(200, d.get("/v1/schedules/nightly/history")).into(t, &runs)
		if len(runs) != 4 || runs[0].Action != "backfill" || runs[3].Action != "manual" || runs[3].Outcome != "waiting" {
			t.Errorf("%+v", runs)
		}
		if got := d.lease(`{"topics":["reports"]}`); len(got) != 1 || got[0].Body != `{"n": 1.0}` {
			t.Errorf("%+v", got)
		}
		d.want(404, d.get("/v1/schedules/none/history"))
		d.want(404, d.post("/v1/schedules/none/backfill", backfill+"}"))
	})
}

// TestReclaim takes a message back from its worker.
func TestReclaim(t *testing.T) {
	onStores(t, api.Config{}, func(t *testing.T, d *door) {
		d = d.with(t)
		d.want(201, d.post("/v1/topics/mail/messages", `{"id":"m"}`))
		d.want(409, d.post("/v1/messages/m/reclaim", ``))
		got := d.lease(`{"topics":["mail"]}`)
		d.want(200, d.post("/v1/messages/m/reclaim", ``, "Pawl-Reason: it hangs"))
		if r := d.settle(`{"settlements":[{"token":"` + got[0].Token + `","verdict":"ack"}]}`); r[0].Action != "lost" {
			t.Errorf("%+v", r)
		}
		if got = d.lease(`{"topics":["mail"]}`); len(got) != 1 || got[0].Attempt != 1 {
			t.Errorf("%+v", got)
		}
	})
}
