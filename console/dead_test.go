package console

import (
	"bytes"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// TestAllCausesOfAFilter: what matches a filter is counted over all of its causes, and a cause leads to its rule.
func TestAllCausesOfAFilter(t *testing.T) {
	r := newRig(t, nil)
	letters, _ := store.As[store.DeadLetters](r.store)
	now := time.Now()
	for i := range 4 {
		at := now.Add(-time.Duration(i) * 24 * time.Hour)
		refused, err := letters.Import(t.Context(), store.Record{Message: pawl.Message{ID: fmt.Sprint("m", i), Topic: "sms"},
			State: store.IsDead, EnqueuedAt: at, DeadAt: at, Kind: pawl.Kind(fmt.Sprint("Kind", i%2)),
			Fingerprint: fmt.Sprint("f", i), Reason: fmt.Sprint("cause ", i)})
		if err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
	}
	page := r.get(secretOf(api.Operator), "/console/dead/group?topic=sms")
	first := utc(now.Add(-72 * time.Hour))
	if !strings.Contains(page, "<b>4</b>") || !strings.Contains(page, first) || strings.Contains(page, "?kind=Kind") ||
		strings.Contains(page, "this cause is new") {
		t.Errorf("all of them:\n%s", page)
	}
	page = r.get(secretOf(api.Operator), "/console/dead/group?topic=sms&fingerprint=f1")
	if !strings.Contains(page, "<b>1</b>") || !strings.Contains(page, "this cause is new") {
		t.Errorf("one of them:\n%s", page)
	}
	for _, link := range []string{`<p class="crumbs"><a href="/console/dead?topic=sms">`, // back to what was looked at
		`<dt>Cause</dt><dd>f1 <a class="quiet" href="/console/dead/group?topic=sms"`,
		`<dt>Topic</dt><dd>sms <a class="quiet" href="/console/dead/group?fingerprint=f1"`} {
		if !strings.Contains(page, link) {
			t.Errorf("there is no %s:\n%s", link, page)
		}
	}
	if _, after, _ := strings.Cut(page, `href="/console/policy?kind=`); !strings.HasPrefix(after, "Kind1") {
		t.Errorf("it does not lead to the rule of its kind:\n%s", page)
	}
	r.get(secretOf(api.Viewer), "/console/policy?kind=Kind1")
}

// TestTheDeskSaysWhatItLeavesOut: groups beyond those shown are a plus, and an export says where it ends. It changes
// nothing, and is there in read-only mode.
func TestTheDeskSaysWhatItLeavesOut(t *testing.T) {
	r := newRig(t, func(c *Config) { c.ReadOnly = true })
	letters, _ := store.As[store.DeadLetters](r.store)
	all := make([]store.Record, exportMost+1)
	for i := range all {
		all[i] = store.Record{Message: pawl.Message{ID: fmt.Sprint("m", i), Topic: "sms"}, State: store.IsDead,
			EnqueuedAt: time.Now(), DeadAt: time.Now(), Fingerprint: fmt.Sprint("f", min(i, 200)), Reason: "no"}
	}
	for part := range slices.Chunk(all, exportMost) {
		if refused, err := letters.Import(t.Context(), part...); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
	}
	const cut = "The export has the first 10\u202f000."
	page := r.get(secretOf(api.Viewer), "/console/dead")
	if !strings.Contains(page, "unresolved: 10\u202f000+") || strings.Contains(page, cut) {
		t.Errorf("201 causes:\n%s", page)
	}
	page = r.get(secretOf(api.Viewer), "/console/dead/group?topic=sms")
	if !strings.Contains(page, "/console/dead/export?topic=sms") || !strings.Contains(page, cut) {
		t.Errorf("a group of 10,001:\n%s", page)
	}
}

// TestMessagesAreFoundByID: the form of the list takes an id, too.
func TestMessagesAreFoundByID(t *testing.T) {
	r := newRig(t, nil)
	id := r.append("mail", pawl.Message{})[0].ID
	if page := r.get(secretOf(api.Viewer), "/console/messages"); !strings.Contains(page, `<input name="q" value="">`) {
		t.Errorf("the form:\n%s", page)
	}
	// Those that are done are found, too, where a topic keeps them.
	page := r.get(secretOf(api.Viewer), "/console/messages?state=acked")
	if !strings.Contains(page, `<option value="acked" selected>`) || !strings.Contains(page, "Topics keep what is done") {
		t.Errorf("what is done:\n%s", page)
	}
	answer, _ := r.do(r.as(secretOf(api.Viewer), http.MethodGet, "/console/messages?topic=&q="+id, nil))
	if to := answer.Header.Get("Location"); to != "/console/messages/"+id {
		t.Errorf("%d %q", answer.StatusCode, to)
	}
}

// TestThePageOfAReplayFollowsIt: figures of topics may change no more when its state does.
func TestThePageOfAReplayFollowsIt(t *testing.T) {
	r := newRig(t, nil)
	letters, _ := store.As[store.DeadLetters](r.store)
	for i := range 3 {
		if refused, err := letters.Import(t.Context(), store.Record{Message: pawl.Message{ID: fmt.Sprint("m", i),
			Topic: "sms"}, State: store.IsDead, EnqueuedAt: time.Now(), DeadAt: time.Now(),
			Fingerprint: "f"}); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
	}
	_, plan := r.do(r.as(secretOf(api.Operator), http.MethodPost, "/console/dead/plan", url.Values{"kind": {"replay"},
		"s:filter.fingerprint": {"f"}, "n:rate": {"0.01"}, "s:reason": {"because"}}))
	_, id, _ := strings.Cut(plan, `name="plan" value="`)
	id, _, _ = strings.Cut(id, `"`)
	answer, _ := r.do(r.as(secretOf(api.Operator), http.MethodPost, "/console/dead/run",
		url.Values{"kind": {"replay"}, "plan": {id}}))
	to := answer.Header.Get("Location")
	const follows = `hx-trigger="every 2s"`
	if page := r.get(secretOf(api.Viewer), to); !strings.Contains(page, follows) {
		t.Errorf("a replay that runs:\n%s", page)
	}
	cancel := "/console/do/v1" + strings.TrimPrefix(to, "/console") + "/cancel"
	r.do(r.as(secretOf(api.Operator), http.MethodPost, cancel, nil))
	for end := time.Now().Add(time.Minute); strings.Contains(r.get(secretOf(api.Viewer), to), follows); {
		if time.Now().After(end) {
			t.Fatal("a replay that was cancelled is followed")
		}
		time.Sleep(10 * time.Millisecond)
	}
	q := r.as(secretOf(api.Viewer), http.MethodGet, "/console/dead/group?topic=sms&fingerprint=f", nil)
	q.Header.Set("Accept-Language", "zh")
	if _, page := r.do(q); !strings.Contains(page, `">重放</a> 已取消, `) {
		t.Errorf("what was done before:\n%s", page)
	}
}

// TestTheLastAttemptsAreInView: of many attempts the first ones are folded up.
func TestTheLastAttemptsAreInView(t *testing.T) {
	r := newRig(t, nil)
	letters, _ := store.As[store.DeadLetters](r.store)
	for id, n := range map[string]int{"few": 9, "many": 30} {
		past := make([]store.Attempt, n)
		for i := range past {
			past[i] = store.Attempt{Attempt: i + 1, EndedAt: time.Now(), Error: fmt.Sprint("error ", i+1)}
		}
		if refused, err := letters.Import(t.Context(), store.Record{Message: pawl.Message{ID: id, Topic: "sms"},
			State: store.IsDead, EnqueuedAt: time.Now(), DeadAt: time.Now(), History: past}); err != nil ||
			len(refused) > 0 {
			t.Fatal(refused, err)
		}
	}
	if page := r.get(secretOf(api.Viewer), "/console/messages/few"); strings.Contains(page, "The first") {
		t.Errorf("a few attempts:\n%s", page)
	}
	page := r.get(secretOf(api.Viewer), "/console/messages/many")
	_, folded, _ := strings.Cut(page, "<summary>The first 25 attempts</summary>")
	folded, shown, _ := strings.Cut(folded, "</details>")
	if !strings.Contains(folded, "error 25<") || strings.Contains(folded, "error 26<") ||
		!strings.Contains(shown, "error 26<") || !strings.Contains(shown, "error 30<") {
		t.Errorf("many attempts:\n%s", page)
	}
}

// TestAPlanNamesItsCommand, which does the same in a shell.
func TestAPlanNamesItsCommand(t *testing.T) {
	for _, c := range []struct {
		form url.Values
		want string
	}{
		{url.Values{"kind": {"replay"}, "s:filter.topic": {"mail"}, "s:filter.key": {"ann's"}, "n:rate": {"5"},
			"s:edit": {`.to = "x"`}, "s:filter.attrs.http.status": {"404"}, "s:reason": {"because"}},
			`pawl dead replay --topic mail --key 'ann'\''s' --attr http.status=404 --rate 5 --edit '.to = "x"'`},
		{url.Values{"kind": {"resolve"}, "b:filter.resolved": {"true"}, "s:reason": {"no such address"}},
			"pawl dead resolve --resolved --note 'no such address'"},
		{url.Values{"kind": {"replay"}, "l:ids": {"m1"}, "b:keep_attempts": {"true"}},
			"pawl dead replay --keep-attempts m1"},
		{url.Values{"kind": {"discard"}}, "pawl dead discard --all"},
		{url.Values{"kind": {"resolve"}, "s:filter.topic": {"mail"}}, "pawl dead resolve --topic mail"},
		{url.Values{"kind": {"replay"}, "l:ids": {"order 7\r\n$(id)", "-x"}, "n:rate": {"5"}},
			"pawl dead replay --rate 5 -- 'order 7' '$(id)' -x"},
	} {
		v := &view{r: &http.Request{PostForm: c.form}}
		body, err := v.fields()
		if body["filter"] == nil && body["ids"] == nil {
			body["all"] = true
		}
		if got := planCommand(c.form.Get("kind"), body); err != nil || got != c.want {
			t.Errorf("%s, want %s (%v)", got, c.want, err)
		}
	}
}

// TestAnExportIsComplete: what is imported from it is as it was.
func TestAnExportIsComplete(t *testing.T) {
	r := newRig(t, nil)
	letters, _ := store.As[store.DeadLetters](r.store)
	was := store.Record{Message: pawl.Message{ID: "<m>", Topic: "sms", Body: []byte("\xff"), Delay: time.Hour,
		Unique: pawl.Unique{Key: "u", Scope: "orders", For: time.Hour}}, State: store.IsDead, EnqueuedAt: time.Now(),
		DeadAt: time.Now(), Reason: "no", Lonely: 2}
	if refused, err := letters.Import(t.Context(), was); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
	text := r.get(secretOf(api.Viewer), "/console/dead/export?topic=sms")
	now, err := operate.ParseLetter([]byte(text))
	if err != nil || now.ID != was.ID || now.Unique != was.Unique || now.Delay != was.Delay || now.Lonely != 2 ||
		!bytes.Equal(now.Body, was.Body) || strings.Count(text, "\n") != 1 {
		t.Errorf("%+v (%v), from %s", now, err, text)
	}
	if text := r.get(secretOf(api.Viewer), "/console/dead/export?topic=none"); text != "" {
		t.Errorf("an export of nothing: %q", text)
	}
	w, text := r.do(r.as(secretOf(api.Viewer), http.MethodGet, "/console/dead/export?since=never", nil))
	if w.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(text, "since is no time") {
		t.Errorf("a filter that is none: %s", text)
	}
}

// TestALetterOfAnyIDIsReplayed: its plan has it, and the commands beside the forms name it as a shell takes it.
func TestALetterOfAnyIDIsReplayed(t *testing.T) {
	r := newRig(t, nil)
	letters, _ := store.As[store.DeadLetters](r.store)
	for id, word := range map[string]string{"order  7 ": "'order  7 '", "$(id)/中": "'$(id)/中'", "-x": "-- -x"} {
		if refused, err := letters.Import(t.Context(), store.Record{Message: pawl.Message{ID: id, Topic: "sms",
			Body: []byte("hello")}, State: store.IsDead, EnqueuedAt: time.Now(), DeadAt: time.Now()}); err != nil ||
			len(refused) > 0 {
			t.Fatal(refused, err)
		}
		page := r.get(secretOf(api.Operator), "/console/messages/"+url.PathEscape(id))
		if want := "<code>" + html.EscapeString("pawl dead edit "+word) + "</code>"; !strings.Contains(page, want) {
			t.Errorf("no %s in the page of %q:\n%s", want, id, page)
		}
		_, plan := r.do(r.as(secretOf(api.Operator), http.MethodPost, "/console/dead/plan", url.Values{"kind": {"replay"},
			"l:ids": {id}}))
		_, code, _ := strings.Cut(plan, `class="command"><code>`)
		code, _, _ = strings.Cut(html.UnescapeString(code), "<")
		if want := "pawl dead replay " + word; code != want || !strings.Contains(plan, "replay <b>1</b>") {
			t.Errorf("the plan for %q says %q, want %q:\n%s", id, code, want, plan)
		}
	}
}

// TestTheAuditOfAnEditingReplay: the edit of each letter is asked for by the console, too.
func TestTheAuditOfAnEditingReplay(t *testing.T) {
	r := newRig(t, nil)
	letters, _ := store.As[store.DeadLetters](r.store)
	if refused, err := letters.Import(t.Context(), store.Record{Message: pawl.Message{ID: "m", Topic: "sms",
		Body: []byte(`{"to":"a"}`)}, State: store.IsDead, EnqueuedAt: time.Now(), DeadAt: time.Now()}); err != nil ||
		len(refused) > 0 {
		t.Fatal(refused, err)
	}
	_, plan := r.do(r.as(secretOf(api.Operator), http.MethodPost, "/console/dead/plan", url.Values{"kind": {"replay"},
		"s:filter.topic": {"sms"}, "s:edit": {`.to = "b"`}, "s:reason": {"because"}}))
	_, id, _ := strings.Cut(plan, `name="plan" value="`)
	id, _, _ = strings.Cut(id, `"`)
	r.do(r.as(secretOf(api.Operator), http.MethodPost, "/console/dead/run", url.Values{"kind": {"replay"}, "plan": {id}}))
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		page := r.get(secretOf(api.Viewer), "/console/audit?kind=edit")
		if strings.Contains(page, `data-label="From where">console 192.0.2.1</td>`) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the audit of the edit:\n%s", page)
		}
	}
}
