package api_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/api"
)

func TestAppend(t *testing.T) {
	onStores(t, api.Config{}, func(t *testing.T, d *door) {
		d = d.with(t)
		var one struct {
			ID          string
			DuplicateOf string `json:"duplicate_of"`
		}
		d.want(201, d.post("/v1/topics/mail/messages", `{"body":"hello","key":"ann","priority":3,"headers":{"A":"b"}}`,
			"Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")).into(t, &one)
		d.want(201, d.post("/v1/topics/mail/messages", `{"id":"m1","json":{"n": 1.0}}`))
		d.want(200, d.post("/v1/topics/mail/messages", `{"id":"m1","json":{"n": 1.0}}`)).into(t, &one)
		if one.DuplicateOf != "m1" {
			t.Errorf("a duplicate is told as %+v", one)
		}
		many := d.want(200, d.post("/v1/messages",
			`[{"topic":"a","body":"1"},{"topic":"b","body_base64":"/wA=","id":"m2"}]`))
		var all struct{ Receipts []struct{ ID string } }
		if many.into(t, &all); len(all.Receipts) != 2 || all.Receipts[1].ID != "m2" {
			t.Errorf("receipts: %s", many)
		}
		d.want(200, d.post("/v1/topics/c/messages", "{\"body\":\"1\",\"unique_key\":\"u\"}\n\n{\"body\":{\"x\":1}}\n",
			"Content-Type: application/x-ndjson"))
		d.want(201, d.post("/v1/topics/raw/messages", "\xff\x00", "Content-Type: image/png", "Pawl-Id: r1", "Pawl-Key: k",
			"Pawl-Priority: 7", "Pawl-Header-X-Shop: 9", "Pawl-Unique: only"))
		got := d.lease(`{"topics":["mail","a","b","c","raw"],"limit":100,"worker":"w"}`)
		byID := map[string]delivery{}
		for _, m := range got {
			byID[m.ID] = m
		}
		if len(got) != 7 {
			t.Fatalf("leased %d: %+v", len(got), got)
		}
		if m := byID["r1"]; m.BodyBase64 != "/wA=" || *m.Key != "k" || m.Priority != 7 || m.Headers["x-shop"] != "9" ||
			m.Headers["content-type"] != "image/png" {
			t.Errorf("raw: %+v", m)
		}
		if m := byID["m1"]; m.Body != `{"n": 1.0}` || m.Attempt != 1 || m.LeaseSeconds != 30 ||
			m.DeadlineSeconds < 30 || m.EnqueuedAt == "" {
			t.Errorf("json: %+v", m)
		}
		hello := slices.IndexFunc(got, func(m delivery) bool { return m.Body == "hello" })
		if m := got[hello]; m.Headers["A"] != "b" || m.Headers["traceparent"] == "" {
			t.Errorf("headers: %+v", m)
		}
	})
}

