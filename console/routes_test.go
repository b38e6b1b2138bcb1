package console

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// someCommands are those of a program: one that looks, one for operators, one for admins. Each that changes something
// writes that down.
func someCommands() []operate.Command {
	run := func(_ context.Context, c operate.CommandCall) operate.CommandAnswer {
		topics, _ := store.As[store.Topics](c.Store)
		if err := topics.Pause(context.Background(), "mail", 0, c.Who, "by command"); err != nil {
			return operate.CommandAnswer{Code: 1, Error: err.Error()}
		}
		return operate.CommandAnswer{}
	}
	return []operate.Command{{Name: "x put", Changes: true, Run: run}, {Name: "x rm", Changes: true, Run: run},
		{Name: "x ls", Run: func(context.Context, operate.CommandCall) operate.CommandAnswer {
			return operate.CommandAnswer{Text: "no such mailbox"}
		}}, {Name: "x fail", Changes: true, Run: func(context.Context, operate.CommandCall) operate.CommandAnswer {
			return operate.CommandAnswer{Code: 1, Error: "it failed"}
		}}}
}

// target is a route of the console with names that are there, and the least role that may use it.
type target struct {
	method, path, role string
	form               url.Values
}

// needs are the forms of the console that are not of a route of the API: what they need, and something to send.
var needs = map[string][]target{
	"/dead/plan": {{role: api.Operator, form: url.Values{"kind": {"replay"}}},
		{role: api.Operator, form: url.Values{"kind": {"resolve"}}}, {role: api.Operator, form: url.Values{"kind": {"reopen"}}},
		{role: api.Admin, form: url.Values{"kind": {"discard"}}}},
	"/dead/run": {{role: api.Operator, form: url.Values{"kind": {"replay"}, "plan": {"PLAN"}}},
		{role: api.Admin, form: url.Values{"kind": {"discard"}, "plan": {"PLAN"}}}},
	"/send":               {{role: api.Operator, form: sends["/v1/messages"]}},
	"/commands/{command}": {{role: api.Operator, form: url.Values{"s:reason": {""}}}},
	"/do/":                {}, // of the API, below
}

// sends are fields of forms of routes that want some.
var sends = map[string]url.Values{
	"/v1/topics/{topic}/set":         {"n:max_waiting": {"5000"}},
	"/v1/topics/{topic}/messages":    {"s:body": {"sent"}, "s:reason": {""}},
	"/v1/messages":                   {"s:topic": {"mail"}, "s:body": {"sent"}, "s:reason": {""}},
	"/v1/commands/{command}":         {"s:reason": {""}},
	"/v1/dead/{id}/edit":             {"s:body": {"edited"}},
	"/v1/schedules/{name}/put":       {"s:cron": {"@hourly"}, "s:topic": {"mail"}},
	"/v1/schedules/{name}/backfill":  {"s:since": {"2026-01-01T00:00:00Z"}, "s:until": {"2026-01-02T00:00:00Z"}},
	"/v1/state/{topic}/{key}/put":    {"j:value": {"2"}},
	"/v1/dead/" + operate.KindReplay: {"b:all": {"true"}, "b:plan": {"true"}}, "/v1/dead/resolve": {"b:all": {"true"}},
	"/v1/dead/reopen": {"b:all": {"true"}}, "/v1/dead/discard": {"b:all": {"true"}},
}

// settings are routes for admins only.
var settings = regexp.MustCompile(`/(set|rm|discard)$`)

// targets are all routes of a console: those of its table, what forms do by the API, and those for everybody.
func targets(t *testing.T, r *rig) (private, public []target) {
	t.Helper()
	base := r.config.BasePath
	for route := range r.public() {
		method, path, _ := strings.Cut(route, " ")
		public = append(public, target{method: method, path: base + strings.ReplaceAll(path, "{name}", "console.css")})
	}
	for _, s := range r.sites {
		for _, p := range append(pages(), page{path: "/live"}) {
			forms, known := needs[p.path]
			switch {
			case p.method == "":
				private = append(private, target{http.MethodGet, s.base + withNames(p.path), api.Viewer, nil})
			case !known || p.method != http.MethodPost:
				t.Errorf("%s %s: who may? Say so in needs", p.method, p.path)
			}
			for _, f := range forms {
				if p.method == http.MethodPost {
					private = append(private, target{p.method, s.base + withNames(p.path), f.role, f.form})
				}
			}
		}
		private = append(private,
			target{http.MethodPost, s.base + "/commands/x.rm", api.Admin, sends["/v1/commands/{command}"]})
		for _, route := range api.Routes() {
			if route.Method != http.MethodPost || strings.HasPrefix(route.Console, "(") {
				continue
			}
			role := api.Admin
			if route.OpenTo(api.Operator) || route.OpenTo(api.Producer) { // an operator sends by hand
				role = api.Operator
			}
			if settings.MatchString(route.Path) != (role == api.Admin) || route.OpenTo(api.Viewer) {
				t.Errorf("%s %s has the wrong role", route.Method, route.Path)
			}
			private = append(private,
				target{route.Method, s.base + "/do" + withNames(route.Path), role, sends[route.Path]})
		}
	}
	return private, public
}

