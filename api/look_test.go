package api_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/policy"
)

// kill makes dead letters of n messages.
func (d *door) kill(topic string, n int) {
	d.t.Helper()
	for range n {
		d.want(201, d.post("/v1/topics/"+topic+"/messages", `{"json":{"to":"nobody"}}`))
	}
	for _, m := range d.lease(`{"topics":["` + topic + `"],"limit":100}`) {
		d.settle(`{"settlements":[{"token":"` + m.Token + `","verdict":"fail","class":"permanent","error":"no"}]}`)
	}
}

func TestLookAndAct(t *testing.T) {
	onStores(t, api.Config{Access: api.Access{Tokens: tokens}}, func(t *testing.T, d *door) {
		d = d.with(t).as("secret-admin")
		d.kill("mail", 3)
		d.want(201, d.post("/v1/topics/mail/messages", `{"id":"m1","body":"x"}`))
		var topic operate.Topic
		d.want(200, d.post("/v1/topics/mail/pause", `{"for_seconds":60}`, "Pawl-Reason: moving")).into(t, &topic)
		if !topic.Paused || topic.Pause.By != "root" || topic.Pause.Reason != "moving" || topic.Dead != 3 {
			t.Errorf("paused: %+v", topic)
		}
		var why operate.Explanation
		d.want(200, d.get("/v1/messages/m1/explain")).into(t, &why)
		if why.Situation != "paused" {
			t.Errorf("explained %+v", why)
		}
		d.want(200, d.post("/v1/topics/mail/resume", ``))
		d.want(200, d.post("/v1/topics/mail/set", `{"max_waiting":1,"retain_seconds":5}`)).into(t, &topic)
		d.want(409, d.post("/v1/topics/mail/set", `{"max_waiting":1,"if_version":77}`))
		var shown operate.TopicShown
		d.want(200, d.get("/v1/topics/mail")).into(t, &shown)
		if by := shown.Origins["max_waiting"]; !strings.HasPrefix(by, "set by root") || shown.Workers == nil {
			t.Errorf("shown: %+v", shown)
		}
		d.want(409, d.post("/v1/topics/mail/rm", `{}`))
		d.want(404, d.get("/v1/topics/none"))
		d.want(404, d.get("/v1/messages/none"))
		d.want(422, d.get("/v1/messages?nope=1"))
		d.want(422, d.get("/v1/messages?state=lost"))
		if got := fieldsOf(t, d.get("/v1/messages?state=lost&older_than=x")); len(got) != 2 {
			t.Errorf("of two wrong parameters, %v are named", got)
		}
		var letters []operate.DeadLetter
		page := d.want(200, d.get("/v1/dead?topic=mail&limit=2"))
		if page.into(t, &letters); len(letters) != 2 || page.header.Get("Pawl-Cursor") == "" {
			t.Errorf("a page: %d, cursor %q", len(letters), page.header.Get("Pawl-Cursor"))
		}
		d.want(200, d.get("/v1/dead?topic=mail&limit=2&cursor="+page.header.Get("Pawl-Cursor"))).into(t, &letters)
		if len(letters) != 1 {
			t.Errorf("the next page has %d", len(letters))
		}
		var groups []operate.DeadGroup
		d.want(200, d.get("/v1/dead/groups")).into(t, &groups)
		if len(groups) != 1 || groups[0].Count != 3 {
			t.Errorf("groups: %+v", groups)
		}
		id := "/v1/dead/" + letters[0].ID
		d.want(200, d.post(id+"/edit", `{"edit":".to = \"ann\""}`))
		d.want(200, d.post(id+"/resolve", `{"reason":"by phone"}`))
		d.want(200, d.post(id+"/reopen", ``))
		ops := d.as("secret-operator")
		ops.want(403, ops.post(id+"/discard", ``))
		ops.want(403, ops.post("/v1/topics/mail/set", `{}`))
		d.want(200, d.post(id+"/discard", ``))
		d.want(404, d.get(id))
		d.want(200, d.post("/v1/messages/m1/cancel", ``))
		d.replay()
		var audit []operate.AuditEntry
		d.want(200, d.get("/v1/audit")).into(t, &audit)
		var actions []string
		for _, a := range audit {
			actions = append(actions, a.Action)
		}
		for _, want := range []string{"topics pause", "topics resume", "topics set", "edit", "resolve", "reopen", "discard",
			"cancel", "replay"} {
			if !slices.Contains(actions, want) {
				t.Errorf("the audit has no %s: %q", want, actions)
			}
		}
	})
}

