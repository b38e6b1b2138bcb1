package replybody_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/replybody"
)

func reply(status int) (*http.Response, *io.PipeWriter) {
	body, other := io.Pipe() // reading waits until it is closed
	return &http.Response{StatusCode: status, Body: body}, other
}

func TestTheContextEndsTheReading(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, _ := reply(http.StatusOK)
	defer func() { _ = r.Body.Close() }()
	defer replybody.Bound(ctx, r)()
	time.AfterFunc(10*time.Millisecond, cancel)
	if _, err := io.ReadAll(r.Body); err == nil {
		t.Error("the reading ended well")
	}
}

func TestNothingIsBoundAfterwards(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, other := reply(http.StatusOK)
	defer func() { _ = r.Body.Close() }()
	replybody.Bound(ctx, r)()
	cancel()
	go func() {
		_, _ = other.Write([]byte("x"))
		_ = other.Close()
	}()
	if text, err := io.ReadAll(r.Body); err != nil || string(text) != "x" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestAConnectionIsNoBody(t *testing.T) {
	r, other := reply(http.StatusSwitchingProtocols)
	defer func() { _ = r.Body.Close() }()
	defer replybody.Bound(t.Context(), r)()
	if text, err := io.ReadAll(r.Body); err != nil || len(text) > 0 {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := other.Write([]byte("x")); err == nil {
		t.Error("the connection is open")
	}
}
