//go:build unix

package e2e

import "net/http"

// projecting are troubles of a pipeline of the kind project, with a search index behind a proxy.
func projecting() map[string]fault {
	refused := func(status int, kind string) fail {
		return func(w http.ResponseWriter, r *http.Request, body []byte) bool {
			if r.URL.Path == "/_bulk" {
				refuse(w, body, status, kind)
			}
			return r.URL.Path == "/_bulk"
		}
	}
	mended := func(s *shop) { s.breaks(nil) }
	stuck := ofShop("max_processing_seconds: 60", func(s *shop) {
		s.holds(0)
		s.put("slow", 1)
		s.wait("it is held", func() bool { return s.status().Processing == 1 })
	}, mended)
	stuck.unproved = "another process gives them back within a second"
	throttled := ofShop("", func(s *shop) {
		s.put("before", many(5)...)
		s.settled()
		s.breaks(refused(http.StatusTooManyRequests, "rejected_execution_exception"))
		s.put("during", many(5)...)
		s.until(metric(s.incident, "outbox_item_errors_total"), "throttle")
	}, mended)
	throttled.mendAt = "3."
	mapping := ofShop("mapping: strict.json", func(s *shop) {
		s.put("x", many(60)...)
		s.wait("they are dead", func() bool { return s.status().Failed == 60 })
	}, func(s *shop) {
		s.asked(http.MethodPut, "/"+s.index+"/_mapping", `{"properties":{"name":{"type":"text"}}}`)
	})
	mapping.mendAt = "3."
	return map[string]fault{
		"PawlOutboxStuck":     stuck,
		"PawlOutboxThrottled": throttled,
		"PawlOutboxMapping":   mapping,
		"PawlOutboxNotMoving": ofShop("", func(s *shop) {
			s.put("before", many(5)...)
			s.settled()
			s.until(metric(s.incident, "outbox_items_total"), `"ok"`)
			s.until(metric(s.incident, "outbox_lag_rows"), "} 0")
			s.calm = s.scrape()
			s.breaks(func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			})
			s.put("during", many(5)...)
			s.until(metric(s.incident, "outbox_lag_rows"), "} 5")
		}, mended),
	}
}

// ofShop is a fault of a shop on SQLite whose section has more keys.
func ofShop(more string, cause, mend func(*shop)) fault {
	var s *shop
	return fault{
		store: func(in *incident) {
			in.Helper()
			in.fill["PROJECTION"] = "search"
			s = newShop(in, false)
			s.write("strict.json", `{"mappings":{"dynamic":"strict","properties":{}}}`)
			s.configure(more)
		},
		cause: func(*incident) { cause(s) },
		mend:  func(*incident) { mend(s) },
	}
}
