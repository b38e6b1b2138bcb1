package console

import (
	"context"
	"encoding/json"
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store/memory"
)

// commandRig has a console on a program that offers commands.
func commandRig(t *testing.T, commands ...operate.Command) *rig {
	t.Helper()
	s := memory.New(memory.Config{})
	door, err := api.New(s, api.Config{Access: api.Access{Tokens: []api.Token{
		{Name: "vera", Secret: secretOf(api.Viewer), Role: api.Viewer},
		{Name: "olga", Secret: secretOf(api.Operator), Role: api.Operator}}},
		Rooms: api.Rooms{Commands: func() []operate.Command { return commands }}})
	if err != nil {
		t.Fatal(err)
	}
	k, err := New(Config{API: door, BasePath: "/console"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close(); door.Close() })
	return &rig{t, s, k}
}

// TestCommandForms tries a command by its form, and then carries it out: with what the form asks for and what the page
// knows, in the name of the person. A viewer may not, and a failure says what to do.
func TestCommandForms(t *testing.T) {
	var calls []operate.CommandCall
	command := operate.Command{Name: "x put", Use: "pawl x put NAME VALUE", Changes: true,
		Flags: []operate.CommandFlag{{Name: "to", Type: "texts"}, {Name: "pipeline", Type: "text"}},
		Run: func(_ context.Context, c operate.CommandCall) operate.CommandAnswer {
			if c.Args[1] == "bad" {
				return operate.CommandAnswer{Code: 2, Error: "the value is <b>bad</b>", Next: "write a good one"}
			}
			calls = append(calls, c)
			return operate.CommandAnswer{Columns: []string{"NAME", ">N"}, Rows: [][]string{{"<i>a</i>", "1"}}}
		}}
	r := commandRig(t, command)
	post := func(role, value string, more url.Values) (reply, string) {
		form := url.Values{"w:args": {"it", value}, "w:flags.to": {"one two\n\nthree"}, "w:flags.pipeline": {"p"}}
		maps.Copy(form, more)
		return r.do(r.as(secretOf(role), http.MethodPost, "/console/commands/x.put", form))
	}
	if answer, _ := post(api.Viewer, "good", nil); answer.StatusCode != http.StatusForbidden || len(calls) > 0 {
		t.Errorf("a viewer: %d, %d calls", answer.StatusCode, len(calls))
	}
	answer, body := post(api.Operator, "bad", nil)
	if answer.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(body, "the value is &lt;b&gt;bad") ||
		!strings.Contains(body, "write a good one") {
		t.Errorf("a bad value: %d\n%s", answer.StatusCode, body)
	}
	answer, _ = post(api.Operator, "good", url.Values{"b:dry_run": {"true"}})
	page := r.get(secretOf(api.Operator), answer.Header.Get("Location"))
	if !strings.Contains(page, "&lt;i&gt;a&lt;/i&gt;") || !strings.Contains(page, `value="three"`) || len(calls) != 1 ||
		!calls[0].DryRun {
		t.Errorf("a dry run: %+v\n%s", calls, page)
	}
	answer, _ = post(api.Operator, "good", url.Values{"back": {"/console/state"}})
	if to := answer.Header.Get("Location"); to != "/console/state" || len(calls) != 2 || calls[1].DryRun ||
		calls[1].Who != "olga" || !slices.Equal(calls[1].Flags["to"], []string{"one two", "three"}) {
		t.Errorf("the real run goes on to %q: %+v", to, calls)
	}
}

