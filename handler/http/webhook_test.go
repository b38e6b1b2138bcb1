package http

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

func hook(t *testing.T, c Config, serve http.HandlerFunc) *Hook {
	t.Helper()
	s := httptest.NewServer(serve)
	t.Cleanup(s.Close)
	c.URL = strings.Replace(s.URL, "http://", "http://user:secret@", 1) + "/hooks?a=b"
	h, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

func delivery() *pawl.Delivery {
	return &pawl.Delivery{
		Message: pawl.Message{
			ID: "m1", Topic: "mail", Key: []byte("k 1"), Body: []byte("hello"),
			Headers: map[string]string{"traceparent": "00-1-2-01", "content-type": "text/plain",
				"x\r\nInjected: 1": "ü\n\x7f🙂"},
		},
		Token: pawl.Token{Fence: 1, Lane: 2, Seq: 3}, Attempt: 2,
	}
}

func TestWhatIsSent(t *testing.T) {
	var got *http.Request
	var body []byte
	h := hook(t, Config{Method: "PUT", Headers: map[string]string{"X-Api": "1"}, Timeout: time.Minute},
		func(_ http.ResponseWriter, r *http.Request) {
			got = r
			body, _ = io.ReadAll(r.Body)
		})
	d := delivery()
	if err := h.Handle(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if string(body) != "hello" || got.Method != "PUT" || got.URL.String() != "/hooks?a=b" || got.ContentLength != 5 {
		t.Errorf("%s %s with %q", got.Method, got.URL, body)
	}
	for name, want := range map[string]string{
		"Pawl-Id": "m1", "Pawl-Topic": "mail", "Pawl-Key": "k 1", "Pawl-Attempt": "2", "Pawl-Last-Attempt": "false",
		"Pawl-Token":   d.Token.String(),
		"Traceparent":  "00-1-2-01",
		"Content-Type": "text/plain", "X-Api": "1", "Injected": "", "Idempotency-Key": "m1",
	} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("%s is %q, want %q", name, v, want)
		}
	}
	ends, err := time.Parse(time.RFC3339, got.Header.Get("Pawl-Deadline"))
	if left := time.Until(ends); err != nil || left < 30*time.Second || left > time.Minute {
		t.Errorf("the deadline is in %v, %v", left, err)
	}
	if user, password, _ := got.BasicAuth(); user != "user" || password != "secret" {
		t.Errorf("the user of the URL is sent as %s:%s", user, password)
	}
	var headers map[string]string
	if err := json.Unmarshal([]byte(got.Header.Get("Pawl-Headers")), &headers); err != nil ||
		headers["x\r\nInjected: 1"] != "ü\n\x7f🙂" {
		t.Errorf("headers of the message come as %q: %v", got.Header.Get("Pawl-Headers"), err)
	}
}

