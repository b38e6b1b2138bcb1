package console

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// acts is the table of what people do: by a form of the console, and by the API.
var acts = []struct {
	route, target string
	form          url.Values
	body          string
}{
	{"/v1/topics/{topic}/pause", "mail", url.Values{"d:for_seconds": {"10m"}}, `{"for_seconds":600`},
	{"/v1/topics/{topic}/resume", "mail", nil, `{`},
	{"/v1/topics/{topic}/set", "mail", url.Values{"n:max_waiting": {"5000"}}, `{"max_waiting":5000`},
	{"/v1/topics/{topic}/rm", "empty", nil, `{`},
	{"/v1/messages/{id}/cancel", "waits", nil, `{`},
	{"/v1/messages/{id}/run", "delayed", nil, `{`},
	{"/v1/messages/{id}/skip", "skipped", nil, `{`},
	{"/v1/dead/{id}/edit", "dead-1", url.Values{"s:body": {"corrected"}}, `{"body":"corrected"`},
	{"/v1/dead/{id}/resolve", "dead-1", nil, `{`},
	{"/v1/dead/{id}/reopen", "dead-1", nil, `{`},
	{"/v1/dead/{id}/discard", "dead-2", nil, `{`},
}

// filled is a store with something for each act.
func filled(t *testing.T, s store.Store) {
	t.Helper()
	topics, _ := store.As[store.Topics](s)
	letters, _ := store.As[store.DeadLetters](s)
	now := time.Now()
	died := func(id string) store.Record {
		return store.Record{Message: pawl.Message{ID: id, Topic: "mail", Body: []byte("wrong")}, State: store.IsDead,
			EnqueuedAt: now, DeadAt: now, Reason: "no such mailbox", Fingerprint: "abc"}
	}
	_, err := s.Append(t.Context(), store.NewBatch(pawl.Message{ID: "waits", Topic: "mail", Body: []byte("x")},
		pawl.Message{ID: "delayed", Topic: "mail", Body: []byte("x"), Delay: time.Hour},
		pawl.Message{ID: "skipped", Topic: "mail", Body: []byte("x")}))
	if err == nil {
		_, err = letters.Import(t.Context(), died("dead-1"), died("dead-2"), died("dead-3"))
	}
	if err == nil {
		_, err = topics.Declare(t.Context(), store.Declaration{Name: "empty"})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// audited are the entries of a store, without what differs from run to run.
func audited(t *testing.T, s store.Store) (lines []string) {
	t.Helper()
	entries, err := operate.ListAudit(t.Context(), s, operate.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		e.ID, e.At, e.Seconds, e.Via = "", time.Time{}, 0, ""
		if e.OperationID != "" {
			e.OperationID = "some"
		}
		if e.Filter != nil {
			e.Filter.Until = nil
		}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(b))
	}
	return lines
}

// TestFormsAndRequestsAreAuditedAlike does each act of the table by the console and by the API, with two stores.
func TestFormsAndRequestsAreAuditedAlike(t *testing.T) {
	for name, open := range map[string]func() store.Store{
		"memory": func() store.Store { return memory.New(memory.Config{}) },
		"sqlite": func() store.Store {
			s, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "a.db")})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			byForm, byRequest := newRigOver(t, open(), nil), newRigOver(t, open(), nil)
			filled(t, byForm.store)
			filled(t, byRequest.store)
			ada, err := api.Person("ada", api.Admin)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range acts {
				path := strings.NewReplacer("{topic}", a.target, "{id}", a.target).Replace(a.route)
				form := url.Values{"s:reason": {"because"}, "back": {"/console/"}}
				maps.Copy(form, a.form)
				answer, body := byForm.do(byForm.as(secretOf(api.Admin), http.MethodPost, "/console/do"+path, form))
				if answer.StatusCode != http.StatusSeeOther {
					t.Fatalf("%s: %d\n%s", path, answer.StatusCode, body)
				}
				text := a.body + `,"reason":"because"}`
				if _, _, err := byRequest.sites[0].api.Call(t.Context(), ada, http.MethodPost, path,
					[]byte(strings.Replace(text, "{,", "{", 1))); err != nil {
					t.Fatal(path, err)
				}
			}
			byForm.replayByForm()
			replayByRequest(t, byRequest.sites[0].api, ada)
			if edits := audited(t, byForm.store); !slices.ContainsFunc(edits, func(line string) bool {
				return strings.Contains(line, `"action":"edit"`) && strings.Contains(line, `"reason":"because"`)
			}) {
				t.Error("the reason of an edit is lost")
			}
			form, request := waitFor(t, byForm.store, len(acts)+1), waitFor(t, byRequest.store, len(acts)+1)
			if !slices.Equal(form, request) {
				t.Errorf("by form:\n%s\nby request:\n%s", strings.Join(form, "\n"), strings.Join(request, "\n"))
			}
		})
	}
}