func TestValidation(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{Access: api.Access{Tokens: tokens}}).as("secret-admin")
	d.refuses([]refused{
		{"/v1/topics/mail/messages", `{"body":1}`, "", 422, "body"},
		{"/v1/topics/mail/messages", `{"body":{"a":1}}`, "", 422, "body"},
		{"/v1/topics/mail/messages", `{"priority":101,"key":"","nope":1,"delay_seconds":"x"}`, "", 422,
			"delay_seconds key nope priority"},
		{"/v1/topics/mail/messages", `[{"body":"ok"},{"priority":-1,"id":5}]`, "", 422, "[1].id [1].priority"},
		{"/v1/topics/mail/messages", `[1]`, "", 422, "[0]"},
		{"/v1/topics/mail/messages", `"text"`, "", 422, ""},
		{"/v1/topics/mail/messages", `{"body":"a","json":1}`, "", 422, "json"},
		{"/v1/topics/mail/messages", `{"unique":{"scope":"s"}}`, "", 422, "unique"},
		{"/v1/topics/mail/messages", `{"unique":{"key":"u","for_seconds":-1}}`, "", 422, "unique.for_seconds"},
		{"/v1/topics/mail/messages", `{"not_before":"2999-01-01T00:00:00Z"}`, "", 422, "not_before"},
		{"/v1/topics/mail/messages", `[{"not_before":"2999-01-01T00:00:00Z","priority":101}]`, "", 422,
			"[0].not_before [0].priority"},
		{"/v1/topics/mail/messages", `[{"unique":{"key":1,"for_seconds":"x","nope":1},"priority":-1}]`, "", 422,
			"[0].priority [0].unique.for_seconds [0].unique.key [0].unique.nope"},
		{"/v1/topics/no+topic/messages", `{"priority":-1}`, "", 422, "priority topic"},
		{"/v1/topics/mail/messages", `{"unique_key":"s"}`, "", 422, "unique_key"},
		{"/v1/topics/mail/messages", `{"topic":"other"}`, "", 422, "topic"},
		{"/v1/topics/no+topic/messages", `{}`, "", 422, "topic"},
		{"/v1/messages", `{"body":"a"}`, "", 422, "topic"},
		{"/v1/messages", `[{"topic":"a"},{}]`, "", 422, "[1].topic"},
		{"/v1/messages", `[{"topic":"a","priority":-1},{"priority":-1}]`, "", 422, "[0].priority [1].priority [1].topic"},
		{"/v1/topics/mail/messages", `{"topic":"other","priority":-1}`, "", 422, "priority topic"},
		{"/v1/topics/mail/messages", `{`, "", 400, ""},
		{"/v1/topics/mail/messages", ``, "", 400, ""},
		{"/v1/topics/mail/messages", `{} {}`, "", 400, ""},
		{"/v1/topics/mail/messages", strings.Repeat(`{"json":[`, 1) + strings.Repeat("[", 100_000), "", 400, ""},
		{"/v1/topics/mail/messages", "{\"body\":\"1\"}\n{\"priority\":1.5}\n", "application/x-ndjson", 422, "[1].priority"},
		{"/v1/topics/mail/messages", "[" + strings.Repeat("{},", 10_000) + "{}]", "", 413, ""},
		{"/v1/lease", `{"topics":[],"limit":"x","wait_seconds":-1,"who":1}`, "", 422, "limit topics wait_seconds who"},
		{"/v1/lease", `{"topics":[],"limit":0,"wait_seconds":-1}`, "", 422, "limit topics wait_seconds"},
		{"/v1/lease", `{"topics":"mail"}`, "", 422, "topics"},
		{"/v1/lease", `{}`, "text/plain", 415, ""},
		{"/v1/extend", `{"tokens":[1]}`, "", 422, "tokens[0]"},
		{"/v1/extend", `{"tokens":["x",null],"by_seconds":null}`, "", 422, "tokens[1]"},
		{"/v1/settle", `{"settlements":[null]}`, "", 422, "settlements[0]"},
		{"/v1/settle", `{"settlements":[{"token":"x","verdict":"done"},{"verdict":"ack","after_seconds":1}]}`, "", 422,
			"settlements[0].verdict settlements[1].after_seconds settlements[1].token"},
		{"/v1/extend", `{"tokens":1,"by_seconds":0}`, "", 422, "by_seconds tokens"},
		{"/v1/settle", `{"settlements":[{"token":"x","verdict":"done","nope":1}]}`, "", 422,
			"settlements[0].nope settlements[0].verdict"},
		{"/v1/settle", `[]`, "", 422, ""},
		{"/v1/settle", `{"settlements":[{"token":"x","verdict":"ack","hold_seconds":1e300}]}`, "", 422,
			"settlements[0].hold_seconds"},
		{"/v1/topics/mail/pause", `{"for_seconds":315576001}`, "", 422, "for_seconds"},
		{"/v1/topics/mail/pause", `{"for_seconds":-1}`, "", 422, "for_seconds"},
		{"/v1/nothing", `{}`, "", 404, ""},
	})
	raw := d.post("/v1/topics/no+topic/messages", "x", "Content-Type: text/plain", "Pawl-Delay: soon",
		"Pawl-Priority: 101", "Pawl-Id: "+strings.Repeat("x", 300), "Pawl-Nope: x")
	if got := strings.Join(fieldsOf(t, d.want(422, raw)), " "); got != "Pawl-Delay Pawl-Id Pawl-Nope Pawl-Priority topic" {
		t.Errorf("raw: fields %q", got)
	}
	looked := d.get("/v1/messages?nope=1&limit=x&cursor=x&state=x&older_than=x")
	if got := strings.Join(fieldsOf(t, d.want(422, looked)), " "); got != "cursor limit nope older_than state" {
		t.Errorf("parameters: fields %q", got)
	}
	if got := d.lease(`{"topics":["mail"],"limit":100}`); len(got) != 0 {
		t.Errorf("an invalid request appended %+v", got)
	}
}

