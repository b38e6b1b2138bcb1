package console

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// rig is a console of a store in memory, with a token for each role.
type rig struct {
	t     *testing.T
	store store.Store
	*Console
}

// secretOf is the token of a role.
func secretOf(role string) string { return role + "-secret" }

func newRig(t *testing.T, change func(*Config)) *rig {
	t.Helper()
	return newRigOver(t, memory.New(memory.Config{}), change)
}

func newRigOver(t *testing.T, s store.Store, change func(*Config)) *rig {
	t.Helper()
	door, err := api.New(s, api.Config{Access: api.Access{Tokens: []api.Token{
		{Name: "vera", Secret: secretOf(api.Viewer), Role: api.Viewer},
		{Name: "olga", Secret: secretOf(api.Operator), Role: api.Operator},
		{Name: "ada", Secret: secretOf(api.Admin), Role: api.Admin},
		{Name: "prod", Secret: secretOf(api.Producer), Role: api.Producer},
		{Name: "will", Secret: secretOf(api.Worker), Role: api.Worker},
		{Name: "narrow", Secret: "narrow-secret", Role: api.Operator, Topics: []string{"mail"}},
	}}, Rooms: api.Rooms{Commands: someCommands}})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{API: door, BasePath: "/console"}
	if change != nil {
		change(&c)
	}
	k, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	k.patience = time.Minute // the machine may be busy
	t.Cleanup(func() {
		k.Close()
		door.Close()
		_ = s.Close()
	})
	return &rig{t, s, k}
}

// append appends messages to a topic.
func (r *rig) append(topic string, messages ...pawl.Message) []store.Receipt {
	r.t.Helper()
	for i := range messages {
		messages[i].Topic = topic
	}
	receipts, err := r.store.Append(r.t.Context(), store.Batch[pawl.Message]{Items: messages})
	if err != nil {
		r.t.Fatal(err)
	}
	return receipts
}

// as returns a request of who has a token, with the session that the login gives.
func (r *rig) as(secret, method, path string, form url.Values) *http.Request {
	r.t.Helper()
	q := httptest.NewRequestWithContext(r.t.Context(), method, "http://pawl.test"+path, strings.NewReader(form.Encode()))
	if method == http.MethodPost {
		q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		q.Header.Set("Sec-Fetch-Site", "same-origin")
		q.Header.Set("Origin", "http://pawl.test")
	}
	if secret != "" {
		session, err := r.sites[0].api.Session(q, secret, time.Now().Add(time.Hour))
		if err != nil {
			r.t.Fatal(err)
		}
		q.AddCookie(&http.Cookie{Name: sessionCookie, Value: session})
	}
	return q
}

// reply is what came back, but for its body.
type reply struct {
	StatusCode int
	Status     string
	Header     http.Header
	cookies    []*http.Cookie
}

func (a reply) Cookies() []*http.Cookie { return a.cookies }