// replay plans, and carries the plan out once.
func (d *door) replay() {
	d.t.Helper()
	d.want(422, d.post("/v1/dead/replay", `{"plan":true}`))
	var plan struct {
		PlanID string `json:"plan_id"`
		Count  int
	}
	d.want(200, d.post("/v1/dead/replay", `{"filter":{"topic":"mail"},"plan":true}`)).into(d.t, &plan)
	if plan.Count != 2 {
		d.t.Errorf("planned %+v", plan)
	}
	d.want(404, d.post("/v1/dead/replay", `{"plan_id":"none"}`))
	var begun struct {
		OperationID string `json:"operation_id"`
	}
	d.want(202, d.post("/v1/dead/replay", `{"plan_id":"`+plan.PlanID+`"}`)).into(d.t, &begun)
	d.want(409, d.post("/v1/dead/replay", `{"plan_id":"`+plan.PlanID+`"}`))
	var o operate.Operation
	for range 100 {
		if d.want(200, d.get("/v1/operations/"+begun.OperationID)).into(d.t, &o); o.Status == operate.Done {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if o.Status != operate.Done || o.Done != 2 {
		d.t.Errorf("the operation is %s, %d done", o.Status, o.Done)
	}
	d.want(409, d.post("/v1/operations/"+begun.OperationID+"/resume", ``))
}

func TestWorkersShow(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{})
	d.want(201, d.post("/v1/topics/mail/messages", `{}`))
	if len(d.lease(`{"topics":["mail"],"worker":"host/7"}`)) != 1 {
		t.Fatal("nothing leased")
	}
	time.Sleep(1500 * time.Millisecond)
	var workers []operate.Worker
	d.want(200, d.get("/v1/workers")).into(t, &workers)
	if len(workers) != 1 || workers[0].Owner != "host/7" || workers[0].Leased != 1 || workers[0].Alive == nil ||
		!*workers[0].Alive {
		t.Errorf("workers: %+v", workers)
	}
	d.want(409, d.post("/v1/workers/host%2F7/drain", `{}`))
	d.want(404, d.post("/v1/workers/nobody/drain", `{}`))
}

func TestEvents(t *testing.T) {
	board := observe.NewBoard(2)
	d := serveStore(t, openStore(t, "memory:"), api.Config{Board: board})
	follow := func(last string) *bufio.Scanner {
		q, _ := http.NewRequest(http.MethodGet, d.url+"/v1/events", nil)
		if last != "" {
			q.Header.Set("Last-Event-ID", last)
		}
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Body.Close() })
		return bufio.NewScanner(r.Body)
	}
	next := func(s *bufio.Scanner, prefix string) string {
		for s.Scan() {
			if rest, ok := strings.CutPrefix(s.Text(), prefix); ok {
				return rest
			}
		}
		t.Fatal("the stream ended")
		return ""
	}
	s := follow("")
	time.Sleep(100 * time.Millisecond)
	for seq := range uint64(3) {
		_ = board.Consume(observe.Envelope{ID: "e", Seq: seq + 1, Type: "SystemHealth"})
	}
	id := next(s, "id: ")
	var e observe.Envelope
	if err := json.Unmarshal([]byte(next(s, "data: ")), &e); err != nil || e.Seq != 1 {
		t.Errorf("%v: %+v", err, e)
	}
	boot, _, _ := strings.Cut(id, "-")
	if got := next(follow(boot+"-2"), "id: "); got != boot+"-3" {
		t.Errorf("after 2 comes %s", got)
	}
	next(follow("other-1"), "event: gap")
	next(follow(boot+"-0"), "event: gap")
}

// TestEventsEndWithTheToken: who may no longer read is told of nothing more.
func TestEventsEndWithTheToken(t *testing.T) {
	board := observe.NewBoard(2)
	old := api.Access{Tokens: []api.Token{{Name: "vera", Secret: "secret-1", Role: api.Viewer}}}
	for name, now := range map[string]api.Access{
		"gone":     {Tokens: []api.Token{{Name: "other", Secret: "secret-2", Role: api.Viewer}}},
		"changed":  {Tokens: []api.Token{{Name: "vera", Secret: "secret-2", Role: api.Viewer}}},
		"of less":  {Tokens: []api.Token{{Name: "vera", Secret: "secret-1", Role: api.Producer}}},
		"narrowed": {Tokens: []api.Token{{Name: "vera", Secret: "secret-1", Role: api.Viewer, Topics: []string{"mail"}}}},
	} {
		a, err := api.New(openStore(t, "memory:"), api.Config{Board: board, Access: old})
		if err != nil {
			t.Fatal(err)
		}
		served := httptest.NewServer(a)
		q, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, served.URL+"/v1/events", nil)
		q.Header.Set("Authorization", "Bearer secret-1")
		r, err := http.DefaultClient.Do(q)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatal(r, err)
		}
		if err := a.SetAccess(now); err != nil {
			t.Fatal(err)
		}
		_ = board.Consume(observe.Envelope{ID: "e", Seq: 1, Type: "SystemHealth"})
		time.AfterFunc(time.Second, a.EndWaits) // in case that it goes on
		if text, err := io.ReadAll(r.Body); err != nil || strings.Contains(string(text), "SystemHealth") {
			t.Errorf("%s: %v: it was told %q", name, err, text)
		}
		_ = r.Body.Close()
		served.Close()
		a.Close()
	}
}

