package serve

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/observe/watch"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

func ignore(context.Context, *pawl.Delivery) error { return nil }

// sample is a host of one pipeline named search.
func sample(t *testing.T, made *pipeline.Pipeline) (*Host, store.Store) {
	t.Helper()
	s := memory.New(memory.Config{})
	made.Stages = append(made.Stages, pipeline.Stage{Topic: dispatch.Topic{Name: "search.work",
		Handler: pawl.HandlerFunc(ignore)}})
	kind := &pipeline.Kind{Name: "sample", New: func(context.Context, pipeline.Env) (*pipeline.Pipeline, error) {
		return made, nil
	}}
	h, err := NewHost(t.Context(), HostConfig{
		Pipelines: []config.Pipeline{{Name: "search", Kind: kind}}, Store: s, Logger: slog.New(slog.DiscardHandler),
		Owner: "test/1",
	})
	if err != nil {
		t.Fatal(err)
	}
	return h, s
}

// Nobody works on the pages of a crawl: they are read whole. Without a word about that, tools would miss a worker.
func TestPagesOfACrawlNeedNoWorker(t *testing.T) {
	c, err := config.Load(config.Source{Path: "pawl.yaml", Kinds: Kinds(), Text: []byte(
		"pipelines: {shoes: {kind: crawl, seeds: ['http://127.0.0.1:1/'], allow_private: true}}")})
	if err != nil {
		t.Fatal(err)
	}
	h, err := NewHost(t.Context(), HostConfig{Pipelines: c.Pipelines, Store: memory.New(memory.Config{}),
		Logger: slog.New(slog.DiscardHandler), Owner: "test/1"})
	if err != nil {
		t.Fatal(err)
	}
	if got := h.Results(); !slices.Equal(got, []string{"shoes.store"}) {
		t.Errorf("the topics that are read whole: %q", got)
	}
}

func TestMatrixOfAllKinds(t *testing.T) {
	if _, err := Matrix(); err != nil {
		t.Fatal(err)
	}
}

func TestHostRecordsPausesAndResumes(t *testing.T) {
	h, s := sample(t, &pipeline.Pipeline{Health: func(context.Context) pipeline.Health {
		return pipeline.Health{Degraded: "search is away"}
	}})
	if err := h.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	state := func() string {
		all, err := operate.Pipelines(t.Context(), s)
		if err != nil || len(all) != 1 || all[0].Name != "search" || all[0].Kind != "sample" {
			t.Fatalf("pipelines: %+v, %v", all, err)
		}
		return all[0].State + ": " + all[0].Why
	}
	if got := state(); got != "degraded: search is away" {
		t.Errorf("state is %q", got)
	}
	pause := func(on store.Topics, topic string) error { return on.Pause(t.Context(), topic, 0, "ann", "moving") }
	if err := operate.EachTopic(t.Context(), s, "search", pause); err != nil {
		t.Fatal(err)
	}
	if got := state(); got != "paused: moving" {
		t.Errorf("state is %q", got)
	}
	if err := operate.EachTopic(t.Context(), s, "search", func(on store.Topics, topic string) error {
		return on.Resume(t.Context(), topic)
	}); err != nil {
		t.Fatal(err)
	}
	if got := state(); got != "degraded: search is away" {
		t.Errorf("state is %q after resume", got)
	}
	if err := operate.EachTopic(t.Context(), s, "serach", pause); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("pausing an unknown pipeline: %v", err)
	}
}

// TestLastSuccessOfAPipelineThatSaysNone: it is the last ack of its topics.
func TestLastSuccessOfAPipelineThatSaysNone(t *testing.T) {
	h, s := sample(t, &pipeline.Pipeline{})
	if err := h.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	last := func() *time.Time {
		all, err := operate.Pipelines(t.Context(), s)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0].LastSuccessAt
	}
	if at := last(); at != nil {
		t.Errorf("before any work the last success is %v", at)
	}
	if err := store.Send(t.Context(), s, pawl.Message{Topic: "search.work", ID: "1"}); err != nil {
		t.Fatal(err)
	}
	ds, err := s.Claim(t.Context(), []store.Want{{Topic: "search.work", Limit: 1}},
		store.Lease{Owner: "test", For: time.Minute})
	if err != nil || len(ds) != 1 {
		t.Fatal(ds, err)
	}
	done := store.Settlement{Token: ds[0].Token, ID: ds[0].ID, Verdict: store.Ack}
	if _, err := s.Settle(t.Context(), store.NewBatch(done)); err != nil {
		t.Fatal(err)
	}
	if at := last(); at == nil {
		t.Error("there is no last success after an ack")
	}
}

func TestHostStartsAPipelineAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		h, _ := sample(t, &pipeline.Pipeline{Run: func(ctx context.Context) error {
			if runs.Add(1) < 3 {
				return errors.New("the port is taken")
			}
			<-ctx.Done()
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- h.Run(ctx, func(err error) { t.Errorf("failed for good: %v", err) }) }()
		time.Sleep(500 * time.Millisecond)
		if problems, _, _ := h.Health(ctx); len(problems) != 1 || !strings.Contains(problems[0], "the port is taken") {
			t.Errorf("problems while it does not run: %q", problems)
		}
		time.Sleep(10 * time.Second)
		if problems, _, _ := h.Health(ctx); runs.Load() != 3 || len(problems) != 0 {
			t.Errorf("%d runs, problems %q", runs.Load(), problems)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestHostEndsTheDaemonWhenNothingWillHelp(t *testing.T) {
	h, _ := sample(t, &pipeline.Pipeline{Run: func(context.Context) error {
		return pipeline.Fatal(errors.New("the token is refused"))
	}})
	ctx, cancel := context.WithCancelCause(t.Context())
	if err := h.Run(ctx, cancel); err != nil {
		t.Fatal(err)
	}
	if err := context.Cause(ctx); err == nil || err.Error() != "pipeline search: the token is refused" {
		t.Errorf("the cause is %v", err)
	}
}

func TestHostRefusesAStoreThatLacksWhatIsNeeded(t *testing.T) {
	s := memory.New(memory.Config{})
	kind := &pipeline.Kind{Name: "sample", New: func(context.Context, pipeline.Env) (*pipeline.Pipeline, error) {
		return &pipeline.Pipeline{Needs: []store.Capability{"Levitation"}}, nil
	}}
	_, err := NewHost(t.Context(), HostConfig{Pipelines: []config.Pipeline{{Name: "a", Kind: kind}}, Store: s,
		Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "pipeline a: needs Levitation") {
		t.Errorf("got %v", err)
	}
}

func TestHostRoutesAndDetails(t *testing.T) {
	h, _ := sample(t, &pipeline.Pipeline{
		Routes: map[string]http.HandlerFunc{"GET /flag": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("on"))
		}},
		Health: func(context.Context) pipeline.Health {
			return pipeline.Health{Unhealthy: true, Details: map[string]any{"search": map[string]any{"ok": false}}}
		},
	})
	mux := http.NewServeMux()
	h.Routes(mux)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/pipelines/search/flag", nil))
	if w.Body.String() != "on" {
		t.Errorf("the route answers %d %q", w.Code, w.Body)
	}
	_, unhealthy, details := h.Health(t.Context())
	if search, _ := details["search"].(map[string]any); !unhealthy || search["ok"] != false {
		t.Errorf("health: %v %v", unhealthy, details)
	}
	into := map[string]any{"projections": map[string]any{"a": 1}}
	merge(into, map[string]any{"projections": map[string]any{"b": 2}})
	if got := into["projections"].(map[string]any); got["a"] != 1 || got["b"] != 2 {
		t.Errorf("merged: %v", into)
	}
}

func TestPipelinesDegradeTheDaemon(t *testing.T) {
	for _, c := range []struct {
		before    string
		problems  []string
		unhealthy bool
		after     string
	}{
		{"ok", nil, false, "ok"},
		{"ok", []string{"the API is limited"}, false, "degraded"},
		{"failing", []string{"the API is limited"}, false, "failing"},
		{"ok", []string{"search is away"}, true, "failing"},
	} {
		h := Health{Health: watch.Health{Status: c.before}}
		if h.add(c.problems, c.unhealthy); h.Status != c.after || len(h.Problems) != len(c.problems) {
			t.Errorf("%+v: %+v", c, h)
		}
	}
}

// What a pipeline changes of its stages at a reload is in effect afterwards, on the daemon's store and on others.
func TestHostResizesStages(t *testing.T) {
	beside := memory.New(memory.Config{})
	batch := pawl.BatchHandlerFunc(func(_ context.Context, ds []*pawl.Delivery) []error {
		return make([]error, len(ds))
	})
	made := &pipeline.Pipeline{Stages: []pipeline.Stage{{Store: beside,
		Topic: dispatch.Topic{Name: "search.bulk", Batch: batch}}}}
	made.Reload = func(pipeline.Section) error {
		for i := range made.Stages {
			made.Stages[i].Concurrency = 7
		}
		return nil
	}
	h, s := sample(t, made)
	d, err := dispatch.New(s, dispatch.Config{Topics: h.Topics()})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Reload(d, h.Pipelines); err != nil {
		t.Fatal(err)
	}
	for _, d := range []*dispatch.Dispatcher{d, h.beside[0]} {
		if now := d.Snapshot().Topics[0]; now.Concurrency != 7 {
			t.Errorf("%s has a concurrency of %d after the reload", now.Name, now.Concurrency)
		}
	}
	made.Stages[0].BatchWait = -1
	if err := h.Reload(d, h.Pipelines); err == nil {
		t.Error("a wait that no batch may have was taken")
	}
}