func TestWhatNoHeaderHoldsIsEncoded(t *testing.T) {
	var got http.Header
	h := hook(t, Config{}, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	d := &pawl.Delivery{Message: pawl.Message{ID: "ü", Topic: "t", Key: []byte("a\r\nX: y")}}
	if err := h.Handle(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if got.Get("Pawl-Id-Base64") != "w7w=" || got.Get("Pawl-Key-Base64") != "YQ0KWDogeQ==" ||
		got.Get("Pawl-Key") != "" || got.Get("X") != "" ||
		got.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("sent %v", got)
	}
}

// What the default policy makes of each status is what the command line promises.
func TestVerdicts(t *testing.T) {
	m, err := policy.NewMatrix(func() float64 { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Add(-time.Hour) // its clock counts, not ours
	date := func(d time.Duration) string { return now.Add(d).UTC().Format(http.TimeFormat) }
	for _, c := range []struct {
		status int
		header string // of Retry-After
		want   string
	}{
		{200, "", "ack"}, {204, "", "ack"}, {202, "10", "ack"},
		{429, "3", "release after 3s"}, {503, "2", "release after 2s"}, {503, "0", "release after 1s"},
		{429, date(time.Minute), "release after 1m0s"},
		{503, date(-time.Minute), "release after 1s"}, {503, "3600", "release after 1h0m0s"},
		{429, "3601", "release after 1h0m0s"},
		{503, "86400000", "release after 1h0m0s"}, {429, "99999999999", "release after 1h0m0s"},
		{429, "99999999999999999999999", "release after 1h0m0s"},
		{503, date(24 * 365 * time.Hour), "release after 1h0m0s"},
		{503, "Fri, 31 Dec 9999 23:59:59 GMT", "release after 1h0m0s"},
		{429, "", "retry"}, {429, "soon", "retry"}, {503, "-1", "retry"}, {429, "1.5", "release after 1.5s"},
		{429, "-99999999999999999999999", "retry"}, {503, "", "retry"}, {500, "5", "retry"}, {502, "", "retry"},
		{408, "", "retry"}, {425, "", "retry"},
		{400, "", "dead"}, {404, "", "dead"}, {409, "", "dead"}, {410, "", "dead"}, {422, "3", "dead"},
		{301, "", "retry"}, {304, "", "retry"},
	} {
		reply := &http.Response{StatusCode: c.status, Status: fmt.Sprint(c.status),
			Header: http.Header{"Date": {date(0)}}}
		if c.header != "" {
			reply.Header.Set("Retry-After", c.header)
		}
		err := verdict(reply, []byte("because\n"))
		got := "ack"
		if release, ok := errors.AsType[*pawl.ReleaseError](err); ok {
			got = "release after " + release.After.String()
		} else if err != nil {
			got = m.Decide(policy.Attempt{Number: 1, Err: err}).Action.String()
		}
		if got != c.want {
			t.Errorf("status %d, Retry-After %q: %s, want %s", c.status, c.header, got, c.want)
		}
		if err != nil && !strings.Contains(err.Error(), "because") {
			t.Errorf("status %d: the reason is %q", c.status, err)
		}
	}
}

func TestReasonsAreShort(t *testing.T) {
	h := hook(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(500)
		_, _ = io.WriteString(w, strings.Repeat("ü", 1<<20))
	})
	err := h.Handle(t.Context(), delivery())
	if err == nil || len(err.Error()) > maxReason+100 || !strings.HasPrefix(err.Error(),
		"500 Internal Server Error: üü") {
		t.Errorf("the reason is %.100q", err)
	}
}

func TestNoReply(t *testing.T) {
	block := make(chan struct{})
	h := hook(t, Config{Timeout: 50 * time.Millisecond}, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-block:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(block) })
	facts := func(err error) policy.Facts {
		f, _ := errors.AsType[*policy.Fault](err)
		if f == nil {
			return 0
		}
		return f.Facts
	}
	if err := h.Handle(t.Context(), delivery()); facts(err) != policy.Timeout ||
		pawl.Describe(err).Kind != policy.KindService {
		t.Errorf("too late: %v, %v", err, facts(err))
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(pawl.ErrDrain)
	if err := h.Handle(ctx, delivery()); !errors.Is(err, pawl.ErrDrain) {
		t.Errorf("while draining: %v", err)
	}
	h, err := New(Config{URL: "http://user:secret@127.0.0.1:1", Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Handle(t.Context(), delivery()); facts(err) != policy.Connect ||
		strings.Contains(err.Error(), "secret") {
		t.Errorf("nobody there: %v, %v", err, facts(err))
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	calls := 0
	h := hook(t, Config{}, func(w http.ResponseWriter, r *http.Request) {
		calls++
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	})
	if err := h.Handle(t.Context(), delivery()); err == nil || !strings.Contains(err.Error(), "not followed") ||
		calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// TestSwitchingProtocols: a service that makes something else of the connection does not keep the handler.
func TestSwitchingProtocols(t *testing.T) {
	over := make(chan struct{})
	h := hook(t, Config{Timeout: 50 * time.Millisecond}, func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		<-over
	})
	time.AfterFunc(5*time.Second, func() { close(over) })
	began := time.Now()
	err := h.Handle(t.Context(), delivery())
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %v", took)
	}
	if err == nil || !strings.Contains(err.Error(), "101") || pawl.Describe(err).Kind != policy.KindService {
		t.Errorf("%v", err)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	var connections atomic.Int32
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	h, err := New(Config{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for range 20 {
		if err := h.Handle(t.Context(), delivery()); err != nil {
			t.Fatal(err)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections for 20 deliveries, one after the other", n)
	}
}

func TestARepliedVerdict(t *testing.T) {
	reply := ""
	h := hook(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", ContentVerdict+"; charset=utf-8")
		_, _ = io.WriteString(w, reply)
	})
	handle := func(text string) (*pawl.Delivery, error) {
		reply = text
		d := delivery()
		return d, h.Handle(t.Context(), d)
	}
	d, err := handle(`{
		"verdict": "ack", "hold_seconds": 2,
		"emit": [{"topic": "next", "body": "x"}]
	}
	`)
	if err != nil || d.HoldFor() != 2*time.Second || len(d.Emitted()) != 1 || d.Emitted()[0].Topic != "next" {
		t.Errorf("ack: %v, holds %v, emits %v", err, d.HoldFor(), d.Emitted())
	}
	if _, err := handle(`{"verdict":"dead","reason":"no such customer","kind":"Customer"}`); pawl.Describe(
		err).Class != pawl.ClassPermanent || pawl.Describe(err).Kind != "Customer" {
		t.Errorf("dead: %v", err)
	}
	if _, err := handle(`{"verdict":"release","after_seconds":3}`); err == nil ||
		!strings.HasPrefix(err.Error(), "released") {
		t.Errorf("release: %v", err)
	}
	for _, bad := range []string{"", "ok", `{"verdict":"done"}`, `{"verdict":"ack"`,
		`{"verdict":"dead","emit":[{"topic":"t"}]}`} {
		if _, err := handle(bad); err == nil || !strings.Contains(err.Error(), "not a verdict") ||
			pawl.Describe(err).Kind != policy.KindService {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A web service whose certificate nobody here knows, or that has no TLS, is told by the cause.
func TestTLSFailuresNameWhatToChange(t *testing.T) {
	secure, plain := httptest.NewUnstartedServer(nil), httptest.NewServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	t.Cleanup(plain.Close)
	for url, want := range map[string]string{
		secure.URL: "SSL_CERT_FILE", strings.Replace(plain.URL, "http:", "https:", 1): "offers no TLS",
	} {
		h, err := New(Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h.Close)
		if err := h.Handle(t.Context(), delivery()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