// told keeps the events of deliveries.
type told struct {
	mu  sync.Mutex
	all []dispatch.Event
}

func (s *told) Event(e dispatch.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, e)
}

// TestSettleTellsEvents: what is settled is told as events that the bus of a program accepts.
func TestSettleTellsEvents(t *testing.T) {
	sink := &told{}
	d := serveStore(t, openStore(t, "memory:"), api.Config{Events: sink})
	trace := strings.Repeat("a", 32)
	d.post("/v1/topics/e/messages", `[{"body":"1"},{"body":"2"},{"body":"3"}]`,
		"traceparent: 00-"+trace+"-"+strings.Repeat("b", 16)+"-01")
	got := d.lease(`{"topics":["e"],"limit":3}`)
	d.settle(fmt.Sprintf(`{"settlements":[{"token":%q,"verdict":"ack"},{"token":%q,"verdict":"release"},
		{"token":%q,"verdict":"fail","error":"no"},{"token":"stale","verdict":"ack"}]}`, got[0].Token, got[1].Token,
		got[2].Token))
	types := observe.NewEventTypes()
	phases := []string{}
	for _, e := range sink.all {
		if err := types.Check(e.Domain, e.Type, e.Phase); err != nil || e.Topic != "e" || e.TraceID != trace {
			t.Errorf("%+v: %v", e, err)
		}
		phases = append(phases, e.Phase)
	}
	if want := []string{dispatch.Completed, policy.Failed, policy.Failed}; !slices.Equal(phases, want) {
		t.Errorf("phases %v, want %v", phases, want)
	}
}

// TestAPIPausesAPipelineAsItsTopics: its topics are paused, and a time below zero is refused as for one topic.
func TestAPIPausesAPipelineAsItsTopics(t *testing.T) {
	s := openStore(t, "memory:")
	err := operate.RecordPipeline(t.Context(), s, "search", "test", operate.PipelineRecord{Kind: "index",
		Topics: []string{"docs"}})
	if err != nil {
		t.Fatal(err)
	}
	d := serveStore(t, s, api.Config{})
	d.want(201, d.post("/v1/topics/docs/messages", `{"body":"x"}`, "Content-Type: application/json"))
	d.want(422, d.post("/v1/pipelines/search/pause", `{"for_seconds":-1}`))
	d.want(422, d.post("/v1/topics/docs/pause", `{"for_seconds":-1}`))
	d.want(200, d.post("/v1/pipelines/search/pause", `{"for_seconds":60,"reason":"moved"}`))
	var topic operate.Topic
	d.want(200, d.get("/v1/topics/docs")).into(t, &topic)
	if topic.Pause == nil || topic.Pause.Reason != "moved" {
		t.Errorf("the topic is not paused: %+v", topic.Pause)
	}
	d.want(200, d.post("/v1/pipelines/search/resume", ``))
	var after operate.Topic
	if d.want(200, d.get("/v1/topics/docs")).into(t, &after); after.Pause != nil {
		t.Errorf("the topic is still paused: %+v", after.Pause)
	}
}

func TestRunAndSkip(t *testing.T) {
	onStores(t, api.Config{Access: api.Access{Tokens: tokens}}, func(t *testing.T, d *door) {
		d = d.with(t).as("secret-admin")
		d.want(201, d.post("/v1/topics/mail/messages", `{"id":"later","body":"x","delay_seconds":3600}`))
		d.want(200, d.post("/v1/messages/later/run", ``))
		held := d.lease(`{"topics":["mail"],"limit":10}`)
		if len(held) != 1 || held[0].ID != "later" {
			t.Fatalf("leased %+v", held)
		}
		d.want(200, d.post("/v1/messages/later/skip", `{"reason":"it hangs"}`)) // for its worker, as pawl skip does
		if got := d.settle(`{"settlements":[{"token":"` + held[0].Token + `","verdict":"ack"}]}`); got[0].Action != "lost" {
			t.Errorf("settling a skipped message: %+v", got)
		}
		d.want(409, d.post("/v1/messages/later/skip", ``))
		d.want(201, d.post("/v1/topics/mail/messages", `{"id":"first","key":"k","body":"x"}`))
		d.want(200, d.post("/v1/messages/first/skip", `{"reason":"a bad order"}`))
		for id, why := range map[string]string{"first": "a bad order", "later": "it hangs"} {
			var letter operate.DeadLetter
			d.want(200, d.get("/v1/dead/"+id)).into(t, &letter)
			if letter.Reason != "skipped by root: "+why || letter.Kind != "Skipped" {
				t.Errorf("%+v", letter)
			}
		}
		d.want(404, d.post("/v1/messages/none/run", ``))
	})
}

