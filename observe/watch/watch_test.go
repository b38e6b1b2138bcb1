package watch

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestAProgramHasWhatTheDaemonHas: a program that runs a dispatcher exports every figure that the shipped alerts about
// topics, handlers and readiness read, and answers probes.
func TestAProgramHasWhatTheDaemonHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{})
		var msgs []pawl.Message
		for range 20 {
			msgs = append(msgs, pawl.Message{Topic: "mail", Key: []byte("k")})
		}
		if _, err := s.Append(t.Context(), store.NewBatch(msgs...)); err != nil {
			t.Fatal(err)
		}
		registry := observe.NewRegistry()
		metrics, err := observe.New(registry)
		if err != nil {
			t.Fatal(err)
		}
		hang := pawl.HandlerFunc(func(ctx context.Context, _ *pawl.Delivery) error { <-ctx.Done(); return ctx.Err() })
		d, err := dispatch.New(s, dispatch.Config{Topics: []dispatch.Topic{{Name: "mail", Handler: hang}},
			Observer: metrics})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		pages, err := Start(ctx, Config{Store: s, Dispatcher: d, Metrics: metrics, Registry: registry})
		if err != nil {
			t.Fatal(err)
		}
		page := func(path string) (int, string) {
			w := httptest.NewRecorder()
			pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
			return w.Code, w.Body.String()
		}
		if code, text := page("/readyz"); code != http.StatusServiceUnavailable || !strings.HasPrefix(text, "not ready\n") {
			t.Errorf("before it runs: %d %s", code, text)
		}
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		time.Sleep(25 * time.Second)
		synctest.Wait()
		_, text := page("/metrics")
		for _, want := range []string{"pawl_ready 1", `pawl_queue_messages{state="waiting",topic="mail"} 1`,
			`pawl_queue_oldest_age_seconds{topic="mail"} `, `pawl_topic_paused{topic="mail"} 0`,
			`pawl_queue_top_key_ratio{topic="mail"} 1`, `pawl_queue_counted_timestamp_seconds{topic="mail"} `,
			`pawl_handlers_late{topic="mail"} 0`, `pawl_handlers_running{topic="mail"} 1`} {
			if !strings.Contains(text, "\n"+want) {
				t.Errorf("missing: %s", want)
			}
		}
		if t.Failed() {
			t.Log(text)
		}
		if code, text := page("/readyz"); code != http.StatusOK {
			t.Errorf("ready: %d %s", code, text)
		}
		if code, _ := page("/livez"); code != http.StatusOK {
			t.Errorf("alive: %d", code)
		}
		var h Health
		if _, text := page("/healthz"); json.Unmarshal([]byte(text), &h) != nil || h.Status != "ok" ||
			len(h.Topics) != 1 || h.Topics[0].Running != 1 {
			t.Errorf("health: %s", text)
		}
		stop()
		<-ended
	})
}

// TestStartNeedsItsParts says which.
func TestStartNeedsItsParts(t *testing.T) {
	if _, err := Start(t.Context(), Config{}); err == nil || !strings.Contains(err.Error(), "Dispatcher") {
		t.Errorf("%v", err)
	}
}
