package http

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// early serves requests of any size up to a bound, and resets the connection of a larger one before it has read it. One
// that asks first is told expect.
func early(t *testing.T, expect string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	serve := func(c net.Conn) {
		defer func() { _ = c.Close() }()
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		if r.Header.Get("Expect") == "" && r.ContentLength > 1<<20 {
			_ = c.(*net.TCPConn).SetLinger(0)
			return
		}
		if r.Header.Get("Expect") != "" {
			_, _ = io.WriteString(c, "HTTP/1.1 "+expect+"\r\n\r\n")
		}
		if !strings.HasPrefix(expect, "4") {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return "http://" + l.Addr().String()
}

// A body that is refused before it was read is refused for good, although the reply was lost with the connection.
func TestABodyThatIsRefusedUnread(t *testing.T) {
	for expect, want := range map[string]string{
		"100 Continue":                                "",
		"413 Too Large\r\nContent-Length: 0":          "413 Too Large",
		"417 Expectation Failed\r\nContent-Length: 0": "the connection broke while the body was written",
	} {
		h, err := New(Config{URL: early(t, expect), Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		d := delivery()
		d.Body = make([]byte, pawl.MaxBody)
		err = h.Handle(t.Context(), d)
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", expect, err)
			}
			continue
		}
		kind := policy.KindService
		if strings.HasPrefix(want, "413") {
			kind = policy.KindRejected
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) || pawl.Describe(err).Kind != kind {
			t.Errorf("%s: %v of kind %s", expect, err, pawl.Describe(err).Kind)
		}
	}
}

// Over HTTP/2 a reply may begin, and never end, while the body of the request is still being written: the time-out
// counts.
func TestAReplyBeforeTheRequestIsWritten(t *testing.T) {
	for kind, want := range map[string]string{ContentVerdict: "no reply within 1s", "text/plain": "200"} {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, `{"verdict":"ack"`)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
		s.EnableHTTP2 = true
		s.StartTLS()
		t.Cleanup(s.Close)
		h, err := New(Config{URL: s.URL, Timeout: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(h.Close)
		h.client.Transport.(*http.Transport).TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig
		d := delivery()
		d.Body = make([]byte, pawl.MaxBody)
		done := make(chan error, 1)
		go func() { done <- h.Handle(context.WithoutCancel(t.Context()), d) }()
		select {
		case err := <-done:
			if got := fmt.Sprint(err); got != want && (want != "200" || err != nil) {
				t.Errorf("%s: %v, want %s", kind, err, want)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: it hangs", kind)
			s.CloseClientConnections()
			<-done
		}
	}
}