// do carries out a request, and returns the answer and its body.
func (r *rig) do(q *http.Request) (reply, string) {
	r.t.Helper()
	w := httptest.NewRecorder()
	r.ServeHTTP(w, q)
	got := w.Result()
	defer func() { _ = got.Body.Close() }()
	b, err := io.ReadAll(got.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply{got.StatusCode, got.Status, got.Header, got.Cookies()}, string(b)
}

// get is the body of a page that is there.
func (r *rig) get(secret, path string) string {
	r.t.Helper()
	answer, body := r.do(r.as(secret, http.MethodGet, path, nil))
	if answer.StatusCode != http.StatusOK {
		r.t.Fatalf("%s: %d\n%s", path, answer.StatusCode, body)
	}
	return body
}

// TestPagesAreShown asks for each page that has no name in its path, in both languages.
func TestPagesAreShown(t *testing.T) {
	r := newRig(t, nil)
	r.append("mail", pawl.Message{Body: []byte("hello")})
	for _, p := range pages() {
		if p.method != "" || p.file == "" || strings.Contains(p.path, "{") {
			continue
		}
		for _, lang := range []string{english, zh} {
			q := r.as(secretOf(api.Admin), http.MethodGet, "/console"+p.path, nil)
			q.Header.Set("Accept-Language", lang)
			answer, body := r.do(q)
			if answer.StatusCode != http.StatusOK || !strings.Contains(body, `<html lang="`+lang+`"`) {
				t.Errorf("%s: %d\n%s", p.path, answer.StatusCode, body)
			}
		}
	}
}

// TestPagesNameTheRunbook: what can go wrong has its pages of the runbook beside it, and a topic what is wrong with it.
func TestPagesNameTheRunbook(t *testing.T) {
	r := newRig(t, nil)
	id := r.append("mail", pawl.Message{}, pawl.Message{})[0].ID
	r.append("orders", pawl.Message{})
	if err := r.store.(store.Topics).Pause(t.Context(), "mail", 0, "ops", "the server moves"); err != nil {
		t.Fatal(err)
	}
	r.sites[0].checkup.next = time.Now().Add(time.Hour)
	r.sites[0].checkup.verdict = []diagnosis{{Check: "topic mail", Detail: "one key holds it up", Runbook: "PawlHotKey"},
		{Check: "topic orders", Detail: "it stands still"}}
	for path, name := range map[string]string{"topics": "PawlTopicPaused", "topics/mail": "PawlTopicUnserved",
		"dead": "PawlDeadLetters", "messages/" + id: "PawlHotKey", "state": "PawlStateIgnored", "workers": "PawlZombies",
		"policy": "PawlRetryStorm", "schedules": "PawlScheduleStandsStill"} {
		if page := r.get(secretOf(api.Operator), "/console/"+path); !strings.Contains(page, "/console/runbook/"+name+`"`) {
			t.Errorf("%s does not name %s", path, name)
		}
	}
	page := r.get(secretOf(api.Operator), "/console/topics/mail")
	if !strings.Contains(page, ">topic mail: one key holds it up <a") || strings.Contains(page, "it stands still") {
		t.Errorf("what is wrong with the topic:\n%s", page)
	}
}

// TestEveryTextIsTranslated finds texts of templates and code that the catalogue lacks, and lines that nothing uses.
func TestEveryTextIsTranslated(t *testing.T) {
	used := map[string]bool{}
	for _, text := range sources(t) {
		for _, m := range regexp.MustCompile(`\.T[ (]"((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(text, -1) {
			used[m[1]] = true
		}
	}
	for _, p := range pages() {
		if p.nav != "" {
			used[p.nav] = true
		}
	}
	for _, text := range append(dynamicTexts, pageTexts()...) {
		used[text] = true
	}
	for text := range used {
		if chinese()[text] == "" {
			t.Errorf("%q is not translated", text)
		}
	}
	for text := range chinese() {
		if !used[text] {
			t.Errorf("%q is translated, but not used", text)
		}
	}
}

// TestAPageDoesNotWaitForASlowStore: it says that the store is asked, and has the answer later.
func TestAPageDoesNotWaitForASlowStore(t *testing.T) {
	r := newRig(t, nil)
	r.append("mail", pawl.Message{Body: []byte("x")})
	r.patience = -time.Second
	if body := r.get(secretOf(api.Viewer), "/console/messages?state=waiting"); !strings.Contains(body, "data-soon") {
		t.Error("it does not ask again")
	}
	r.patience = time.Minute
	if body := r.get(secretOf(api.Viewer), "/console/messages?state=waiting"); strings.Contains(body, "data-soon") ||
		!strings.Contains(body, "mail</a>") {
		t.Error("the answer is not there")
	}
}

// TestAPageSaysSinceWhen: what it shows was read at the time that it names, however often it is asked for.
func TestAPageSaysSinceWhen(t *testing.T) {
	r := newRig(t, nil)
	r.append("mail", pawl.Message{Body: []byte("x")})
	asOf := func() string {
		body := r.get(secretOf(api.Viewer), "/console/messages?state=waiting")
		return regexp.MustCompile(`data-at="[^"]*"`).FindString(body)
	}
	asOf()
	m := &r.sites[0].memo
	m.mu.Lock()
	for _, e := range m.known {
		e.mu.Lock()
		e.until = time.Now().Add(time.Hour)
		e.mu.Unlock()
	}
	m.mu.Unlock()
	first := asOf()
	if again := asOf(); again != first || first == "" {
		t.Errorf("as of %s, and then %s", first, again)
	}
	m.forget()
	if again := asOf(); again == first {
		t.Error("it was not read anew")
	}
}

// vendored are the files of others, as they were published: htmx 2.0.11, htmx-ext-sse 2.2.4, uPlot 1.6.32.
var vendored = map[string]string{
	"htmx.min.js":  "d6fdc75f204e6bdefa99b69bf1e6d4ac69b8a364f77929f45c13476b4000f717",
	"sse.min.js":   "98a46496de0c3605fbffdce9167ba427bdd9553184f83f149c261891a92c0136",
	"uplot.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
}

// TestWhatBrowsersLoad: the files of others are as they were published, and all of them together are small.
func TestWhatBrowsersLoad(t *testing.T) {
	total := 0
	for name, a := range assets() {
		total += len(a.packed)
		sum := sha256.Sum256(a.plain)
		if want, known := vendored[name]; known && hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is another file: %x", name, sum)
		}
	}
	if total > 150_000 {
		t.Errorf("%d bytes are loaded", total)
	}
	r := newRig(t, nil)
	a := assets()["htmx.min.js"]
	for path, want := range map[string]string{"?v=" + a.hash: "public, max-age=31536000, immutable", "?v=other": "no-cache"} {
		answer, _ := r.do(r.as("", http.MethodGet, "/console/static/htmx.min.js"+path, nil))
		if got := answer.Header.Get("Cache-Control"); answer.StatusCode != http.StatusOK || got != want {
			t.Errorf("%s: %d, %s", path, answer.StatusCode, got)
		}
	}
}