// withNames puts names of what the rig has into a route.
func withNames(path string) string {
	id := "waits"
	switch {
	case strings.HasPrefix(path, "/v1/dead"):
		id = "dead-1"
	case strings.HasPrefix(path, "/v1/operations"), strings.HasPrefix(path, "/operations"):
		id = "none"
	case strings.HasPrefix(path, "/runbook"):
		return "/runbook/PawlTopicPaused"
	case path == "/v1/topics/{topic}/rm":
		return "/v1/topics/empty/rm"
	}
	return strings.NewReplacer("{id}", id, "{topic}", "mail", "{key}", "k", "{name}", "nightly", "{command}", "x.put",
		"{worker}", "w", "{kind}", "kafka").Replace(path)
}

// changes are the paths of all forms.
func changes(t *testing.T, r *rig) (all []string) {
	t.Helper()
	private, public := targets(t, r)
	for _, p := range append(public, private...) {
		if p.method == http.MethodPost {
			all = append(all, p.path)
		}
	}
	return all
}

// furnished is a rig that has something for each route, and the id of a plan.
func furnished(t *testing.T, change func(*Config)) (r *rig, plan string) {
	t.Helper()
	r = newRig(t, nil)
	filled(t, r.store)
	for path, form := range map[string]url.Values{
		"/schedules/nightly/put": {"s:cron": {"@daily"}, "s:topic": {"mail"}, "s:body": {"x"}},
		"/state/mail/k/put":      {"j:value": {"1"}},
	} {
		answer, body := r.do(r.as(secretOf(api.Admin), http.MethodPost, "/console/do/v1"+path, form))
		if answer.StatusCode != http.StatusSeeOther {
			t.Fatalf("%s: %d\n%s", path, answer.StatusCode, body)
		}
	}
	_, body := r.do(r.as(secretOf(api.Admin), http.MethodPost, "/console/dead/plan", url.Values{"kind": {"replay"}}))
	if _, plan, _ = strings.Cut(body, `name="plan" value="`); plan == "" {
		t.Fatal(body)
	}
	plan, _, _ = strings.Cut(plan, `"`)
	if change != nil {
		change(&r.config)
	}
	return r, plan
}

