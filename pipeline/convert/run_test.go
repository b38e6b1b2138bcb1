package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/convert/chaos"
	"github.com/pawl-dev/pawl/pipeline/convert/llm"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// rig is a folder of files, and a store that outlives runs.
type rig struct {
	t        *testing.T
	src, out string
	store    store.Store
	provider pipeline.Section
	budget   float64 // below 0: none
	log      *lines
}

// lines are what runs wrote on stderr.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func newRig(t *testing.T) *rig {
	t.Helper()
	dir := t.TempDir()
	r := &rig{t: t, src: filepath.Join(dir, "src"), out: filepath.Join(dir, "out"), store: memory.New(memory.Config{}),
		log: &lines{}, budget: -1}
	t.Cleanup(func() { _ = r.store.Close() })
	return r
}

func (r *rig) write(name, text string) {
	r.t.Helper()
	full := filepath.Join(r.src, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// models serves a provider, and configures it.
func (r *rig) models(h http.Handler) { r.provide(llm.OpenAI, "/v1", h) }

func (r *rig) provide(kind, path string, h http.Handler) {
	server := httptest.NewServer(h)
	r.t.Cleanup(server.Close)
	r.t.Cleanup(server.CloseClientConnections)
	top := llmField()
	fields := top.Fields[0].Of.Fields
	price := pipeline.NewSection(fields[6].Of.Fields, map[string]any{"input_cost": 1.0, "output_cost": 2.0})
	r.provider = pipeline.NewSection(fields, map[string]any{
		"type": kind, "base_url": server.URL + path, "key": "secret-key", "max_concurrency": int64(16),
		"timeout":          10 * time.Second,
		"max_answer_bytes": int64(1 << 20), "models": map[string]pipeline.Section{"small": price},
	})
}

// run runs `pawl convert SRC --out OUT` with flags, and returns its summary and its error.
func (r *rig) run(ctx context.Context, flags map[string]any) (Summary, error) {
	r.t.Helper()
	values, changed := map[string]any{"out": r.out, "max-retries": int64(3), "log-format": "text",
		"log-level": "debug"}, map[string]bool{}
	for k, v := range flags {
		values[k], changed[k] = v, true
	}
	matrix, err := policy.NewMatrix(nil, Rules()...)
	if err != nil {
		r.t.Fatal(err)
	}
	var out bytes.Buffer
	top := llmField()
	in := &pipeline.Invocation{
		Args: []string{r.src}, Flags: pipeline.NewValues(command().Flags, values, changed), Stdout: &out, Stderr: r.log,
		Output: "json", Quiet: true,
		Getenv: func(string) string { return "" }, Policy: matrix, Owner: "test",
		Open: func(context.Context, string, bool) (store.Store, error) { return r.store, nil },
		Top: func(string) (pipeline.Section, error) {
			v := map[string]any{"providers": map[string]pipeline.Section{"local": r.provider}}
			if r.budget >= 0 {
				v["budget"] = r.budget
			}
			return pipeline.NewSection(top.Fields, v), nil
		},
	}
	err = execute(ctx, in)
	var s Summary
	if out.Len() > 0 {
		if jsonErr := json.Unmarshal(out.Bytes(), &s); jsonErr != nil {
			r.t.Fatal(jsonErr, out.String())
		}
	}
	return s, err
}

type stateFile struct {
	Version int
	Run     string
	Totals  map[string]int
	Files   map[string]fileState
}

func (r *rig) state() stateFile {
	r.t.Helper()
	var s stateFile
	b, err := os.ReadFile(filepath.Join(r.out, "state.json"))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		r.t.Fatal(err, string(b))
	}
	return s
}

func code(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*pipeline.Error](err); ok {
		return e.Code
	}
	return -1
}

