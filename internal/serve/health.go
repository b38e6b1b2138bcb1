package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/pawl-dev/pawl/internal/redact"
	"github.com/pawl-dev/pawl/observe/watch"
)

// Health is the state of a daemon, as JSON.
type Health struct {
	watch.Health
	Version string       `json:"version"`
	Config  ConfigHealth `json:"config"`
}

// ConfigHealth says which configuration is in effect, as JSON.
type ConfigHealth struct {
	File     string    `json:"file"`
	LoadedAt time.Time `json:"loaded_at"`
	// Faults are those of a newer file, which is not in effect.
	Faults []string `json:"faults"`
}

// handler serves /livez, /readyz, /healthz, /metrics and /events.
func (d *Daemon) handler() http.Handler {
	mux := http.NewServeMux()
	watch.Probes(mux, d.problems)
	mux.HandleFunc("GET /healthz", d.healthz)
	mux.Handle("GET /metrics", d.scrape)
	mux.HandleFunc("GET /events", d.boardz)
	d.host.Routes(mux)
	return mux
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
		http.Error(w, err.Error(), http.StatusInternalServerError)
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
	h := Health{Health: watch.HealthOf(d.dispatcher, d.began, d.problems()), Version: d.Version}
	d.mu.Lock()
	h.Config = ConfigHealth{d.loaded.file, d.loaded.at.UTC(), append([]string{}, d.loaded.faults...)}
	d.mu.Unlock()
	for i := range h.Topics {
		t := &h.Topics[i]
		t.Handler = "pipeline" // what a configuration names comes first, in its order
		if i < len(d.served) {
			t.Handler = d.served[i].topic.Handler
			if c := d.served[i]; !c.resizes() {
				t.Concurrency = c.topic.Concurrency // its slots are for the pipe to say
			}
		}
	}
	return h
}
