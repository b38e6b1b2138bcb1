package project

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A server that makes something else of the connection is refused at once: no time-out ends the reading of it.
func TestSwitchingProtocols(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		<-over
	}))
	defer server.Close()
	time.AfterFunc(5*time.Second, func() { close(over) })
	s := &search{base: server.URL, client: &http.Client{Timeout: 50 * time.Millisecond}}
	began := time.Now()
	err := s.call(t.Context(), http.MethodPut, "/i", []byte("{}"), nil)
	if took := time.Since(began); err == nil || !strings.HasPrefix(err.Error(), "HTTP 101") || took > 4*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}

// Over HTTP/2 an answer may begin, and never end, while the request is still being written: the time-out counts.
func TestAnAnswerBeforeTheRequestIsWritten(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "{")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	s := &search{base: server.URL, client: server.Client()}
	s.client.Timeout = time.Second
	done := make(chan error, 1)
	go func() {
		done <- s.call(context.WithoutCancel(t.Context()), http.MethodPost, "/_bulk", make([]byte, 16<<20), nil)
	}()
	select {
	case err := <-done:
		if err == nil || transport(err) != "timeout" {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it hangs")
		server.CloseClientConnections()
		<-done
	}
}
