package watch

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/observe"
)

// Health is the state of a process that works, as JSON.
type Health struct {
	// Status is ok or failing; with pipelines also degraded: one does part of its work.
	Status        string        `json:"status"`
	Problems      []string      `json:"problems"`
	Node          string        `json:"node"`
	UptimeSeconds float64       `json:"uptime_seconds"`
	Draining      bool          `json:"draining"`
	Held          int           `json:"held"`
	HeldBytes     int           `json:"held_bytes"`
	Topics        []TopicHealth `json:"topics"`
}

// TopicHealth is the state of a topic in this process, as JSON.
type TopicHealth struct {
	Topic       string  `json:"topic"`
	Handler     string  `json:"handler,omitempty"`
	Running     int     `json:"running"`
	Waiting     int     `json:"waiting"` // claimed, and not started
	Concurrency int     `json:"concurrency"`
	Zombies     int     `json:"zombies"`
	MeanSeconds float64 `json:"mean_seconds"`
	PerSecond   float64 `json:"per_second"`
	Acked       int64   `json:"acked"`
	Retried     int64   `json:"retried"`
	Dead        int64   `json:"dead"`
	Released    int64   `json:"released"`
	Lost        int64   `json:"lost"`
}

// HealthOf is the state of a dispatcher that runs since then, and has these problems.
func HealthOf(d *dispatch.Dispatcher, since time.Time, problems []string) Health {
	now := d.Snapshot()
	h := Health{
		Status: "ok", Problems: problems, Node: now.Owner, UptimeSeconds: time.Since(since).Seconds(),
		Draining: now.Draining, Held: now.Held, HeldBytes: now.Bytes,
	}
	if len(problems) > 0 {
		h.Status = "failing"
	} else {
		h.Problems = []string{}
	}
	for _, t := range now.Topics {
		h.Topics = append(h.Topics, TopicHealth{
			Topic: t.Name, Running: t.Running, Waiting: t.Waiting, Concurrency: t.Concurrency,
			Zombies: t.Zombies, MeanSeconds: t.Mean.Seconds(), PerSecond: t.Rate,
			Acked: t.Acked, Retried: t.Retried, Dead: t.Dead, Released: t.Released, Lost: t.Lost,
		})
	}
	return h
}

// Late is the metric of handlers that are near their deadline.
func Late(d *dispatch.Dispatcher) observe.Metric {
	return observe.HandlersLate(func(set func(value float64, labels ...string)) {
		for _, t := range d.Snapshot().Topics {
			set(float64(t.Late), t.Name)
		}
	})
}

// Probes adds /livez, which says that the process answers, and /readyz, which says whether it does its work. A caller
// may send work elsewhere because of /readyz, but must not end the process: /livez is for that.
func Probes(mux *http.ServeMux, problems func() []string) {
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { Say(w, http.StatusOK, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if all := problems(); len(all) > 0 {
			Say(w, http.StatusServiceUnavailable, "not ready\n"+strings.Join(all, "\n")+"\n")
			return
		}
		Say(w, http.StatusOK, "ready\n")
	})
}

// Say answers with a plain text that is not to be kept.
func Say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// show prints a state, for people.
func show(w http.ResponseWriter, h Health) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(h) // the client is gone
}
