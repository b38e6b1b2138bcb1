package api_test

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/store/memory"
)

// pipes is a listener of connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8470} }

// TestSlowBody: a body that does not go on is given up after half a minute.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := api.New(memory.New(memory.Config{}), api.Config{Logger: slog.New(slog.DiscardHandler),
			Access: api.Access{Tokens: tokens}})
		if err != nil {
			t.Fatal(err)
		}
		listener, server := make(pipes), a.Server()
		go func() { _ = server.Serve(listener) }()
		client, served := net.Pipe()
		listener <- served
		began := time.Now()
		_, _ = io.WriteString(client, "POST /v1/topics/mail/messages HTTP/1.1\r\nHost: localhost\r\n"+
			"Authorization: Bearer secret-producer\r\nContent-Length: 9\r\n\r\nxx")
		answer := make([]byte, 4096)
		n, _ := client.Read(answer)
		if took := time.Since(began); took < 29*time.Second || took > 35*time.Second ||
			!strings.HasPrefix(string(answer[:n]), "HTTP/1.1 408 ") {
			t.Errorf("after %v: %s", took, answer[:n])
		}
		_ = client.Close()
		_ = server.Close()
		a.Close()
	})
}
