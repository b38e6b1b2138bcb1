package project

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
)

// What an answer does not prove is not taken for written, and the reason says what it was.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	const a, b = `{"index":{"_id":"a","status":201}}`, `{"delete":{"_id":"b","status":404,"result":"not_found"}}`
	one := func(item string) string { return `{"items":[` + item + `,` + b + `]}` }
	for name, tt := range map[string]struct{ answer, want string }{
		"good":              {one(a), ""},
		"fewer":             {`{"items":[` + a + `]}`, "1 items for 2"},
		"more":              {`{"items":[` + a + `,` + b + `,` + b + `]}`, "3 items for 2"},
		"another order":     {`{"items":[` + b + `,` + a + `]}`, `item 0 is not about document "a"`},
		"no items":          {`{"errors":true}`, "0 items for 2"},
		"null":              {`null`, "0 items for 2"},
		"a list":            {`[]`, "it is a JSON array"},
		"empty":             {``, "it is empty"},
		"cut":               {`CUT` + one(a), "unexpected EOF"},
		"HTML":              {`<html><title>Sign in</title>`, `<html><title>Sign in`},
		"items are null":    {`{"items":[null,null]}`, `item 0 is not about document "a"`},
		"another verb":      {one(`{"create":{"_id":"a","status":201}}`), `item 0 is not about document "a"`},
		"no status":         {one(`{"index":{"_id":"a"}}`), "does not say what became of the document"},
		"status 0":          {one(`{"index":{"_id":"a","status":0}}`), "does not say what became of the document"},
		"status 302":        {one(`{"index":{"_id":"a","status":302}}`), "does not say what became of the document"},
		"status 999":        {one(`{"index":{"_id":"a","status":999}}`), "HTTP 999"},
		"status -1":         {one(`{"index":{"_id":"a","status":-1}}`), "does not say what became of the document"},
		"status is a text":  {one(`{"index":{"_id":"a","status":"201"}}`), "items.index.status is a JSON string"},
		"status of a float": {one(`{"index":{"_id":"a","status":201.5}}`), "items.index.status is a JSON number 201.5"},
		"written, and an error": {one(`{"index":{"_id":"a","status":201,"error":{"type":"x","reason":"y"}}}`),
			"[x]"},
		"written, and a list":     {one(`{"index":{"_id":"a","status":201,"error":[1]}}`), "HTTP 201"},
		"no document to write to": {one(`{"index":{"_id":"a","status":404,"result":"not_found"}}`), "HTTP 404"},
		"a conflict of another kind": {one(`{"index":{"_id":"a","status":409,"error":{"type":"locked","reason":"y"}}}`),
			"HTTP 409 [locked]"},
		"no reason": {one(`{"index":{"_id":"a","status":400,"error":[1]}}`), "HTTP 400"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				text, cut := strings.CutPrefix(tt.answer, "CUT")
				if cut {
					w.Header().Set("Content-Length", fmt.Sprint(len(text)+10))
				}
				_, _ = io.WriteString(w, text)
			}))
			defer server.Close()
			s := &search{base: server.URL, client: server.Client()}
			results, err := s.request(t.Context(), []action{{index: "i", id: "a", version: 1, doc: []byte("{}")},
				{index: "i", id: "b", version: 1, remove: true}}, false)
			if err == nil {
				err = results[0].err
				if results[1].err != nil {
					t.Errorf("the deletion: %v", results[1].err)
				}
			}
			switch {
			case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v, want %q", err, tt.want)
			case err != nil && pawl.Describe(classify(err)).Class == pawl.ClassPermanent && name != "no reason":
				t.Errorf("%v is permanent", err)
			}
			if kind := pawl.Describe(classify(err)).Kind; err != nil && name != "no reason" && name != "cut" &&
				name != "no document to write to" && kind != kindServer {
				t.Errorf("%v is of kind %s", err, kind)
			}
		})
	}
}