// TestCronWords says expressions in both languages.
func TestCronWords(t *testing.T) {
	for expr, want := range map[string][2]string{
		"30 2 * * 1-5":    {"at 02:30, on Monday to Friday", "周一至周五02:30"},
		"@daily":          {"at 00:00", "00:00"},
		"*/5 * * * *":     {"every 5 minutes", "每 5 分钟"},
		"0 9,17 1 JAN *":  {"at 09:00, 17:00, on day 1 of the month, in January", "一月每月 1 日09:00, 17:00"},
		"15 * * * 5#3":    {"each hour at minute 15, on 5#3", "5#3每小时第 15 分"},
		"0 8-18 * * *":    {"each hour from 08:00 to 18:00", "08:00 至 18:00 每小时"},
		"*/10 * * * * *":  {"seconds */10, minutes *, hours *", "秒 */10、分 *、时 *"},
		"no expression":   {"no expression", "no expression"},
		"0 0 L * SUN,SAT": {"at 00:00, on day L of the month, or on Sunday, Saturday", "或周日, 周六每月 L 日00:00"},
	} {
		if got := [2]string{cronWords(expr, english), cronWords(expr, zh)}; got != want {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}

// TestRunbookIsShown renders every page of the runbook.
func TestRunbookIsShown(t *testing.T) {
	r := newRig(t, nil)
	for _, line := range runbookIndex() {
		page := r.get(secretOf(api.Viewer), "/console/runbook/"+line.Name)
		if !strings.Contains(page, "<h1>"+line.Name+"</h1>") || strings.Contains(page, "](") || strings.Contains(page, "**") {
			t.Errorf("%s is not rendered:\n%s", line.Name, page)
		}
		if len(line.Meaning) == 0 {
			t.Errorf("%s has no meaning", line.Name)
		}
	}
}

// TestNamedByForm writes a schedule and a value whose names the forms ask for, looks at a backfill before it is made,
// and removes what it wrote. A viewer may not.
func TestNamedByForm(t *testing.T) {
	r := newRig(t, nil)
	post := func(path string, form url.Values) (reply, string) {
		t.Helper()
		return r.do(r.as(secretOf(api.Admin), http.MethodPost, "/console/do/v1"+path, form))
	}
	asked := "/schedules/%7Bname%7D/put"
	schedule := url.Values{"p:name": {"nightly"}, "s:cron": {"@daily"}, "s:topic": {"reports"}, "b:paused": {"true"}}
	answer, _ := r.do(r.as(secretOf(api.Viewer), http.MethodPost, "/console/do/v1"+asked, schedule))
	if answer.StatusCode != http.StatusForbidden {
		t.Errorf("a viewer writes a schedule: %d", answer.StatusCode)
	}
	answer, body := post(asked, schedule)
	if answer.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d\n%s", answer.StatusCode, body)
	}
	if answer, _ := post(asked, url.Values{"p:name": {".."}}); answer.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("without a name: %d", answer.StatusCode)
	}
	answer, body = post("/schedules/nightly/backfill", url.Values{"t:since": {"2026-01-01T00:00:00Z"},
		"t:until": {"2026-02-01T00:00:00Z"}, "b:dry_run": {"true"}})
	if answer.StatusCode != http.StatusOK || !strings.Contains(body, "<li>2026-01-02T00:00:00Z</li>") ||
		!strings.Contains(body, "Messages that it would send: 31") || !strings.Contains(body, "and 11 more") {
		t.Errorf("a dry run: %d\n%s", answer.StatusCode, body)
	}
	answer, body = post("/schedules/nightly/backfill", url.Values{"t:since": {"2d"}, "t:until": {"0s"},
		"b:dry_run": {"true"}})
	if !strings.Contains(body, "Messages that it would send: 2") {
		t.Errorf("of the last two days: %d\n%s", answer.StatusCode, body)
	}
	if page := r.get(secretOf(api.Viewer), "/console/schedules/nightly"); !strings.Contains(page, "@daily") ||
		strings.Contains(page, "2026-01-02") {
		t.Errorf("the page of the schedule:\n%s", page)
	}
	schedule.Set("p:name", "dawn")
	schedule.Set("s:zone", "Asia/Shanghai")
	if answer, body = post(asked, schedule); answer.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d\n%s", answer.StatusCode, body)
	}
	if page := r.get(secretOf(api.Viewer), "/console/schedules/dawn"); !strings.Contains(page, "T00:00:00&#43;08:00") {
		t.Errorf("the next ticks are not in their zone:\n%s", page)
	}
	asked = "/state/%7Btopic%7D/%7Bkey%7D/put"
	value := url.Values{"p:topic": {"flags"}, "p:key": {"a/b"}, "j:value": {`{"on":`}}
	if answer, _ = post(asked, value); answer.StatusCode != http.StatusUnprocessableEntity {
		t.Errorf("a value that is no JSON: %d", answer.StatusCode)
	}
	value.Set("j:value", `{"on": true}`)
	if answer, body = post(asked, value); answer.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d\n%s", answer.StatusCode, body)
	}
	page := r.get(secretOf(api.Admin), "/console/state/flags/a%2Fb")
	if !strings.Contains(page, "{&#34;on&#34;:true}") ||
		!strings.Contains(page, "/do/v1/state/flags/a%2Fb/rm") {
		t.Errorf("the page of the value:\n%s", page)
	}
	rm := url.Values{"sure": {"a/b"}, "typed": {"a/b"}, "n:if_version": {"99"}}
	if answer, _ = post("/state/flags/a%2Fb/rm", rm); answer.StatusCode != http.StatusConflict {
		t.Errorf("another version: %d", answer.StatusCode)
	}
}

