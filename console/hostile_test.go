package console

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/sqlite"
)

// hostile are texts that leave an attribute, a comment, a script or a line where they are not escaped for it.
var hostile = []string{
	`"'></textarea></title></script>--><pwn-x pwn-y=1 onpwn="1">` + "` pwn-z=1 onpwn=2 {{.Nonce}}",
	"javascript:pwn()//",
	"\r\nevent: pwn\r\n\r\n<pwn-x>",
}

// mark stands in a store for a hostile text: it is a name that every check takes.
const mark = "zzz"

// poison puts a hostile text into a file of SQLite wherever the mark is, past all checks of names.
func poison(t *testing.T, path, text string) {
	t.Helper()
	inside, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	rows, err := db.Query(`SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'
		AND c.type IN ('TEXT', 'BLOB') AND m.name || '.' || c.name NOT IN ('pawl_msg.headers', 'pawl_attempt.record')`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var all [][2]string
	for rows.Next() {
		var one [2]string
		if err := rows.Scan(&one[0], &one[1]); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		_, err := db.Exec(fmt.Sprintf(`UPDATE %[1]s SET %[2]s = CASE typeof(%[2]s) WHEN 'blob' THEN CAST(replace(
			CAST(%[2]s AS TEXT), ?1, iif(substr(CAST(%[2]s AS TEXT), 1, 1) = '{', ?2, ?3)) AS BLOB)
			ELSE replace(%[2]s, ?1, ?3) END WHERE instr(CAST(%[2]s AS TEXT), ?1)`, c[0], c[1]), mark,
			string(inside[1:len(inside)-1]), text)
		if err != nil {
			t.Fatal(c, err)
		}
	}
}

// marked fills a store with things that have the mark in every text.
func marked(t *testing.T, r *rig) {
	t.Helper()
	filled(t, r.store)
	now, object := time.Now(), []byte(`{"zzzname":"zzzvalue"}`)
	letters, _ := store.As[store.DeadLetters](r.store)
	topics, _ := store.As[store.Topics](r.store)
	shared, _ := store.As[store.Shared](r.store)
	r.append("zzztopic", pawl.Message{ID: "zzzid", Key: []byte("zzzkey"), Body: []byte("zzzbody"),
		Unique: pawl.Unique{Key: "zzzunique"}}, pawl.Message{ID: "zzzheld", Body: object})
	_, err := letters.Import(t.Context(), store.Record{Message: pawl.Message{ID: "zzzdead", Topic: "zzztopic",
		Key: []byte("zzzkey"), Body: object}, State: store.IsDead, DeadAt: now, EnqueuedAt: now,
		Kind: "zzzkind", Reason: "zzzreason", Fingerprint: "zzzprint"})
	if err == nil {
		_, err = r.store.Claim(t.Context(), []store.Want{{Topic: "zzztopic", Limit: 1}},
			store.Lease{For: time.Hour, Owner: "zzzowner"})
	}
	if err == nil {
		err = topics.Pause(t.Context(), "zzztopic", 0, "zzzpauser", "zzzwhy")
	}
	for key, value := range map[string]string{
		"worker/zzzworker": `{"version":"zzzversion","started_at":"2026-01-01T00:00:00Z","topics":[{"topic":"zzztopic",
			"running":1,"concurrency":2,"limited_by":"zzzlimit","limits":[{"limit":"zzzlimit","running":1,"window":2}]}]}`,
		"pipeline/zzzpipe":       `{"kind":"crawl","topics":["zzztopic"]}`,
		"pipeline/zzzother":      `{"kind":"zzzkind","topics":[],"degraded":"zzzdegraded"}`,
		"schedules/set/zzzsched": `{"name":"zzzsched","cron":"@daily","topic":"zzztopic","origin":"zzzorigin"}`,
		"zzz/state":              "zzzstate",
		"audit/" + pawl.NewID(): `{"id":"zzzaudit","at":"2026-01-01T00:00:00Z","who":"zzzwho","action":"zzz pause",
			"target":"zzztarget","reason":"zzzaudited","change":"zzzchange","via":"zzzvia","from":["zzzfrom"],"refused_ids":["zzzrefused"],
			"original_body":"zzzoriginal","filter":{"topic":"zzztopic","ids":["zzzid"]},"result":{"done":1}}`,
	} {
		if err == nil {
			_, err = shared.PutState(t.Context(), key, []byte(value), 0, "zzzwriter")
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for path, form := range map[string]url.Values{
		"/do/v1/schedules/zzznight/put":     {"s:cron": {"@daily"}, "s:topic": {"zzztopic"}, "s:body": {"zzzbody"}},
		"/do/v1/state/zzztopic/zzzkey/put":  {"j:value": {`{"a":"zzzshared"}`}, "s:schema": {"zzzschema"}},
		"/do/v1/dead/dead-1/resolve":        {"s:reason": {"zzznote"}},
		"/do/v1/topics/mail/pause":          {"s:reason": {"zzzreason"}},
		"/do/v1/messages/zzzdead/cancel":    {},
		"/do/v1/schedules/zzznight/pause":   {"s:reason": {"zzzreason"}},
		"/do/v1/dead/zzzdead/edit":          {"s:body": {`{"zzzname":"zzzvalue"}`}, "s:reason": {"zzzreason"}},
		"/do/v1/schedules/zzznight/unknown": {},
	} {
		r.do(r.as(secretOf(api.Admin), http.MethodPost, "/console"+path, form))
	}
}

// readPage is a page as a browser reads it.
type readPage struct {
	t     *testing.T
	path  string
	known func(kind, name string) bool // to a template
	links map[string]bool
	text  *strings.Builder
}

// look goes through a page: what is there that no template has?
func (s *readPage) look(n *html.Node) {
	switch n.Type {
	case html.ElementNode:
		if !s.known("<", n.Data) && !slices.Contains([]string{"tbody", "head"}, n.Data) {
			s.t.Errorf("%s has an element %s", s.path, n.Data)
		}
		for _, a := range n.Attr {
			if !s.known(`[\s"}]`, a.Key) || strings.HasPrefix(a.Key, "on") || a.Key == "style" {
				s.t.Errorf("%s has an attribute %s of %s", s.path, a.Key, n.Data)
			}
			switch a.Key {
			case "href", "src", "action", "hx-get", "hx-post", "formaction":
				u, err := url.Parse(a.Val)
				if err != nil || u.Scheme != "" || u.Host != "" {
					s.t.Errorf("%s leads to %q", s.path, a.Val)
				} else if a.Key == "href" {
					s.links[strings.Split(a.Val, "#")[0]] = true
				}
			}
			s.text.WriteString(a.Val)
		}
		if n.Data == "script" && (n.FirstChild != nil || len(n.Attr) != 3) {
			s.t.Errorf("%s has a script of its own", s.path)
		}
	case html.CommentNode:
		s.t.Errorf("%s has a comment %q", s.path, n.Data)
	case html.TextNode:
		s.text.WriteString(n.Data)
	}
	for c := range n.ChildNodes() {
		s.look(c)
	}
}

// TestHostileTextsAreText stores hostile texts as every name and value that there is, past the checks of what appends
// and of the API, follows all links from the overview, and sends all forms with them. No page has an element, an
// attribute, a script or a link that no template has.
func TestHostileTextsAreText(t *testing.T) {
	var templates strings.Builder
	for name, text := range sources(t) {
		if strings.HasSuffix(name, ".html") {
			templates.WriteString(text)
		}
	}
	memo := map[string]bool{}
	known := func(before, name string) bool {
		if _, ok := memo[before+name]; !ok {
			pattern := regexp.MustCompile(before + regexp.QuoteMeta(name) + `[=\s>{]`)
			memo[before+name] = pattern.MatchString(templates.String())
		}
		return memo[before+name]
	}
	for _, evil := range hostile {
		t.Run("", func(t *testing.T) {
			r := poisoned(t, evil)
			seen := walk(t, r, evil, known)
			said, text := strings.TrimSpace(strings.ReplaceAll(evil, "\r\n", "\n")), strings.ReplaceAll(seen, "\r\n", "\n")
			for _, what := range []string{"topic", "id", "key", "unique", "dead", "kind", "reason", "owner", "pauser", "why",
				"worker", "limit", "pipe", "degraded", "sched", "state", "who", "audited", "change", "via", "note",
				"name", "value", "header", "content", "error", "rule", "action", "fact", "user", "title", "cell",
				"column", "output", "failure", "next", "detail", "fix"} {
				if !strings.Contains(text, said+what) {
					t.Errorf("no page shows %s", what)
				}
			}
		})
	}
}

// poisoned is a rig of a store that is full of a hostile text, and of a program that says it, too.
func poisoned(t *testing.T, evil string) *rig {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.db")
	open := func() store.Store {
		s, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Run("fill", func(t *testing.T) { marked(t, newRigOver(t, open(), nil)) })
	poison(t, path, evil)
	s := open()
	letters, _ := store.As[store.DeadLetters](s)
	now := time.Now()
	_, err := letters.Import(t.Context(), store.Record{Message: pawl.Message{ID: "dead-9", Topic: "mail",
		Body: []byte(`{"a":1}`), Headers: map[string]string{evil + "header": evil + "content"}},
		State: store.IsDead, DeadAt: now, EnqueuedAt: now, Kind: "x", Reason: "x", Attempts: 1,
		History: []store.Attempt{{Attempt: 1, StartedAt: now, EndedAt: now, Worker: evil + "worker", Kind: evil + "kind",
			Error: evil + "error", Rule: evil + "rule", Action: evil + "action",
			Attrs: map[string]string{"a": evil + "fact"}}}})
	if err != nil {
		t.Fatal(err)
	}
	look := func(context.Context, operate.CommandCall) operate.CommandAnswer {
		return operate.CommandAnswer{Columns: []string{evil + "column"}, Rows: [][]string{{evil + "cell"}},
			Text: evil + "output"}
	}
	fail := func(context.Context, operate.CommandCall) operate.CommandAnswer {
		return operate.CommandAnswer{Code: 2, Error: evil + "failure", Next: evil + "next"}
	}
	door, err := api.New(s, api.Config{Rooms: api.Rooms{
		Commands: func() []operate.Command {
			to := operate.CommandFlag{Name: "to", Help: evil, Type: "text", Default: evil, Choices: []string{evil}}
			return []operate.Command{{Name: "crawl hosts", Use: "pawl crawl hosts", Run: look},
				{Name: "crawl put", Use: "pawl crawl put NAME", Summary: evil, Changes: true, Run: fail,
					Flags: []operate.CommandFlag{to}}}
		},
		Doctor: func(context.Context) (any, error) {
			return []diagnosis{{Check: evil + "check", Verdict: "warn", Detail: evil + "detail", Fix: evil + "fix",
				Runbook: evil}}, nil
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	k, err := New(Config{API: door, BasePath: "/console", Title: evil + "title", Trace: "https://t.test/{trace}",
		Auth: func(*http.Request) (user, role string) { return evil + "user", api.Admin }})
	if err != nil {
		t.Fatal(err)
	}
	k.patience = time.Minute
	t.Cleanup(func() { k.Close(); door.Close(); _ = s.Close() })
	return &rig{t, s, k}
}

// walk follows all links of a console, then sends all forms. It returns the texts of all pages.
func walk(t *testing.T, r *rig, evil string, known func(before, name string) bool) string {
	t.Helper()
	var text strings.Builder
	ask := func(q *http.Request, links map[string]bool) {
		w := httptest.NewRecorder()
		r.ServeHTTP(w, q)
		for name, values := range w.Header() {
			if strings.ContainsAny(strings.Join(values, ""), "\r\n\x00") {
				t.Errorf("%s: %s: %q", q.URL, name, values)
			}
		}
		if given := w.Header().Get("Content-Disposition"); given != "" &&
			!slices.Contains([]string{`attachment; filename="body"`, `attachment; filename="dead-letters.jsonl"`}, given) {
			t.Errorf("%s: %s", q.URL, given)
		}
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			return
		}
		page, err := html.Parse(bytes.NewReader(w.Body.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		(&readPage{t, q.Method + " " + q.URL.String(), known, links, &text}).look(page)
	}
	private, _ := targets(t, r)
	links, done := map[string]bool{}, map[string]bool{}
	for _, to := range private {
		if to.method == http.MethodGet && !strings.HasSuffix(to.path, "/live") {
			links[to.path] = true
			asked := url.Values{}
			for name := range strings.FieldsSeq("q topic kind search type prefix copy state do id span") {
				asked.Set(name, evil)
			}
			links[to.path+"?"+asked.Encode()] = true
		}
		links["/console/pipelines/"+url.PathEscape(evil)+"pipe"] = true
		links["/console/"+url.PathEscape(evil)], links["/console/state?prefix="] = true, true
	}
	for len(links) > len(done) && len(done) < 400 {
		for _, link := range slices.Sorted(maps.Keys(links)) {
			if !done[link] && strings.HasPrefix(link, "/console") {
				ask(r.as("", http.MethodGet, link, nil), links)
			}
			done[link] = true
		}
	}
	for i := range private {
		to := &private[i]
		if to.method != http.MethodPost {
			continue
		}
		form := url.Values{"s:reason": {evil}, "s:body": {evil}, "s:topic": {evil}, "p:name": {evil}, "sure": {evil},
			"back": {evil}, "typed": {evil}, "s:" + evil: {evil}, evil: {evil}}
		for _, given := range []url.Values{form, {"n:rate": {evil}}, {"d:for_seconds": {evil}}, {"w:args": {evil}},
			{"sure": {evil}}} {
			for _, fragment := range []string{"", "true"} {
				maps.Copy(given, to.form)
				q := r.as("", http.MethodPost, strings.ReplaceAll(to.path, "x.", "crawl."), given)
				q.Header.Set("HX-Request", fragment)
				ask(q, map[string]bool{})
			}
		}
	}
	if len(done) < 250 {
		t.Errorf("only %d links were followed", len(done))
	}
	return text.String()
}