func TestRunResumesAndSeesWhatHasChanged(t *testing.T) {
	r := newRig(t)
	r.write("a/b.html", "<p>one")
	r.write("c.csv", "x,y\n1,2\n")
	r.write("bad.docx", "no docx")
	r.write("skip.tmp", "x")
	if err := os.Symlink("c.csv", filepath.Join(r.src, "link.csv")); err != nil {
		t.Fatal(err)
	}
	flags := map[string]any{"exclude": []string{"*.tmp"}}
	s, err := r.run(t.Context(), flags)
	if code(err) != pipeline.ExitPartly || s.Files != 3 || s.Completed != 2 || s.PermanentFailure != 1 ||
		s.Skipped != 2 {
		t.Fatalf("first run: %v %+v", err, s)
	}
	if b, err := os.ReadFile(filepath.Join(r.out, "a", "b.html.md")); err != nil || string(b) != "one\n" {
		t.Fatal(string(b), err)
	}
	st := r.state()
	if bad := st.Files["bad.docx"]; bad.Status != permanent || bad.FailureCount != 1 || bad.LastError == "" ||
		st.Files["a/b.html"].SHA256 == "" || st.Totals["completed"] != 2 {
		t.Fatalf("%+v", st)
	}
	report, err := os.ReadFile(filepath.Join(r.out, "failed_report.json"))
	if err != nil ||
		!strings.Contains(string(report),
			`"file":"bad.docx","status":"permanent_failure","failure_count":1,"kind":"Corrupt"`) {
		t.Fatal(string(report), err)
	}
	// Nothing has changed but one file; one output is gone.
	r.write("c.csv", "x,y\n3,4,5\n")
	if err := os.Remove(filepath.Join(r.out, "a", "b.html.md")); err != nil {
		t.Fatal(err)
	}
	if s, err = r.run(t.Context(), flags); s.Completed != 2 || s.PermanentFailure != 1 || s.Unchanged != 0 {
		t.Fatalf("second run: %v %+v", err, s)
	}
	if s, err = r.run(t.Context(), flags); s.Completed != 0 || s.Unchanged != 2 {
		t.Fatalf("third run: %v %+v", err, s)
	}
	// Another time alone is no change, either.
	later := time.Now().Add(time.Hour)
	for range 2 {
		if err := os.Chtimes(filepath.Join(r.src, "c.csv"), later, later); err != nil {
			t.Fatal(err)
		}
		if s, err = r.run(t.Context(), flags); s.Completed != 0 || s.Unchanged != 2 {
			t.Fatalf("after touch: %v %+v", err, s)
		}
	}
	// What had failed is tried again when that is asked for, or when it has changed.
	flags["retry-failed"] = true
	if s, err = r.run(t.Context(), flags); s.PermanentFailure != 1 || r.state().Files["bad.docx"].FailureCount != 2 {
		t.Fatalf("retry: %v %+v", err, s)
	}
	delete(flags, "retry-failed")
	r.write("bad.docx", string(zipped(t, "word/document.xml", word("<w:p/>"))))
	if s, err = r.run(t.Context(), flags); err != nil || s.Completed != 1 || s.PermanentFailure != 0 {
		t.Fatalf("mended: %v %+v", err, s)
	}
	if r.state().Run != st.Run {
		t.Error("a resumed run has another id")
	}
}

func TestRunPaysNothingTwice(t *testing.T) {
	r := newRig(t)
	const n = 60
	for i := range n {
		r.write(fmt.Sprintf("d%02d.md", i), fmt.Sprintf("document %d\n", i))
	}
	r.write("empty.md", "\n") // is not sent
	server := chaos.New(chaos.Config{LatencyMean: 5 * time.Millisecond, LatencyStddev: time.Millisecond,
		FailureRate: 0.1, Seed: 7})
	r.models(server)
	flags := map[string]any{"llm": "local/small"}
	// The first run is interrupted in its midst.
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		for server.Truth().Answered < 20 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel(errors.New("a signal")) // the host says which
	}()
	s, err := r.run(ctx, flags)
	if code(err) != pipeline.ExitUnfinished || len(r.state().Files) != n+1 {
		t.Fatalf("interrupted: %v %+v", err, s)
	}
	done := s.Completed
	if s, err = r.run(t.Context(), flags); err != nil || s.Completed+s.Unchanged != n+1 || s.Unchanged != done {
		t.Fatalf("resumed: %v %+v after %d", err, s, done)
	}
	truth := server.Truth()
	if truth.Repeated != 0 || truth.Answered != n || truth.Validations != 2 {
		t.Errorf("%+v", truth)
	}
	// A new run has the answers of the old one.
	flags["fresh"] = true
	if s, err = r.run(t.Context(), flags); err != nil || s.Completed != n+1 || s.Requests != 0 {
		t.Errorf("fresh: %v %+v", err, s)
	}
	flags["no-cache"] = true
	if s, err = r.run(t.Context(), flags); err != nil || s.CostUSD <= 0 || server.Truth().Repeated != n {
		t.Errorf("without the cache: %v %+v", err, s)
	}
	log := r.log.buf.String()
	for _, want := range []string{
		`msg="Provider initialized" provider_id=local type=openai base_url=`,
		`msg="Sending LLM Request" provider=local model=small request_id=`, `/v1/chat/completions file=d00.md`,
		`msg="LLM Response received" provider=local model=small`, ` status=200 duration=`,
		`msg="LLM Usage" provider=local`, ` output_tokens=`,
		`msg="Conversion plan" file=d00.md primary=text fallback=`,
		`msg="Executing converter" file=d00.md converter=text attempt=1/1`,
		`msg="Processing complete" file=d00.md status=completed total_duration=`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("no line has %s", want)
		}
	}
	if strings.Contains(log, "secret-key") {
		t.Error("the key is in the log")
	}
}