// A server, or what stands before it, that says the same to every request, says nothing about documents: none is dead,
// and all are written when it is well.
func TestNobodyDiesOfTheServer(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(w http.ResponseWriter){
		"400":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadRequest) },
		"413":  func(w http.ResponseWriter) { w.WriteHeader(http.StatusRequestEntityTooLarge) },
		"HTML": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "<html>") },
		"login": func(w http.ResponseWriter) {
			w.Header().Set("Location", "/")
			w.WriteHeader(http.StatusFound)
		},
		"none": func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"errors":true}`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, false)
			r.proxy.breaks(func(w http.ResponseWriter, req *http.Request, _ []byte) bool {
				if bulk(req) {
					fault(w)
				}
				return bulk(req)
			})
			for id := range 5 {
				r.put(id, "good", 1)
			}
			r.daemon()
			r.until("more requests than attempts are allowed", func() bool { return r.proxy.bulks.Load() > 30 })
			if s := r.standing(); s.failed != 0 {
				t.Errorf("%+v: %s", s, r.one(`SELECT max(error_message) FROM dead_letter_outbox`))
			}
			r.proxy.breaks(nil)
			r.drained()
			r.equal()
		})
	}
}

// What a comparison reads is not taken for all there is where the index says that a part of it failed.
func TestPartsOfAnAnswer(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ answer, want string }{
		"good":      {`{"docs":[{"_id":"a","found":true},{"_id":"b","found":false}]}`, ""},
		"a failure": {`{"docs":[{"_id":"a","found":true},{"_id":"b","error":{"type":"x","reason":"y"}}]}`, "[x] y"},
		"an order":  {`{"docs":[{"_id":"b","found":true},{"_id":"a","found":false}]}`, `not about document "a"`},
		"fewer":     {`{"docs":[{"_id":"a","found":true}]}`, "1 documents for 2"},
		"shards": {`{"_scroll_id":"s","_shards":{"failed":1,"failures":[{"reason":{"type":"x","reason":"y"}}]},
			"hits":{"hits":[]}}`, "1 of its shards failed: [x] y"},
		"time": {`{"_scroll_id":"s","timed_out":true,"hits":{"hits":[]}}`, "timed out"},
	} {
		t.Run(name, func(t *testing.T) {
			p := fakeProjection(func(*http.Request, string) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(tt.answer))}, nil
			}, io.Discard)
			_, err := p.search.get(t.Context(), "i", []string{"a", "b"})
			if strings.Contains(tt.answer, "_scroll_id") {
				err = p.search.scroll(t.Context(), "i", func([]string) error { return nil })
			}
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// Where only the answers about several documents are odd, they are written one by one, with a bounded number of
// requests.
func TestOddAnswersAboutSeveral(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(items []json.RawMessage) []json.RawMessage{
		"fewer":         func(items []json.RawMessage) []json.RawMessage { return items[:max(len(items)-1, 1)] },
		"another order": func(items []json.RawMessage) []json.RawMessage { slices.Reverse(items); return items },
		"none": func(items []json.RawMessage) []json.RawMessage {
			if len(items) > 1 {
				return nil
			}
			return items
		},
	} {
		requests := 0
		p := fakeProjection(func(_ *http.Request, body string) (*http.Response, error) {
			requests++
			res, err := written(body)
			var answer struct {
				Items []json.RawMessage `json:"items"`
			}
			_ = json.NewDecoder(res.Body).Decode(&answer)
			answer.Items = change(answer.Items)
			text, _ := json.Marshal(answer)
			res.Body = io.NopCloser(bytes.NewReader(text))
			return res, err
		}, io.Discard)
		var items []action
		for id := range 200 {
			items = append(items, action{index: "i", id: fmt.Sprint(id), version: 1, doc: []byte("{}")})
		}
		results, whole := p.send(t.Context(), items, 5<<20)
		for i := range results {
			if results[i].err != nil {
				t.Fatalf("%s: document %d: %v", name, i, results[i].err)
			}
		}
		if whole != nil || requests > 400 {
			t.Errorf("%s: %v after %d requests", name, whole, requests)
		}
	}
}

// What stands before the index says in its own words why it refuses.
func TestRefusalInOtherWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"<html>The plain HTTP request was sent to HTTPS port\n":   "The plain HTTP request was sent to HTTPS port",
		`{"error":"no","status":400}`:                             "no",
		`{"message":"Request size exceeded","pad":"` + pad + `"}`: "Request size exceeded",
		"": "HTTP 400 (request x)",
		`{"error":{"type":"index_closed_exception","reason":"closed"}}`: "HTTP 400 [index_closed_exception] (request x) closed",
	} {
		got := refusal(&http.Response{StatusCode: http.StatusBadRequest}, []byte(text), "x").Error()
		if !strings.Contains(got, want) || len(got) > 200 {
			t.Errorf("%s: %s", text, got)
		}
	}
}

var pad = strings.Repeat("x", 1000)

// That every request is refused is found out with the first, not when each document was sent alone.
func TestRefusedAtOnce(t *testing.T) {
	t.Parallel()
	requests := 0
	p := fakeProjection(func(*http.Request, string) (*http.Response, error) {
		requests++
		return &http.Response{StatusCode: http.StatusBadRequest, Body: http.NoBody}, nil
	}, io.Discard)
	items := make([]action, 500)
	for i := range items {
		items[i] = action{index: "i", id: fmt.Sprint(i), version: 1, doc: []byte("{}")}
	}
	results, whole := p.send(t.Context(), items, 5<<20)
	if whole == nil || results[499].err == nil || requests > 2 {
		t.Errorf("%v, %v after %d requests", whole, results[499].err, requests)
	}
}

// TestRedirects: a change that is redirected as a GET was not made, whatever is answered there; one that stays as it is
// was.
func TestRedirects(t *testing.T) {
	t.Parallel()
	asked := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked += r.Method + " " + r.URL.Path + " "; r.URL.Path == "/login" {
			_, _ = io.WriteString(w, `{"acknowledged":true}`)
			return
		}
		code, _ := strconv.Atoi(strings.TrimSuffix(r.URL.Path[1:], "/_aliases"))
		http.Redirect(w, r, "/login", code)
	}))
	defer server.Close()
	for code, want := range map[int]string{301: "HTTP 301", 302: "HTTP 302", 303: "HTTP 303", 307: "", 308: ""} {
		sink := map[string]any{"url": fmt.Sprintf("%s/%d", server.URL, code), "index": "x"}
		s, err := newSearch(pipeline.NewSection(fields()[2].Fields, sink))
		if err != nil {
			t.Fatal(err)
		}
		err = s.point(t.Context(), "x", "x-1", "x-2")
		if (err == nil) != (want == "") || err != nil && !(strings.Contains(err.Error(), want) &&
			strings.Contains(err.Error(), "is url of the sink right?")) {
			t.Errorf("%d: %v", code, err)
		}
	}
	if strings.Contains(asked, "GET") {
		t.Errorf("asked: %s", asked)
	}
}
