package project

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// fakeIndex answers bulk requests in place of a server.
type fakeIndex func(req *http.Request, body string) (*http.Response, error)

func (f fakeIndex) RoundTrip(req *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(req.Body)
	return f(req, string(body))
}

// written says that all is well.
func written(body string) (*http.Response, error) {
	var items []string
	for line := range strings.Lines(body) {
		if _, id, ok := strings.Cut(line, `,"_id":"`); ok {
			verb := strings.Split(line, `"`)[1]
			items = append(items, fmt.Sprintf(`{%q:{"_id":%q,"status":200}}`, verb, id[:strings.IndexByte(id, '"')]))
		}
	}
	text := `{"items":[` + strings.Join(items, ",") + `]}`
	return &http.Response{StatusCode: http.StatusOK, ContentLength: int64(len(text)),
		Body: io.NopCloser(strings.NewReader(text))}, nil
}

// fakeProjection is a projection with an index that is none.
func fakeProjection(index fakeIndex, log io.Writer) *projection {
	p := &projection{window: &window{}, figures: &figures{}, random: func() float64 { return 0.5 }, failed: failures{},
		deadline: 5 * time.Minute, search: &search{base: "http://index", client: &http.Client{Transport: index}},
		log: slog.New(slog.NewTextHandler(log, nil)), redact: func(s string) string { return s }}
	p.live = limits{batch: 500, bytes: 5 << 20, attempts: 20,
		backoff: policy.Backoff{Shape: policy.Exponential, Base: time.Second, Max: time.Minute}}
	p.window.set(2)
	return p
}

// A page of a rebuild ends, whatever is in it: more documents that make the server silent than fit into the time of one
// attempt, several that end it for longer than a page is tried, and some that it fails with each time.
func TestPageOfARebuildEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		away   time.Duration
		poison int
	}{"silence": {0, 25}, "the server ends": {time.Minute, 3}, "500": {-1, 7}} {
		t.Run(name, func(t *testing.T) {
			away := tt.away
			synctest.Test(t, func(t *testing.T) {
				var items []action
				for id := range 500 {
					doc := "{}"
					if id < tt.poison {
						doc = `"poison"`
					}
					items = append(items, action{index: "i", id: fmt.Sprint(id), version: 1, doc: []byte(doc)})
				}
				var until time.Time
				var log bytes.Buffer
				p := fakeProjection(func(req *http.Request, body string) (*http.Response, error) {
					bad := strings.Contains(body, `"poison"`)
					switch {
					case bad && away < 0:
						res, err := written(body)
						text, _ := io.ReadAll(res.Body)
						for id := range tt.poison {
							text = bytes.Replace(text, fmt.Appendf(nil, `:"%d","status":200`, id),
								fmt.Appendf(nil, `:"%d","status":500`, id), 1)
						}
						res.Body = io.NopCloser(bytes.NewReader(text))
						return res, err
					case bad && away == 0:
						<-req.Context().Done()
						return nil, req.Context().Err()
					case bad && time.Now().After(until):
						until = time.Now().Add(away)
					}
					if time.Now().Before(until) {
						return nil, errors.New("connection refused")
					}
					return written(body)
				}, &log)
				ctx, cancel := context.WithTimeout(t.Context(), 12*time.Hour)
				defer cancel()
				for err := store.ErrConflict; err != nil; time.Sleep(lookEvery) {
					if p.window.hold().on() {
						continue
					}
					if err = p.insist(ctx, items, p.limits()); ctx.Err() != nil {
						t.Fatalf("it goes on after 12 h: %v", err)
					}
				}
				if n := strings.Count(log.String(), "does not fit"); n != tt.poison {
					t.Errorf("%d documents are named", n)
				}
			})
		})
	}
}

// Documents whose request gets no answer, is refused as a whole, or cannot be sent, do not keep a rebuild from its end:
// all others are written, and the state names them. A row that is no document ends it.
func TestRebuildNamesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	r.values["source"] = object("source", map[string]any{"table": "products", "key": "id", "version": "version",
		"doc_id": "CASE name WHEN 'long' THEN printf('%0600d', id) WHEN 'odd' THEN CAST(x'ff' AS TEXT) ELSE id END",
		"doc": `CASE name WHEN 'lines' THEN '{}' || char(10) || '{}' WHEN 'none' THEN NULL
			ELSE json_object('name', name) END`})
	names := map[int]string{2: "poison", 42: "long", 77: "lines", 80: "odd"}
	for id := range 100 {
		r.exec(`INSERT INTO products VALUES ($1, $2, 1)`, id, cmp.Or(names[id], "good"))
	}
	r.proxy.breaks(func(_ http.ResponseWriter, req *http.Request, body []byte) bool {
		if bulk(req) && bytes.Contains(body, []byte(`"poison"`)) {
			panic(http.ErrAbortHandler)
		}
		return false
	})
	r.daemon()
	p := r.projection()
	st, err := p.state(t.Context())
	is := func(what string) func() bool {
		return func() bool { st, err = p.state(t.Context()); r.ok(err); return st.Index != "" && st.State == what }
	}
	r.until("the first index", is(running))
	_, err = p.begin(t.Context())
	r.ok(err)
	r.until("the rebuild ends", is(rebuildFailed))
	if !strings.Contains(st.Error, "4 missing") || !strings.Contains(st.Error, "extra (such as 000000") ||
		!strings.Contains(st.Error, ", 2, 77") {
		t.Errorf("the error is %q", st.Error)
	}
	r.ok(r.direct().refresh(t.Context(), st.Target))
	n := 0
	r.ok(r.direct().scroll(t.Context(), st.Target, func(ids []string) error { n += len(ids); return nil }))
	if n != 96 {
		t.Errorf("%d documents are written, not 96", n)
	}
	r.exec(`UPDATE products SET name = 'none' WHERE id = 50`)
	_, err = p.begin(t.Context())
	r.ok(err)
	r.until("the next ends", is(rebuildFailed))
	if !strings.HasSuffix(st.Error, `a row of the source has no key, id or document (key 50, id "50")`) {
		t.Errorf("the error is %q", st.Error)
	}
}