// The other format on the wire: its own path and headers, and tokens under other names.
func TestRunWithAnthropic(t *testing.T) {
	r := newRig(t)
	r.write("a.md", "a\n")
	server := chaos.New(chaos.Config{Seed: 1})
	var key, version string
	r.provide(llm.Anthropic, "", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		key, version = q.Header.Get("X-Api-Key"), q.Header.Get("Anthropic-Version")
		server.ServeHTTP(w, q)
	}))
	s, err := r.run(t.Context(), map[string]any{"llm": "local/small"})
	if err != nil || s.Completed != 1 || s.InputTokens == 0 || s.OutputTokens == 0 || s.CostUSD <= 0 {
		t.Errorf("%v %+v", err, s)
	}
	if truth := server.Truth(); truth.Answered != 1 || truth.Validations != 1 || key != "secret-key" || version == "" {
		t.Errorf("%+v, key %q, version %q", truth, key, version)
	}
}

// Pictures are saved once, and linked from where the output is.
func TestRunSavesPictures(t *testing.T) {
	r := newRig(t)
	r.write("deep/a.html", `<p><img alt=x src="data:image/png;base64,iVBORw0KGgo="></p>`)
	if _, err := r.run(t.Context(), map[string]any{"images": filepath.Join(r.out, "pictures")}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(r.out, "deep", "a.html.md"))
	if err != nil {
		t.Fatal(err)
	}
	link := strings.TrimSuffix(strings.TrimPrefix(string(text), "![x]("), ")\n")
	if data, err := os.ReadFile(filepath.Join(r.out, "deep", link)); err != nil || string(data) != "\x89PNG\r\n\x1a\n" {
		t.Errorf("%q: %q %v", text, data, err)
	}
}

func TestRunGivesUpAfterItsRetries(t *testing.T) {
	r := newRig(t)
	r.write("a.md", "a\n")
	server := chaos.New(chaos.Config{FailureRate: 1, Seed: 1})
	r.models(server)
	s, err := r.run(t.Context(), map[string]any{"llm": "local/small", "max-retries": int64(1)})
	if st := r.state().Files["a.md"]; code(err) != pipeline.ExitPartly || s.ServerErrors != 2 ||
		st.Status != permanent || st.FailureCount != 2 {
		t.Errorf("%v %+v %+v", err, s, st)
	}
}

// refusing answers all documents in one way.
func refusing(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusNotFound) // a provider without a list of models is fine
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func TestRunEndsWhereNoRepetitionHelps(t *testing.T) {
	for name, c := range map[string]struct {
		h      http.Handler
		budget float64
		code   int
		status string
	}{
		"quota": {refusing(429, `{"error":{"code":"insufficient_quota","message":"pay"}}`), -1,
			pipeline.ExitUnfinished, pending},
		"key": {refusing(401, `{"error":{"message":"bad key"}}`), -1, pipeline.ExitUnfinished, pending},
		"too long": {refusing(400, `{"error":{"message":"maximum context length is 10"}}`), -1, pipeline.ExitPartly,
			permanent},
		"cut off": {refusing(200,
			`{"choices":[{"finish_reason":"length","message":{"content":"half"}}],"usage":{"prompt_tokens":1000000}}`),
			0.5, pipeline.ExitUnfinished, failed},
		"sent elsewhere": {http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/v1/chat/completions" {
				http.Redirect(w, q, "/v1/elsewhere", http.StatusTemporaryRedirect)
				return
			}
			refusing(200, `{"choices":[{"finish_reason":"stop","message":{"content":"x"}}]}`).ServeHTTP(w, q)
		}), -1, pipeline.ExitPartly, permanent},
		"no money": {refusing(500, "it was asked"), 0, pipeline.ExitUnfinished, pending},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.write("a.md", "a\n")
			r.models(c.h)
			r.budget = c.budget
			s, err := r.run(t.Context(), map[string]any{"llm": "local/small"})
			if got := r.state().Files["a.md"]; code(err) != c.code || got.Status != c.status {
				t.Errorf("%v %+v %+v", err, s, got)
			}
			if _, err := os.Stat(filepath.Join(r.out, "a.md.md")); err == nil {
				t.Error("there is an output")
			}
			if c.budget > 0 && s.CostUSD != 1 {
				t.Errorf("the answer that was cut cost %v", s.CostUSD)
			}
		})
	}
}
