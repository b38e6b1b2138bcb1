//go:build unix

package e2e

import (
	"net/http"
	"strings"
	"time"
)

// rebuildSurvivesKills rebuilds while changes come, and kills the daemon in the middle. A search on the alias
// never fails; then the alias goes back.
func rebuildSurvivesKills(s *shop) {
	s.configure("batch_size: 10")
	s.put("first", many(150)...)
	s.start()
	s.settled()
	done := make(chan struct{})
	searched := make(chan error, 1)
	go func() {
		for {
			select {
			case <-done:
				searched <- nil
				return
			case <-time.After(5 * time.Millisecond):
			}
			if err := s.ask(http.MethodGet, "/"+s.index+"/_search", "", nil); err != nil {
				searched <- err
				return
			}
		}
	}()
	release := s.holds(3) // so that there is a middle
	// On slow cores the index may not answer in time; nothing has begun then.
	s.must(`until pawl project rebuild search -q || ! pawl project status search -o json | grep '"rebuild":null'; do
			sleep 1; done >rebuild.out 2>&1 & echo $! >rebuild.pid`)
	s.wait("some pages", func() bool {
		return s.one(`SELECT max(done) FROM projection_status WHERE state = 'building' AND done > 20`) != ""
	})
	s.must("daemon kill KILL; daemon gone")
	release()
	s.put("meanwhile", 3, 140)
	s.start()
	s.put("after", 5, 145)
	s.wait("the swap", func() bool { return s.status().Index == s.index+"-000002" })
	s.says("pawl project status search -o json", `…"rebuild":null…`, 0)
	close(done)
	if err := <-searched; err != nil {
		s.Errorf("a search failed: %v", err)
	}
	s.settled()
	s.equal()
	s.put("for both", 7)
	s.settled()
	s.must("pawl project rollback search")
	s.equal()
	s.must("pawl project verify search")
}

// deadLetters sees a mapping error through: dead letter, mended mapping, replay, equal.
func deadLetters(s *shop) {
	s.write("strict.json", `{"mappings":{"dynamic":"strict","properties":{}}}`)
	s.configure("mapping: strict.json")
	s.start()
	s.put("x", 1, 2, 3)
	s.says("pawl project status search -o json", `…"pending":0,"processing":0,"stuck":0,"failed":3…`, 0)
	s.says(`pawl project replay search --class size -o json`, `{"matched":0,"replayed":0}`, 0)
	s.says(`pawl project replay search --since 2d --until 2000-01-01 -o json`, `{"matched":0,"replayed":0}`, 0)
	s.says(`pawl project replay search --class mapping --doc 2 --dry-run -o json`, `{"matched":1,"replayed":0}`, 0)
	// One that fails again opens the same row again.
	id := s.one(`SELECT id FROM dead_letter_outbox WHERE doc_id = '2'`)
	s.says(`pawl project replay search --doc 2 --yes -o json`, `{"matched":1,"replayed":1}`, 0)
	s.wait("dead again", func() bool {
		again := s.one(
			`SELECT max(id) FROM dead_letter_outbox WHERE doc_id = '2' AND replay_count = 1 AND resolved_at IS NULL`)
		return again == id && s.status().Failed == 3
	})
	s.asked(http.MethodPut, "/"+s.index+"/_mapping", `{"properties":{"name":{"type":"text"}}}`)
	s.says(`pawl project replay search --class mapping --since 1h --keep-attempts --rate 100/s --yes -o json`,
		`{"matched":3,"replayed":3}`, 0)
	s.says("pawl project status search -o json", `…"pending":0,"processing":0,"stuck":0,"failed":0…`, 0)
	s.equal()
	s.wait("resolved", func() bool {
		return s.one(
			`SELECT count(*) FROM dead_letter_outbox WHERE resolved_at IS NOT NULL AND resolved_by <> ''`) == "3"
	})
	s.until("pawl audit ls", "project replay")
}

// outages takes the index away, and lets it refuse who asks: nothing dies, and health says what it is.
func outages(s *shop) {
	s.start()
	s.put("before", 1)
	s.settled()
	answers := func(status int) fail {
		return func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			w.WriteHeader(status)
			return true
		}
	}
	for _, status := range []int{http.StatusServiceUnavailable, http.StatusUnauthorized, http.StatusForbidden} {
		s.breaks(answers(status))
		s.put("during", many(5)...)
		s.says("curl -s "+s.address+"/healthz", `…"search":{"error":"…HTTP …","ok":false}…`, 0)
		s.until("curl -s -o /dev/null -w '%{http_code}' "+s.address+"/readyz", "200")
		s.says("pawl project status search -o json", `…"state":"degraded"…`, 0)
		s.says("pawl project verify search", "HTTP", 1)
		s.breaks(nil)
		s.settled()
		s.says("curl -s "+s.address+"/healthz", `…"search":{"error":"","ok":true}…`, 0)
	}
	s.equal()
	if n := s.status().Failed; n != 0 {
		s.Errorf("%d dead letters", n)
	}
}

// operations does what an operator does.
func operations(s *shop) {
	s.start()
	s.put("x", 1)
	s.settled()
	s.must("pawl project pause search --reason 'the index moves'")
	s.put("y", 1)
	s.says("pawl project status search -o json", `…"state":"paused"…"pending":1…`, 0)
	s.must("pawl project resume search")
	s.settled()
	s.equal()

	s.must("pawl project flag search off --reason storm")
	s.until("curl -sS "+s.address+"/pipelines/search/flag", `{"read":"off","since":"…","by":"…","reason":"storm"}`)
	s.says("pawl project status search -o json", `…"flag":"off"…`, 0)
	s.must("pawl project flag search on --reason over")

	s.exec(`UPDATE goods SET version = 9 WHERE id = 1`)
	s.exec(`INSERT INTO goods (id, name, version) VALUES (2, 'nobody told the outbox', 1)`)
	s.says("pawl project verify search -o json", `{"checked":2,"missing":1,"stale":1,"extra":0,"verdict":"different"}`,
		7)
	s.exec(`UPDATE goods SET gone = true`)
	s.says("pawl project verify search --sample 5 -o json",
		`{"checked":0,"missing":0,"stale":0,"extra":1,"verdict":"different"}`, 7)

	// A request that takes long is taken away from its process.
	release := s.holds(0)
	s.put("slow", 1)
	s.wait("it is held", func() bool { return s.status().Processing == 1 })
	s.says("pawl project reclaim search --older-than 10ms --yes -o json", `{"reclaimed":1}`, 0)
	release()
	s.settled()
	s.until("pawl audit ls", "project reclaim")
	page := s.must("curl -sS " + s.address + "/metrics")
	for name := range strings.FieldsSeq(
		`outbox_inflight_events outbox_oldest_age_seconds outbox_stuck_processing_events outbox_items_total
			outbox_last_success_timestamp_seconds outbox_lag_rows outbox_bulk_duration_seconds_count`) {
		if !strings.Contains(page, "\n"+name+`{projection="search"`) {
			s.Errorf("/metrics has no %s", name)
		}
	}
}