// TestAScheduleIsEdited: the form has what is there, so that nothing is lost that is not typed again.
func TestAScheduleIsEdited(t *testing.T) {
	r := newRig(t, nil)
	show := func(name string) string {
		t.Helper()
		_, text := r.do(r.as(secretOf(api.Admin), http.MethodGet, "/console/schedules/"+name, nil))
		return text
	}
	for name, given := range map[string]url.Values{
		"nightly": {"s:cron": {"30 2 * * *"}, "s:zone": {"Asia/Shanghai"}, "s:topic": {"reports"},
			"s:body": {"line\n <b>"}, "s:key": {"k"}, "n:priority": {"5"}, "h:headers": {"a: 1\nb: 2\n"},
			"d:jitter_seconds": {"1m30s"},
			"s:overlap":        {"skip"},
			"s:missed":         {"all"}, "d:missed_within_seconds": {"2h0m0s"}, "b:paused": {"true"}},
		"poll": {"d:every_seconds": {"15m0s"}, "s:topic": {"reports"}},
	} {
		for range 2 { // what the form has writes the same again
			answer, text := r.do(r.as(secretOf(api.Admin), http.MethodPost, "/console/do/v1/schedules/"+name+"/put",
				given))
			if answer.StatusCode != http.StatusSeeOther {
				t.Fatalf("%d\n%s", answer.StatusCode, text)
			}
			_, form, _ := strings.Cut(show(name), "/schedules/"+name+"/put")
			form, _, _ = strings.Cut(form, "</form>")
			filled := url.Values{}
			for _, field := range []string{`name="(\w:\w+)"[^>]*? value="([^"]*)"`,
				`(?s)<textarea name="(\w:\w+)"[^>]*>\n(.*?)</textarea>`} {
				for _, m := range regexp.MustCompile(field).FindAllStringSubmatch(form, -1) {
					filled.Set(m[1], html.UnescapeString(m[2]))
				}
			}
			if !strings.Contains(form, `value="true" checked`) {
				filled.Del("b:paused")
			}
			for field := range given {
				if filled.Get(field) != given.Get(field) {
					t.Errorf("%s: %s is %q, was %q", name, field, filled.Get(field), given.Get(field))
				}
			}
			given = filled
		}
	}
}

// TestNumbersOfForms: what Go reads as a number, and JSON does not, is said to be none.
func TestNumbersOfForms(t *testing.T) {
	for text, ok := range map[string]bool{"5": true, "-5": true, "0.5": true, "1e3": true, "NaN": false, "Inf": false,
		"1_000": false, "+5": false, "05": false, ".5": false, "0x10": false, "５": false} {
		v := &view{r: &http.Request{PostForm: url.Values{"n:rate": {text}}}}
		body, err := v.fields()
		if _, broken := json.Marshal(body); broken != nil || (err == nil) != ok {
			t.Errorf("%q: %v (%v), %v", text, body, broken, err)
		}
	}
}