// refused is a request that is refused, with the fields that are wrong.
type refused struct {
	path, body, kind string
	status           int
	fields           string
}

func (d *door) refuses(requests []refused) {
	d.t.Helper()
	for _, c := range requests {
		name := c.body[:min(len(c.body), 60)]
		headers := []string{}
		if c.kind != "" {
			headers = append(headers, "Content-Type: "+c.kind)
		}
		d.want(c.status, d.post(c.path, c.body, headers...))
		if c.status != 422 || c.fields == "" {
			continue
		}
		if got := strings.Join(fieldsOf(d.t, d.post(c.path, c.body, headers...)), " "); got != c.fields {
			d.t.Errorf("%s: fields %q, want %q", name, got, c.fields)
		}
	}
	d.want(415, d.post("/v1/topics/mail/messages", `{}`, "Content-Encoding: br"))
	d.want(405, d.ask("DELETE", "/v1/lease", ""))
}

// TestInvalidActs: what changes something is refused with everything that is wrong.
func TestInvalidActs(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{Access: api.Access{Tokens: tokens}}).as("secret-admin")
	d.refuses([]refused{
		{"/v1/topics/mail/set", `{"nope":1,"park":"x","order":"odd","retry":"odd","deadline_seconds":-1,
			"ageing_seconds":-1,"retain_seconds":-1,"max_waiting":-1}`, "", 422,
			"ageing_seconds deadline_seconds max_waiting nope order park retain_seconds retry"},
		{"/v1/topics/mail/pause", `{"nope":1,"for_seconds":-1}`, "", 422, "for_seconds nope"},
		{"/v1/dead/x/edit", `{"nope":1}`, "", 422, "edit nope"},
		{"/v1/dead/x/edit", ``, "", 422, "edit"},
		{"/v1/dead/replay", `{"nope":1,"rate":-1,"to":"no topic","filter":{"limit":-1,"since":"x","nope":1}}`, "", 422,
			"filter.limit filter.nope filter.since nope rate to"},
		{"/v1/dead/discard", `{"rate":-1,"to":"t","edit":"e","keep_attempts":true}`, "", 422,
			"edit filter keep_attempts rate to"},
		{"/v1/schedules/s/put", `{"nope":1,"cron":"x","zone":"X","topic":"no topic","priority":101,"overlap":"x","missed":"x",
			"jitter_seconds":-1,"missed_within_seconds":-1,"body":"b","json":1}`, "", 422,
			"cron jitter_seconds json missed missed_within_seconds nope overlap priority topic zone"},
		{"/v1/schedules/s/backfill", `{"nope":1,"rate":-1}`, "", 422, "nope rate since until"},
		{"/v1/state/t/k/put", `{"nope":1}`, "", 422, "nope value"},
	})
}

