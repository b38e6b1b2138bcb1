package api_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/api"
)

// mayDo is what spec and docs say a role may do, apart from the table of routes.
func mayDo(role, method, path string) bool {
	appends := path == "/v1/messages" || strings.HasSuffix(path, "/messages")
	works := path == "/v1/lease" || path == "/v1/extend" || path == "/v1/settle"
	settings := regexp.MustCompile(`/(set|rm|discard)$`).MatchString(path)
	switch {
	case path == "/v1/openapi.json", role == api.Admin:
		return true
	case method == http.MethodGet:
		return role == api.Viewer || role == api.Operator
	case appends:
		return role == api.Producer || role == api.Worker
	case works:
		return role == api.Worker
	}
	return role == api.Operator && !settings
}

// TestRoleByRole asks each route with each role, without a token and with a wrong one, and from a page of another site.
func TestRoleByRole(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{Access: api.Access{Tokens: tokens}})
	local := serveStore(t, openStore(t, "memory:"), api.Config{})
	fill := strings.NewReplacer("{topic}", "mail", "{id}", "none", "{name}", "none", "{key}", "none")
	for _, r := range api.Routes() {
		path := fill.Replace(r.Path)
		d.want(401, d.ask(r.Method, path, ``))
		d.want(401, d.as("secret-admi").ask(r.Method, path, ``))
		d.want(401, d.as("secret-adminn").ask(r.Method, path, ``))
		for _, token := range tokens {
			if r.Path == "/v1/events" && mayDo(token.Role, r.Method, path) {
				continue // it has no end
			}
			a := d.as(token.Secret).ask(r.Method, path, ``)
			narrowed := len(token.Topics) > 0 && a.status == 403 // it is about all topics
			if (a.status != 403) != mayDo(token.Role, r.Method, path) && !narrowed {
				t.Errorf("%s asks %s %s: %s", token.Role, r.Method, path, a)
			}
		}
		local.want(403, local.ask(r.Method, path, ``, "Host: rebound.example"))
		if r.Method == http.MethodPost {
			local.want(403, local.ask(r.Method, path, ``, "Origin: http://evil.example"))
			local.want(403, local.ask(r.Method, path, ``, "Sec-Fetch-Site: cross-site"))
		}
	}
}

// raw sends bytes, and returns the status line of the answer; empty if the connection was closed without one.
func (d *door) raw(request string) string {
	d.t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	if err != nil {
		d.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(c, request) // it may be refused before its end
	answer, _ := io.ReadAll(c)
	if n := bytes.Count(answer, []byte("HTTP/1.1 ")); n > 1 {
		d.t.Errorf("%d answers to %.80q: %s", n, request, answer)
	}
	line, _, _ := strings.Cut(string(answer), "\r\n")
	return line
}

// TestSmuggling: a request whose length can be read in two ways is refused, with what follows it.
func TestSmuggling(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{})
	const hidden = "POST /v1/topics/smuggled/messages HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"
	head := "POST /v1/topics/mail/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nConnection: close\r\n"
	for _, lengths := range []string{
		"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"Content-Length: 0\r\nContent-Length: " + fmt.Sprint(len(hidden)) + "\r\n\r\n",
		"Transfer-Encoding: xchunked\r\n\r\n", "Transfer-Encoding: chunked, identity\r\n\r\n",
		"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "Content-Length: -1\r\n\r\n", "Content-Length: +1\r\n\r\n",
		"Transfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n",
	} {
		d.raw(head + lengths + hidden)
	}
	if got := d.lease(`{"topics":["smuggled"],"limit":10}`); len(got) > 0 {
		t.Errorf("a hidden request was carried out: %+v", got)
	}
	for name, request := range map[string]string{
		"two hosts":      "GET /v1/topics HTTP/1.1\r\nConnection: close\r\nHost: localhost\r\nHost: evil.example\r\n\r\n",
		"no host":        "GET /v1/topics HTTP/1.1\r\n\r\n",
		"absolute":       "GET http://evil.example/v1/topics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"long headers":   "GET /v1/topics HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 200<<10) + "\r\n\r\n",
		"an odd method":  "CONNECT /v1/topics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"up and out":     "GET /v1/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"a broken start": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
	} {
		if line := d.raw(request); line != "" && !strings.HasPrefix(line, "HTTP/1.1 4") &&
			!strings.HasPrefix(line, "HTTP/1.1 3") {
			t.Errorf("%s: %s", name, line)
		}
	}
}

// zeros reads n zeros.
type zeros struct{ n int64 }

func (z *zeros) Read(b []byte) (int, error) {
	if z.n <= 0 {
		return 0, io.EOF
	}
	n := min(int64(len(b)), z.n)
	clear(b[:n])
	z.n -= n
	return int(n), nil
}

// TestLargeBodies: a gibibyte is refused, as it is, in pieces, and packed; so is a document that is deep.
func TestLargeBodies(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{})
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.Copy(z, &zeros{16 << 20}); err != nil {
		t.Fatal(err)
	}
	_ = z.Close()
	packed.Write(bytes.Repeat(packed.Bytes(), 63)) // each piece is a file of its own
	post := func(body io.Reader, length int64, headers ...string) int {
		q, err := http.NewRequest(http.MethodPost, d.url+"/v1/topics/mail/messages", body)
		if err != nil {
			t.Fatal(err)
		}
		q.ContentLength = length
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			q.Header.Set(name, value)
		}
		r, err := http.DefaultClient.Do(q)
		if err != nil {
			return 413 // the connection was closed before all was sent
		}
		_ = r.Body.Close()
		return r.StatusCode
	}
	deep := strings.Repeat(`[`, 5<<20)
	for name, status := range map[string]int{
		"with its length": post(&zeros{1 << 30}, 1<<30, "Content-Type: text/plain"),
		"in pieces":       post(&zeros{1 << 30}, -1, "Content-Type: text/plain"),
		"packed":          post(&packed, int64(packed.Len()), "Content-Type: text/plain", "Content-Encoding: gzip"),
	} {
		if status != 413 {
			t.Errorf("a gibibyte %s: %d", name, status)
		}
	}
	for _, body := range []string{deep, `{"json":` + deep, `{"unique":` + strings.Repeat(`{"unique":`, 1<<18)} {
		if status := post(strings.NewReader(body), int64(len(body)), "Content-Type: application/json"); status != 400 {
			t.Errorf("a deep document: %d", status)
		}
	}
}

// TestSlowHeaders: headers have a second.
func TestSlowHeaders(t *testing.T) {
	d := serveStore(t, openStore(t, "memory:"), api.Config{})
	began := time.Now()
	d.raw("POST /v1/topics/mail/messages HTTP/1.1\r\nHost: localhost\r\nX")
	if took := time.Since(began); took < 900*time.Millisecond || took > 15*time.Second {
		t.Errorf("headers without an end: closed after %v", took)
	}
}