// TestAMessageBoundsItsAttempts: what a message says of its attempts counts for a worker over HTTP, in any process.
func TestAMessageBoundsItsAttempts(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{})
	d.want(422, d.post("/v1/topics/mail/messages", `{"attempts":0}`))
	d.want(422, d.post("/v1/topics/mail/messages", `{"attempts":1001}`))
	d.want(422, d.post("/v1/topics/mail/messages", `{"timeout_seconds":0}`))
	for _, m := range [][]string{{`{"attempts":2,"timeout_seconds":7}`}, {`x`, "Pawl-Attempts: 2", "Pawl-Timeout: 7",
		"Content-Type: text/plain"}} {
		d.want(201, d.post("/v1/topics/mail/messages", m[0], m[1:]...))
		for _, want := range []string{"retry", "dead"} {
			got := d.lease(`{"topics":["mail"],"wait_seconds":20}`)
			if len(got) != 1 || got[0].DeadlineSeconds != 7 {
				t.Fatalf("leased %+v", got)
			}
			r := d.settle(`{"settlements":[{"token":"` + got[0].Token + `","verdict":"fail"}]}`)
			if len(r) != 1 || r[0].Action != want {
				t.Errorf("settled %+v, want %s", r, want)
			}
		}
	}
}

// TestAnswersAreNotPackedForThisMachine: what a client of this machine leases is not packed; a list
// is.
func TestAnswersAreNotPackedForThisMachine(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{})
	d.want(201, d.post("/v1/topics/mail/messages", `{"body":"`+strings.Repeat("x", 8<<10)+`"}`))
	lease := `{"topics":["mail"],"lease_seconds":0.02,"wait_seconds":5}`
	list := d.want(200, d.get("/v1/messages", "Accept-Encoding: gzip"))
	here := d.want(200, d.post("/v1/lease", lease, "Accept-Encoding: gzip"))
	for of, got := range map[string]answer{"gzip": list, "": here} {
		if packed := got.header.Get("Content-Encoding"); packed != of {
			t.Errorf("packed as %q, want %q", packed, of)
		}
	}
}

// TestACursorThatIsNone is refused, however large it is.
func TestACursorThatIsNone(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{Access: api.Access{Tokens: tokens}}).as("secret-admin")
	for _, path := range []string{"messages", "dead", "audit", "operations", "schedules", "state/flags", "topics"} {
		for _, cursor := range []string{"-1", "x", "9223372036854775807", "9223372036854775808"} {
			d.want(422, d.get("/v1/"+path+"?limit=10000&cursor="+cursor))
		}
		d.want(200, d.get("/v1/"+path+"?limit=10000&cursor=4611686018427387903"))
	}
}

// TestAListOfLargeBodiesEndsEarlier: its answer is made in memory. The cursor leads to the rest.
func TestAListOfLargeBodiesEndsEarlier(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{Access: api.Access{Tokens: tokens}}).as("secret-admin")
	body := `{"body":"` + strings.Repeat("x", 12<<20) + `"}`
	for range 6 {
		d.want(201, d.post("/v1/topics/mail/messages", body))
	}
	for _, path := range []string{"/v1/messages?limit=1000", "/v1/dead?limit=1000"} {
		all, pages := map[string]bool{}, 0
		for next := ""; pages == 0 || next != ""; pages++ {
			a := d.want(200, d.get(path+next))
			if len(a.body) > 33<<20 {
				t.Errorf("%s: an answer of %d bytes", path, len(a.body))
			}
			var found []operate.Message
			a.into(t, &found)
			for i := range found {
				all[found[i].ID] = true
			}
			if next = a.header.Get("Pawl-Cursor"); next != "" {
				next = "&cursor=" + next
			}
		}
		if len(all) != 6 || pages != 3 {
			t.Errorf("%s: %d messages in %d pages", path, len(all), pages)
		}
		for range 6 { // each is larger than a lease of several
			for _, m := range d.lease(`{"topics":["mail"]}`) {
				d.settle(`{"settlements":[{"token":"` + m.Token + `","verdict":"fail","class":"permanent","error":"no"}]}`)
			}
		}
	}
}