// TestAuthOfAProgram: the program says who asks, and there is no login.
func TestAuthOfAProgram(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Auth = func(q *http.Request) (user, role string) { return q.Header.Get("X-User"), q.Header.Get("X-Role") }
	})
	r.append("mail", pawl.Message{Body: []byte("x")})
	for role, want := range map[string]int{"": http.StatusForbidden, api.Producer: http.StatusForbidden,
		"boss": http.StatusInternalServerError, api.Viewer: http.StatusForbidden, api.Operator: http.StatusSeeOther} {
		q := r.as("", http.MethodPost, "/console/do/v1/topics/mail/pause", nil)
		q.Header.Set("X-User", "zoe")
		q.Header.Set("X-Role", role)
		if answer, _ := r.do(q); answer.StatusCode != want {
			t.Errorf("%s: %d, want %d", role, answer.StatusCode, want)
		}
	}
	if p := r.stats("mail").Paused; p == nil || p.By != "zoe" {
		t.Error("not paused by who asked:", p)
	}
}

// TestStoresHaveTheirNameAndColor: a page of one store shows and changes that one.
func TestStoresHaveTheirNameAndColor(t *testing.T) {
	us := memory.New(memory.Config{})
	t.Cleanup(func() { _ = us.Close() })
	r := newRig(t, func(c *Config) {
		c.Title, c.Color, c.Stores = "eu", "#0f766e", []Named{{Name: "us", Color: "navy", Store: us}}
	})
	r.append("mail", pawl.Message{Body: []byte("x")})
	if _, err := us.Append(t.Context(), store.NewBatch(pawl.Message{Topic: "mail", Body: []byte("x")})); err != nil {
		t.Fatal(err)
	}
	body := r.get(secretOf(api.Admin), "/console/@us/topics/mail")
	if !strings.Contains(body, `<body class="site-1">`) || !strings.Contains(body, "/console/@us/do/v1/topics/mail/pause") {
		t.Error(body)
	}
	if css := r.get(secretOf(api.Admin), "/console/stores.css"); !strings.Contains(css, ".site-1{--store:navy}") {
		t.Error(css)
	}
	form := url.Values{"back": {"/console/@us/topics/mail"}}
	answer, _ := r.do(r.as(secretOf(api.Operator), http.MethodPost, "/console/@us/do/v1/topics/mail/pause", form))
	if answer.Header.Get("Location") != "/console/@us/topics/mail" || r.stats("mail").Paused != nil {
		t.Error("the wrong store:", answer.Header)
	}
	if stats, err := us.Stats(t.Context(), "mail"); err != nil || stats[0].Paused == nil || stats[0].Paused.By != "olga" {
		t.Error(stats, err)
	}
	for _, bad := range []Config{{Store: us, Color: "red;}"}, {Store: us, Stores: []Named{{Name: "../x", Store: us}}},
		{Store: us, BasePath: "console"}, {}} {
		if k, err := New(bad); err == nil {
			k.Close()
			t.Errorf("%+v is taken", bad)
		}
	}
}

// TestOverviewSaysEachFindingOnce: what the doctor finds and the page says itself is listed once, the rest with its
// page of the runbook.
func TestOverviewSaysEachFindingOnce(t *testing.T) {
	r := newRig(t, nil)
	r.append("mail", pawl.Message{})
	if err := r.store.(store.Topics).Pause(t.Context(), "mail", 0, "ops", ""); err != nil {
		t.Fatal(err)
	}
	r.sites[0].checkup.next = time.Now().Add(time.Hour)
	r.sites[0].checkup.verdict = []diagnosis{
		{Check: "topic mail", Detail: "paused by ops", Runbook: "PawlTopicPaused"},
		{Check: "topic mail", Detail: "one key", Runbook: "PawlHotKey", Message: "m1"},
		{Check: "topic sms", Detail: "7 dead letters", Runbook: "PawlDeadLetters"},
		{Check: "disk", Detail: "full"},
	}
	page := r.get(secretOf(api.Operator), "/console/")
	for text, times := range map[string]int{"paused by ops": 1, "topic mail: one key": 1, "disk: full": 1,
		"/runbook/PawlHotKey": 1, `href="/console/messages/m1">topic mail: one key`: 1,
		`href="/console/dead?topic=sms">topic sms: 7 dead letters`: 1} {
		if n := strings.Count(page, text); n != times {
			t.Errorf("%q is there %d times", text, n)
		}
	}
	found := []diagnosis{{Verdict: "skip"}, {Verdict: "ok"}, {Verdict: "warn"}, {Verdict: "ok"}, {Verdict: "fail"}}
	if worstFirst(found); found[0].Verdict != "fail" || found[1].Verdict != "warn" || found[4].Verdict != "skip" {
		t.Errorf("the doctor's page begins with %+v", found)
	}
}
