package convert

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/convert/chaos"
	"github.com/pawl-dev/pawl/pipeline/convert/llm"
	"github.com/pawl-dev/pawl/store"
)

// What an interrupted run tells to type goes on with the same run: other flags would make, and pay, all of it again.
func TestRunSaysHowToResumeIt(t *testing.T) {
	r := newRig(t)
	r.write("a.md", "a\n")
	ctx, cancel := context.WithCancelCause(t.Context())
	r.models(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPost {
			cancel(errors.New("a signal"))
		}
	}))
	_, err := r.run(ctx, map[string]any{"fresh": true, "llm": "local/small", "exclude": []string{"*.tmp", "it's"},
		"page-markers": true,
		"max-retries":  int64(7)})
	e, ok := errors.AsType[*pipeline.Error](err)
	want := " --llm local/small --page-markers --max-retries 7 --exclude '*.tmp' --exclude 'it'\\''s' "
	if !ok || e.Code != pipeline.ExitUnfinished || strings.Contains(e.Next, "--fresh") ||
		!strings.HasSuffix(e.Next, " --resume") {
		t.Fatalf("%v: %+v", err, e)
	}
	for w := range strings.SplitSeq(strings.TrimSpace(want), " --") {
		if !strings.Contains(e.Next, strings.TrimPrefix(w, "--")) {
			t.Errorf("%q has no %s", e.Next, w)
		}
	}
}

// A source may be a link; one within a source is not followed.
func TestRunFollowsTheLinksThatAreNamed(t *testing.T) {
	r := newRig(t)
	r.write("a.md", "a\n")
	r.write("b.md", "b\n")
	dir := t.TempDir()
	folder, file := filepath.Join(dir, "folder"), filepath.Join(dir, "other.md")
	if err := errors.Join(os.Symlink(r.src, folder), os.Symlink(filepath.Join(r.src, "b.md"), file),
		os.Symlink(file, filepath.Join(r.src, "c.md"))); err != nil {
		t.Fatal(err)
	}
	all, err := findSources([]string{folder, file})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	walk := &run{sources: all}
	if err := walk.walk(t.Context(), func(f found) error { names = append(names, f.path); return nil },
		func() {}, func(string, error) {}); err != nil ||
		strings.Join(names, " ") != "folder/a.md folder/b.md other.md" {
		t.Errorf("%q %v", names, err)
	}
}

// failure_count has all failures there were; --retry-failed gives a file as many attempts as it had at first.
func TestRetryFailedKeepsCounting(t *testing.T) {
	r := newRig(t)
	r.write("a.md", "a\n")
	failing := chaos.New(chaos.Config{FailureRate: 1, Seed: 1})
	r.models(failing)
	flags := map[string]any{"llm": "local/small", "max-retries": int64(1), "retry-failed": true}
	for _, want := range []int{2, 4} {
		if _, err := r.run(t.Context(), flags); code(err) != pipeline.ExitPartly {
			t.Fatal(err)
		}
		if got := r.state().Files["a.md"]; got.Status != permanent || got.FailureCount != want {
			t.Fatalf("%+v; want %d failures", got, want)
		}
	}
	r.models(chaos.New(chaos.Config{Seed: 1}))
	s, err := r.run(t.Context(), flags)
	if got := r.state().Files["a.md"]; err != nil || s.Completed != 1 || got.FailureCount != 4 || got.LastError != "" {
		t.Errorf("%v %+v %+v", err, s, got)
	}
}

// What a provider advertises as used up is not asked for before it says.
func TestAdvertisedLimitsAreKept(t *testing.T) {
	for name, value := range map[string]string{
		"X-Ratelimit-%s-Requests": "100ms", "X-Ratelimit-%s-Tokens": "100ms",
		"Anthropic-Ratelimit-Requests-%s": "", "Anthropic-Ratelimit-Tokens-%s": "",
		"Anthropic-Ratelimit-Input-Tokens-%s": "", "Anthropic-Ratelimit-Output-Tokens-%s": "",
	} {
		r := newRig(t)
		r.write("a.md", "a\n")
		r.write("b.md", "b\n")
		server := chaos.New(chaos.Config{Seed: 1})
		var began []time.Time
		var reset time.Time
		r.models(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.Method == http.MethodPost {
				if began = append(began, time.Now()); len(began) == 1 {
					reset = time.Now().Add(100 * time.Millisecond)
					if value == "" {
						value = reset.UTC().Format(time.RFC3339Nano)
					}
					w.Header().Set(strings.Replace(name, "%s", "Remaining", 1), "0")
					w.Header().Set(strings.Replace(name, "%s", "Reset", 1), value)
				}
			}
			server.ServeHTTP(w, q)
		}))
		s, err := r.run(t.Context(), map[string]any{"llm": "local/small", "max-concurrency": int64(1)})
		if err != nil || s.Completed != 2 || len(began) != 2 || began[1].Before(reset) {
			t.Errorf("%s: %v %+v; asked again %v before it was allowed", name, err, s, reset.Sub(began[len(began)-1]))
		}
	}
}

// A provider that cannot be reached fails no document: they wait, until it has been away for too long.
func TestAProviderThatIsAwayFailsNoDocument(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	m := &improver{provider: llm.New(llm.Config{BaseURL: gone.URL, Timeout: time.Minute,
		Logger: slog.New(slog.DiscardHandler)}), budget: -1, stats: &stats{}, maxAway: time.Hour}
	for range 2 {
		_, err := m.improve(t.Context(), "a.md", "a\n")
		if what := pawl.Describe(err); what.Class != pawl.ClassThrottled || what.Kind != llm.KindAway ||
			errors.Is(err, errAway) {
			t.Fatalf("%v: %+v", err, what)
		}
	}
	m.maxAway = 0
	if _, err := m.improve(t.Context(), "a.md", "a\n"); !errors.Is(err, errAway) {
		t.Error(err)
	}
	r := &run{}
	ctx, stop := context.WithCancelCause(t.Context())
	r.stop = stop
	if err := r.fail(t.Context(), &held{}, errAway, time.Now()); err == nil ||
		!errors.Is(context.Cause(ctx), errHalted) {
		t.Errorf("%v; the run goes on: %v", err, context.Cause(ctx))
	}
}

// Runs to several folders over one store leave one another alone, and no topic behind.
func TestRunsShareAStore(t *testing.T) {
	a, b := newRig(t), newRig(t)
	for i := range 8 {
		a.write(fmt.Sprintf("%d.md", i), fmt.Sprintln("text", i))
	}
	b.write("b.md", "b\n")
	b.store = a.store
	server := chaos.New(chaos.Config{Seed: 1})
	var once sync.Once
	a.models(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPost {
			once.Do(func() {
				if s, err := b.run(t.Context(), nil); err != nil || s.Completed != 1 {
					t.Errorf("the second run: %v %+v", err, s)
				}
			})
		}
		server.ServeHTTP(w, q)
	}))
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("it hangs"))
	defer cancel()
	s, err := a.run(ctx, map[string]any{"llm": "local/small", "max-concurrency": int64(1)})
	if err != nil || s.Completed != 8 {
		t.Errorf("the first run: %v %+v", err, s)
	}
	all, err := a.store.(store.Topics).Stats(t.Context())
	if err != nil || len(all) > 0 {
		t.Errorf("%v %+v", err, all)
	}
}