func TestAccess(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{Access: api.Access{Tokens: tokens}})
	no := d.want(401, d.get("/v1/openapi.json"))
	if no.header.Get("WWW-Authenticate") != "Bearer" {
		t.Error("a 401 without WWW-Authenticate")
	}
	d.want(401, d.as("wrong").get("/v1/openapi.json"))
	d.want(401, d.get("/v1/openapi.json?token=secret-admin"))
	d.want(401, d.get("/v1/openapi.json", "Authorization: Basic secret-admin"))
	for _, token := range tokens {
		d.want(200, d.as(token.Secret).get("/v1/openapi.json"))
	}
	shop, py, view := d.as("secret-producer"), d.as("secret-worker"), d.as("secret-viewer")
	shop.want(201, shop.post("/v1/topics/mail/messages", `{"body":"1"}`))
	shop.want(201, shop.post("/v1/topics/orders.eu/messages", `{"body":"1"}`))
	shop.want(403, shop.post("/v1/topics/other/messages", `{"body":"1"}`))
	shop.want(403, shop.post("/v1/messages", `[{"topic":"mail"},{"topic":"other"}]`))
	shop.want(403, shop.post("/v1/lease", `{"topics":["mail"]}`))
	view.want(403, view.post("/v1/topics/mail/messages", `{"body":"1"}`))
	view.want(403, view.post("/v1/settle", `{"settlements":[]}`))
	py.want(403, py.post("/v1/lease", `{"topics":["mail","orders.eu"]}`))
	got := py.lease(`{"topics":["mail"],"limit":9}`)
	other := d.as("secret-worker-all").lease(`{"topics":["orders.eu"]}`)
	if len(got) != 1 || len(other) != 1 {
		t.Fatalf("leased %d and %d", len(got), len(other))
	}
	if r := py.settle(`{"settlements":[{"token":"` + other[0].Token + `","verdict":"ack"},{"token":"` + got[0].Token +
		`","verdict":"ack","emit":[{"topic":"other","body":"x"}]}]}`); r[0].Action != "lost" || r[1].Action != "refused" {
		t.Errorf("settled %+v", r)
	}
	var lost struct{ Lost []string }
	py.want(200, py.post("/v1/extend", `{"tokens":["`+other[0].Token+`","x"],"by_seconds":5}`)).into(t, &lost)
	if len(lost.Lost) != 2 {
		t.Errorf("lost %v", lost.Lost)
	}
	if r := py.settle(`{"settlements":[{"token":"` + got[0].Token + `","verdict":"ack"}]}`); r[0].Action != "acked" {
		t.Errorf("after a refusal: %+v", r)
	}
}

func TestLocal(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{})
	d.want(201, d.post("/v1/topics/mail/messages", `{}`, "Host: localhost:1"))
	d.want(403, d.post("/v1/topics/mail/messages", `{}`, "Host: evil.example"))
	d.want(403, d.post("/v1/topics/mail/messages", `{}`, "Host: localhost:1", "X-Forwarded-For: 192.0.2.7"))
	d.want(403, d.post("/v1/topics/mail/messages", `x`, "Content-Type: text/plain", "Origin: http://evil.example"))
	d.want(403, d.post("/v1/topics/mail/messages", `x`, "Sec-Fetch-Site: cross-site"))
}

func TestProxy(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{BasePath: "/pawl", Access: api.Access{Proxy: api.Proxy{
		Trusted: []string{"127.0.0.1/32"}, UserHeader: "X-User",
		Roles: map[string]string{"alice": api.Admin, "*": api.Viewer}}}})
	d.want(401, d.get("/v1/openapi.json"))
	d.want(200, d.get("/v1/openapi.json", "X-User: bob"))
	d.want(403, d.post("/v1/topics/mail/messages", `{}`, "X-User: bob"))
	d.want(201, d.post("/v1/topics/mail/messages", `{}`, "X-User: alice"))
}