// waitFor waits for so many entries: an operation writes its own when it ends.
func waitFor(t *testing.T, s store.Store, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		lines := audited(t, s)
		if len(lines) >= n && strings.Contains(lines[len(lines)-1], `"status":"done"`) {
			return lines
		}
		if store.Sleep(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("%d entries of %d:\n%s", len(lines), n, strings.Join(lines, "\n"))
		}
	}
}

// replayByForm plans and carries out a replay as people do.
func (r *rig) replayByForm() {
	r.t.Helper()
	answer, body := r.do(r.as(secretOf(api.Admin), http.MethodPost, "/console/dead/plan", url.Values{"kind": {"replay"},
		"s:filter.fingerprint": {"abc"}, "n:rate": {"1000"}, "s:reason": {"because"}, "back": {"/console/dead"}}))
	_, id, ok := strings.Cut(body, `name="plan" value="`)
	if answer.StatusCode != http.StatusOK || !ok {
		r.t.Fatalf("%d\n%s", answer.StatusCode, body)
	}
	if strings.Contains(body, "hx-trigger") {
		r.t.Error("a plan is replaced by another page")
	}
	id, _, _ = strings.Cut(id, `"`)
	form := url.Values{"kind": {"replay"}, "plan": {id}}
	if answer, body = r.do(r.as(secretOf(api.Admin), http.MethodPost, "/console/dead/run", form)); answer.StatusCode !=
		http.StatusSeeOther || !strings.HasPrefix(answer.Header.Get("Location"), "/console/operations/") {
		r.t.Fatalf("%d\n%s", answer.StatusCode, body)
	}
}

func replayByRequest(t *testing.T, a *api.API, who api.Caller) {
	t.Helper()
	_, text, err := a.Call(t.Context(), who, http.MethodPost, "/v1/dead/replay",
		[]byte(`{"filter":{"fingerprint":"abc"},"rate":1000,"reason":"because","plan":true}`))
	if err != nil {
		t.Fatal(err)
	}
	var plan struct {
		PlanID string `json:"plan_id"`
	}
	if err := json.Unmarshal(text, &plan); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Call(t.Context(), who, http.MethodPost, "/v1/dead/replay",
		[]byte(`{"plan_id":"`+plan.PlanID+`"}`)); err != nil {
		t.Fatal(err)
	}
}

// TestAuditSaysHowToUndo what people and pipelines do.
func TestAuditSaysHowToUndo(t *testing.T) {
	v := &view{Lang: english, site: &site{}}
	for action, want := range map[string]string{"topics pause": "Resume it.", "forward.rules.rm": "Add the rule again.",
		"forward.rules.set": "Set what is shown back to what it was.", "operations cancel": "Plan it again for what is left.",
		"cancel": "It cannot be undone: send the message again.", "dead discard": "It cannot be undone.",
		"state put": "Write the value from before again: the history has it.", "topics declare": ""} {
		if got := v.auditRow(&operate.AuditEntry{Action: action}).Undo; got != want {
			t.Errorf("%s: %q, want %q", action, got, want)
		}
	}
	if got := v.auditRow(&operate.AuditEntry{Action: "schedules backfill", Count: 7}).Undo; got != "" {
		t.Errorf("a plan of a backfill: %q", got)
	}
}
