package project

import (
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