func TestIdempotency(t *testing.T) {
	onStores(t, api.Config{}, func(t *testing.T, d *door) {
		d = d.with(t)
		again := serveStore(t, d.store, api.Config{})
		for _, body := range []string{`{"body":"x"}`, `{"id":"mine","body":"x"}`} {
			key := "Idempotency-Key: " + body
			first := d.want(201, d.post("/v1/topics/once/messages", body, key))
			second := again.want(201, again.post("/v1/topics/once/messages", body, key))
			if !bytes.Equal(first.body, second.body) {
				t.Errorf("%s, then %s", first, second)
			}
			d.want(422, d.post("/v1/topics/once/messages", strings.Replace(body, "x", "y", 1), key))
		}
		got := d.lease(`{"topics":["once"],"limit":10}`)
		if len(got) != 2 {
			t.Fatalf("stored %d", len(got))
		}
		settle := `{"settlements":[{"token":"` + got[0].Token + `","verdict":"ack"},{"token":"` + got[1].Token +
			`","verdict":"fail","error":"no"}]}`
		first := d.want(200, d.post("/v1/settle", settle, "Idempotency-Key: s"))
		second := again.want(200, again.post("/v1/settle", settle, "Idempotency-Key: s"))
		if !bytes.Equal(first.body, second.body) || !strings.Contains(string(first.body), `"acked"`) ||
			!strings.Contains(string(first.body), `"next_at"`) {
			t.Errorf("%s, then %s", first, second)
		}
		d.want(422, d.post("/v1/settle", `{"settlements":[]}`, "Idempotency-Key: s"))
		for i, header := range []string{"Pawl-Header-A: 1", "Pawl-Header-A: 2"} {
			d.want([]int{201, 422}[i], d.post("/v1/topics/raw/messages", "x", "Content-Type: text/plain", "Idempotency-Key: r",
				header))
		}
		if r := d.settle(settle); r[0].Action != "lost" || r[1].Action != "lost" {
			t.Errorf("a stale token: %+v", r)
		}
	})
}

func TestWork(t *testing.T) {
	onStores(t, api.Config{Access: api.Access{Tokens: tokens}}, func(t *testing.T, d *door) {
		other := serveStore(t, d.store, api.Config{Access: api.Access{Tokens: tokens}}).as("secret-worker-all")
		d = d.with(t).as("secret-worker-all")
		d.want(200, d.post("/v1/topics/w/messages", `[{"key":"a","body":"1"},{"key":"a","body":"2"},{"key":"b","body":"3"}]`))
		got := d.lease(`{"topics":["w"],"limit":10,"lease_seconds":5,"worker":"host/1"}`)
		if len(got) != 2 || got[0].Body != "1" || got[1].Body != "3" {
			t.Fatalf("one message of a lane at a time: %+v", got)
		}
		var lost struct{ Lost []string }
		other.want(200, other.post("/v1/extend", `{"tokens":["`+got[0].Token+`"],"by_seconds":60}`)).into(t, &lost)
		r := other.settle(`{"settlements":[{"token":"` + got[0].Token + `","verdict":"ack","emit":[{"topic":"done","json":null}]},
			{"token":"` + got[1].Token + `","verdict":"fail","error":"no such address","class":"permanent","attrs":{"status":"550"}}]}`)
		if len(lost.Lost) != 0 || r[0].Action != "acked" || r[1].Action != "dead" || r[1].Rule == "" {
			t.Errorf("lost %v, settled %+v", lost.Lost, r)
		}
		if done := d.lease(`{"topics":["done"]}`); len(done) != 1 || done[0].Body != "null" {
			t.Errorf("emitted %+v", done)
		}
		next := d.lease(`{"topics":["w"],"limit":10}`)
		if len(next) != 1 || next[0].Body != "2" {
			t.Fatalf("next: %+v", next)
		}
		if r := d.settle(`{"settlements":[{"token":"` + next[0].Token + `","verdict":"release"}]}`); r[0].Action != "released" {
			t.Errorf("%+v", r)
		}
		next = d.lease(`{"topics":["w"]}`)
		if len(next) != 1 || next[0].Attempt != 1 {
			t.Fatalf("a release is not counted: %+v", next)
		}
		r = d.settle(`{"settlements":[{"token":"` + next[0].Token + `","verdict":"fail","class":"throttled","after_seconds":30}]}`)
		if r[0].Action != "retry" || r[0].NextAt == nil || time.Until(*r[0].NextAt) < 20*time.Second {
			t.Errorf("%+v", r)
		}
	})
}