// A rebuild keeps the pause that the index asks it for, which is told like any other and ends by resume.
func TestRebuildIsThrottled(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	for id := range 20 {
		r.exec(`INSERT INTO products VALUES ($1, 'x', 1)`, id)
	}
	r.daemon()
	p := r.projection()
	var st state
	is := func(what string) func() bool {
		return func() (ok bool) {
			var err error
			st, err = p.state(t.Context())
			r.ok(err)
			return st.Index != "" && st.State == what
		}
	}
	r.until("the first index", is(running))
	r.proxy.breaks(func(w http.ResponseWriter, req *http.Request, _ []byte) bool {
		if bulk(req) {
			w.Header().Set("Retry-After", "600")
			w.WriteHeader(http.StatusTooManyRequests)
		}
		return bulk(req)
	})
	_, err := p.begin(t.Context())
	r.ok(err)
	r.until("the pause is told", func() bool {
		s, err := p.ask(t.Context())
		r.ok(err)
		return s.State == "paused" && strings.Contains(s.Why, "HTTP 429")
	})
	if n := r.proxy.bulks.Load(); n != 1 {
		t.Errorf("%d requests", n)
	}
	r.proxy.breaks(nil)
	r.ok(resumeCommand(t.Context(), &pipeline.Invocation{Who: "ann",
		Audit: func(context.Context, store.Store, string, string, int, string) error { return nil }}, p))
	r.until("it ends", is(running))
	r.until("it is over", func() bool { s, err := p.ask(t.Context()); r.ok(err); return s.State == running })
	if st.Verdict != equal {
		t.Errorf("%+v", st)
	}
}

// TestRebuildThatIsAborted: the command that shows a rebuild says that somebody else has ended it; and where there is
// no index to go back to, that a rebuild makes one.
func TestRebuildThatIsAborted(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	_, stop := r.daemon()
	r.put(1, "one", 1)
	r.drained()
	stop()
	p, ended := r.projection(), make(chan error, 1)
	in := &pipeline.Invocation{Stdout: io.Discard, Stderr: io.Discard, Quiet: true, Output: "json",
		Flags: pipeline.NewValues([]pipeline.Flag{{Name: "abort", Type: pipeline.Bool}},
			map[string]any{"abort": false}, nil),
		Audit: func(context.Context, store.Store, string, string, int, string) error { return nil }}
	go func() { ended <- rebuildCommand(t.Context(), in, p) }()
	other := r.projection()
	r.until("it is begun", func() bool {
		st, err := other.state(t.Context())
		return err == nil && st.State == building
	})
	r.ok(other.abort(t.Context()))
	e, ok := errors.AsType[*pipeline.Error](<-ended)
	if !ok || e.Code != pipeline.ExitConflict || !strings.Contains(e.What, r.alias+"-000002 was aborted") {
		t.Errorf("the command ends with %+v", e)
	}
	e, ok = errors.AsType[*pipeline.Error](rollbackCommand(t.Context(), in, p))
	if !ok || !strings.Contains(e.Next, "pawl project rebuild") {
		t.Errorf("the rollback ends with %+v", e)
	}
}

// TestRebuildByAKeyWithoutAType: SQLite does not compare such a key with a text. The error says so, and with a type it
// works.
func TestRebuildByAKeyWithoutAType(t *testing.T) {
	t.Parallel()
	r := newRig(t, false)
	r.values["batch_size"] = int64(10)
	for id := range 25 {
		r.exec(`INSERT INTO products VALUES ($1, 'seed', 1)`, id)
	}
	for key, want := range map[string]string{"id + 0": "CAST(id AS INTEGER)", "CAST(id + 0 AS INTEGER)": ""} {
		r.values["source"] = object("source", map[string]any{"table": "products", "key": key, "doc_id": "id",
			"version": "version", "doc": "json_object('name', name)"})
		_, stop := r.daemon()
		p := r.projection()
		r.until("the first index", func() bool { st, err := p.state(t.Context()); return err == nil && st.Index != "" })
		_, err := p.begin(t.Context())
		r.ok(err)
		var st state
		r.until("it ends", func() bool {
			st, err = p.state(t.Context())
			return err == nil && (st.State == running || st.State == rebuildFailed)
		})
		if st.State == running != (want == "") || !strings.Contains(st.Error, want) {
			t.Errorf("by %s: %+v", key, st)
		}
		stop()
	}
}