// contents are what a store has, but for what changes by itself.
func (r *rig) contents() string {
	r.t.Helper()
	inspector, _ := store.As[store.Inspector](r.store)
	letters, _ := store.As[store.DeadLetters](r.store)
	shared, _ := store.As[store.Shared](r.store)
	all := []any{r.stats("mail").Topic, r.stats("mail").Paused != nil}
	for m, err := range inspector.List(r.t.Context(), store.Filter{}) {
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, m.ID, m.State, m.Topic)
	}
	for m, err := range letters.Dead(r.t.Context(), store.DeadFilter{}) {
		if err != nil {
			r.t.Fatal(err)
		}
		all = append(all, m)
	}
	for e, err := range shared.ListState(r.t.Context(), "", 0) {
		if err != nil {
			r.t.Fatal(err)
		}
		if !strings.HasPrefix(e.Key, "worker") && !strings.HasPrefix(e.Key, "api/") {
			all = append(all, e.Key, e.Version)
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

// by is a request of the holder of a token; those whose role gets no session send the token itself.
func (r *rig) by(role string, to *target, plan string) *http.Request {
	form := url.Values{"s:reason": {"because"}, "back": {"/console/"}}
	maps.Copy(form, to.form)
	if form.Get("plan") != "" {
		form.Set("plan", plan)
	}
	if to.method == http.MethodGet {
		form = nil
	}
	if role == "" || role == api.Producer || role == api.Worker {
		q := r.as("", to.method, to.path, form)
		if role != "" {
			q.Header.Set("Authorization", "Bearer "+secretOf(role))
		}
		return q
	}
	return r.as(secretOf(role), to.method, to.path, form)
}

// TestRolesHoldByEachRoute walks all routes as everybody whose role is too low for them: they are refused, and nothing
// is changed. Who has the role is not refused, and most of what they do has an effect, so that the walk proves
// something.
func TestRolesHoldByEachRoute(t *testing.T) {
	r, plan := furnished(t, nil)
	private, public := targets(t, r)
	if n := strings.Count(sources(t)["console.go"], ".HandleFunc("); n != 4 || len(public) != 7 {
		t.Errorf("%d calls of HandleFunc and %d public routes: add the new ones to targets", n, len(public))
	}
	before := r.contents()
	for i := range private {
		to := &private[i]
		for _, role := range []string{"", api.Producer, api.Worker, api.Viewer, api.Operator} {
			if role == to.role || role == api.Operator && to.role == api.Viewer {
				break // and all above
			}
			answer, body := r.do(r.by(role, to, plan))
			nobody := role == "" && answer.StatusCode == http.StatusSeeOther &&
				strings.HasPrefix(answer.Header.Get("Location"), "/console/login?")
			if answer.StatusCode != http.StatusForbidden && !nobody {
				t.Errorf("%q: %s %s %v: %d", role, to.method, to.path, to.form, answer.StatusCode)
			}
			if strings.Contains(body, "no such mailbox") {
				t.Errorf("%q: %s %s shows what it refuses", role, to.method, to.path)
			}
		}
	}
	if after := r.contents(); after != before {
		t.Errorf("what was refused was done: of %d bytes it has %d", len(before), len(after))
	}
	effects := 0
	for i := range private {
		to := &private[i]
		if to.method == http.MethodGet {
			continue
		}
		r, plan := furnished(t, nil)
		before := r.contents()
		answer, body := r.do(r.by(to.role, to, plan))
		if answer.StatusCode == http.StatusForbidden {
			t.Errorf("%s: %s %s: %d\n%s", to.role, to.method, to.path, answer.StatusCode, body)
		}
		if r.contents() != before {
			effects++
		}
	}
	if effects < 25 {
		t.Errorf("only %d forms have an effect", effects)
	}
}

// TestReadOnlyChangesNothing: not by any form, whoever sends it, and there is no form.
func TestReadOnlyChangesNothing(t *testing.T) {
	r, plan := furnished(t, func(c *Config) { c.ReadOnly = true })
	private, _ := targets(t, r)
	before := r.contents()
	for i := range private {
		to := &private[i]
		if strings.HasSuffix(to.path, "/live") {
			continue // it has no end
		}
		answer, body := r.do(r.by(api.Admin, to, plan))
		if to.method == http.MethodPost && answer.StatusCode != http.StatusForbidden {
			t.Errorf("POST %s: %d", to.path, answer.StatusCode)
		}
		if strings.Contains(body, "/console/do/") || strings.Contains(body, `role="button"`) {
			t.Errorf("%s has a form that changes something", to.path)
		}
	}
	if after := r.contents(); after != before {
		t.Errorf("something was done: of %d bytes it has %d", len(before), len(after))
	}
}

// TestNothingPrivateIsKept asks for everything over the network, and gets every kind of answer: no cache may keep one,
// but for files that are the same for everybody.
func TestNothingPrivateIsKept(t *testing.T) {
	r, plan := furnished(t, nil)
	served := httptest.NewServer(r)
	defer served.Close()
	private, public := targets(t, r)
	private = append(private, target{method: http.MethodGet, path: "/console"}, target{method: http.MethodGet, path: "/"},
		target{method: http.MethodGet, path: "/console/nothing"}, target{method: http.MethodPut, path: "/console/topics"},
		target{method: http.MethodGet, path: "/console/static/nothing"},
		target{method: http.MethodGet, path: "/console/messages/none/body"})
	seen := map[int]bool{}
	for _, role := range []string{"", api.Viewer, api.Admin} {
		for _, to := range append(slices.Clone(private), public...) {
			q := r.by(role, &to, plan)
			q.URL.Host, q.RequestURI = served.Listener.Addr().String(), ""
			answer, err := http.DefaultTransport.RoundTrip(q)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			seen[answer.StatusCode] = true
			if kept := answer.Header.Get("Cache-Control"); kept != "no-store" &&
				(to.path != "/console/static/console.css" || kept != "no-cache") {
				t.Errorf("%q: %s %s: %d, Cache-Control: %s", role, to.method, to.path, answer.StatusCode, kept)
			}
			for _, c := range answer.Cookies() {
				if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/console/" || c.Domain != "" {
					t.Errorf("%s %s: %s", to.method, to.path, c)
				}
			}
		}
	}
	for _, status := range []int{200, 301, 303, 401, 403, 404, 405} {
		if !seen[status] {
			t.Errorf("no answer was %d", status)
		}
	}
}