// A worker that says how long it is until a time that has passed says "now": its work is not done again for that.
func TestNegativeTimesAreNow(t *testing.T) {
	onStores(t, api.Config{}, func(t *testing.T, d *door) {
		d.want(201, d.post("/v1/topics/w/messages", `{"body":"1","delay_seconds":-1}`))
		d.want(201, d.post("/v1/topics/w/messages", "2", "Content-Type: text/plain", "Pawl-Delay: -1e300"))
		for _, verdict := range []string{"release", "fail", "ack"} {
			more := ""
			if verdict == "ack" {
				more = `,"emit":[{"topic":"over","retry_for_seconds":-5,"timeout_seconds":-5,"delay_seconds":-5,` +
					`"unique":{"key":"k","for_seconds":-5}}],"marks":[{"scope":"s","key":"k","for_seconds":-5}]`
			}
			for _, got := range d.lease(`{"topics":["w"],"limit":10}`) {
				r := d.settle(`{"settlements":[{"token":"` + got.Token + `","verdict":"` + verdict +
					`","hold_seconds":-1e300,"after_seconds":-3` + more + `}]}`)
				if len(r) != 1 || r[0].Error != "" || verdict == "ack" && r[0].Action != "acked" {
					t.Errorf("%s: %+v", verdict, r)
				}
			}
			time.Sleep(time.Second) // of the retry
		}
		if left := d.lease(`{"topics":["w"],"limit":10}`); len(left) != 0 {
			t.Errorf("left: %+v", left)
		}
	})
}

func TestLongPoll(t *testing.T) {
	onStores(t, api.Config{}, func(t *testing.T, d *door) {
		d = d.with(t)
		var late []time.Duration // one of five may be, on a busy machine; without a wake-up most are, up to a second
		for range 5 {
			got := make(chan time.Time, 1)
			go func() {
				if len(d.lease(`{"topics":["poll"],"wait_seconds":20}`)) == 1 {
					got <- time.Now()
				}
			}()
			time.Sleep(300 * time.Millisecond)
			began := time.Now()
			d.want(201, d.post("/v1/topics/poll/messages", `{}`))
			select {
			case at := <-got:
				if took := at.Sub(began); took > 150*time.Millisecond { // 10 ms where nothing else is to be done
					late = append(late, took)
				}
			case <-time.After(5 * time.Second):
				t.Fatal("not woken")
			}
		}
		if len(late) > 1 {
			t.Errorf("woken after %v", late)
		}
		began := time.Now()
		got := d.lease(`{"topics":["poll"],"wait_seconds":0.3}`)
		if len(got) != 0 || time.Since(began) < 250*time.Millisecond {
			t.Errorf("%d after %v", len(got), time.Since(began))
		}
	})
}

func TestHangUp(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{})
	ctx, cancel := context.WithCancel(context.Background())
	q, _ := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/v1/lease",
		strings.NewReader(`{"topics":["gone"],"wait_seconds":20}`))
	q.Header.Set("Content-Type", "application/json")
	go func() {
		if r, err := http.DefaultClient.Do(q); err == nil {
			_ = r.Body.Close()
		}
	}()
	time.Sleep(200 * time.Millisecond)
	cancel()
	time.Sleep(100 * time.Millisecond)
	d.want(201, d.post("/v1/topics/gone/messages", `{}`))
	if got := d.lease(`{"topics":["gone"],"wait_seconds":1}`); len(got) != 1 || got[0].Attempt != 1 {
		t.Errorf("got %+v", got)
	}
}

// A client that closes its connection when it has the answer keeps what it leased.
func TestAnswerThatWasReadKeepsItsLease(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{})
	for range 30 {
		d.want(201, d.post("/v1/topics/kept/messages", `{}`))
		got := d.lease1(`{"topics":["kept"]}`)
		time.Sleep(5 * time.Millisecond)
		if r := d.settle(`{"settlements":[{"token":"` + got + `","verdict":"ack"}]}`); r[0].Action != "acked" {
			t.Fatalf("settled: %+v", r)
		}
	}
}

// lease1 leases over a connection that is closed with the last byte of the answer.
func (d *door) lease1(body string) (token string) {
	d.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		d.t.Fatal(err)
	}
	_, _ = fmt.Fprintf(c, "POST /v1/lease HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n%s", len(body), body)
	var got strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(got.String(), "]}\n") {
		n, err := c.Read(buf)
		if err != nil {
			d.t.Fatal(err)
		}
		got.Write(buf[:n])
	}
	_ = c.Close()
	_, after, _ := strings.Cut(got.String(), `"token":"`)
	token, _, _ = strings.Cut(after, `"`)
	return token
}
