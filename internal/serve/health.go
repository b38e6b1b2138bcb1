package serve

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/redact"
)

// Health is the state of a daemon, as JSON.
type Health struct {
	Status        string        `json:"status"` // ok, degraded (a pipeline does part of its work) or failing
	Problems      []string      `json:"problems"`
	Node          string        `json:"node"`
	Version       string        `json:"version"`
	UptimeSeconds float64       `json:"uptime_seconds"`
	Draining      bool          `json:"draining"`
	Held          int           `json:"held"`
	HeldBytes     int           `json:"held_bytes"`
	Config        ConfigHealth  `json:"config"`
	Topics        []TopicHealth `json:"topics"`
}

// ConfigHealth says which configuration is in effect, as JSON.
type ConfigHealth struct {
	File     string    `json:"file"`
	LoadedAt time.Time `json:"loaded_at"`
	// Faults are those of a newer file, which is not in effect.
	Faults []string `json:"faults"`
}

// TopicHealth is the state of a topic in this process, as JSON.
type TopicHealth struct {
	Topic       string  `json:"topic"`
	Handler     string  `json:"handler"`
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

// handler serves /livez, /readyz, /healthz, /metrics and /events.
func (d *Daemon) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", livez)
	mux.HandleFunc("GET /readyz", d.readyz)
	mux.HandleFunc("GET /healthz", d.healthz)
	mux.Handle("GET /metrics", d.scrape)
	mux.HandleFunc("GET /events", d.boardz)
	d.host.Routes(mux)
	return mux
}

// livez tells that the process answers.
func livez(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok\n") }

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// readyz tells whether the daemon does its work. A caller may send work elsewhere, but
// must not end the process because of it: /livez is for that.
func (d *Daemon) readyz(w http.ResponseWriter, _ *http.Request) {
	problems := d.problems()
	if len(problems) == 0 {
		say(w, http.StatusOK, "ready\n")
		return
	}
	say(w, http.StatusServiceUnavailable, "not ready\n"+strings.Join(problems, "\n")+"\n")
}

// problems are why the daemon is not ready.
func (d *Daemon) problems() []string {
	var all []string
	if err := d.dispatcher.Ready(); err != nil {
		all = append(all, redact.URL(err.Error()))
	}
	if err := d.host.Ready(); err != nil {
		all = append(all, redact.URL(err.Error()))
	}
	for _, c := range d.served {
		if err := c.failing(); err != nil {
			all = append(all, fmt.Sprintf("topic %s: %v", c.topic.Name, err))
		}
	}
	return all
}

// healthz is for people: it is 200, unless a pipeline says that what it depends on is away.
func (d *Daemon) healthz(w http.ResponseWriter, r *http.Request) {
	h := d.health()
	problems, unhealthy, details := d.host.Health(r.Context())
	h.add(problems, unhealthy)
	document, err := h.with(details)
	if err != nil {
		say(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if unhealthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(document) // the client is gone
}

// add takes in what pipelines say.
func (h *Health) add(problems []string, unhealthy bool) {
	h.Problems = append(h.Problems, problems...)
	switch {
	case unhealthy:
		h.Status = "failing"
	case len(problems) > 0 && h.Status == "ok":
		h.Status = "degraded"
	}
}

// with is the document with members that pipelines add. What it has itself stays.
func (h *Health) with(details map[string]any) (any, error) {
	if len(details) == 0 {
		return h, nil
	}
	b, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	own := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &own); err != nil {
		return nil, err
	}
	for name, v := range details {
		if _, there := own[name]; there {
			continue
		}
		if own[name], err = json.Marshal(v); err != nil {
			return nil, err
		}
	}
	return own, nil
}

func (d *Daemon) health() Health {
	now := d.dispatcher.Snapshot()
	h := Health{
		Status: "ok", Problems: d.problems(), Node: now.Owner, Version: d.Version,
		UptimeSeconds: time.Since(d.began).Seconds(),
		Draining:      now.Draining, Held: now.Held, HeldBytes: now.Bytes,
	}
	if len(h.Problems) > 0 {
		h.Status = "failing"
	} else {
		h.Problems = []string{}
	}
	d.mu.Lock()
	h.Config = ConfigHealth{d.loaded.file, d.loaded.at.UTC(), append([]string{}, d.loaded.faults...)}
	d.mu.Unlock()
	for i, t := range now.Topics {
		handler := "pipeline" // what a configuration names comes first, in its order
		if i < len(d.served) {
			handler = d.served[i].topic.Handler
			if c := d.served[i]; !c.resizes() {
				t.Concurrency = c.topic.Concurrency // its slots are for the gate to say
			}
		}
		h.Topics = append(h.Topics, TopicHealth{
			Topic: t.Name, Handler: handler, Running: t.Running, Waiting: t.Waiting, Concurrency: t.Concurrency,
			Zombies: t.Zombies, MeanSeconds: t.Mean.Seconds(), PerSecond: t.Rate,
			Acked: t.Acked, Retried: t.Retried, Dead: t.Dead, Released: t.Released, Lost: t.Lost,
		})
	}
	return h
}
