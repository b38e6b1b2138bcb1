package llm

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
)

// A server that makes something else of the connection is refused at once: no time-out ends the reading of it.
func TestSwitchingProtocols(t *testing.T) {
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
	p := New(Config{Type: OpenAI, BaseURL: server.URL, Timeout: 50 * time.Millisecond, MaxAnswerBytes: 1 << 20,
		Logger: slog.New(slog.DiscardHandler)})
	began := time.Now()
	_, err := p.Complete(t.Context(), "f", "m", "", "text")
	if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "101") || took > 4*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}

// Over HTTP/2 an answer may begin, and never end, while the prompt is still being written: the time-out counts.
func TestAnAnswerBeforeTheRequestIsWritten(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "{")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	p := New(Config{Type: OpenAI, BaseURL: server.URL, Timeout: time.Second, MaxAnswerBytes: 1 << 20,
		Logger: slog.New(slog.DiscardHandler)})
	p.http.Transport = server.Client().Transport
	done := make(chan error, 1)
	go func() {
		_, err := p.Complete(context.WithoutCancel(t.Context()), "f", "m", "", strings.Repeat("x", 16<<20))
		done <- err
	}()
	select {
	case err := <-done:
		if pawl.Describe(err).Kind != "Timeout" {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it hangs")
		server.CloseClientConnections()
		<-done
	}
}
