package forward

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/retryafter"
)

// Telegram's pause counts however it is written, within bounds, and that of a proxy between counts, too.
func TestPausesThatAnAnswerAsksFor(t *testing.T) {
	for _, c := range []struct {
		value, header string
		want          time.Duration
	}{
		{"7", "", 7 * time.Second}, {`"7"`, "", 7 * time.Second}, {"1.5", "", 1500 * time.Millisecond}, {"-7", "", 0},
		{"1e30", "", retryafter.Most}, {"99999999999999999999", "", retryafter.Most}, {"null", "3", 3 * time.Second},
		{"{}", "3", 3 * time.Second}, {"", "3", 3 * time.Second}, {"7", "3", 7 * time.Second}, {"0", "3", 0},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", c.header)
			w.WriteHeader(http.StatusTooManyRequests)
			if c.value != "" {
				_, _ = fmt.Fprintf(w, `{"ok":false,"error_code":429,"parameters":{"retry_after":%s}}`, c.value)
				return
			}
			_, _ = fmt.Fprint(w, "<html>slow")
		}))
		err := newClient(server.URL, "1:t").call(t.Context(), time.Minute, "getMe", struct{}{}, nil)
		server.Close()
		if e := cmp.Or(asAPI(err), &apiError{}); e.Code != http.StatusTooManyRequests || e.RetryAfter != c.want {
			t.Errorf("%s, %q: %d, %v, want %v", c.value, c.header, e.Code, e.RetryAfter, c.want)
		}
	}
}

func isForeign(err error, status int) bool {
	e, ok := errors.AsType[*foreignError](err)
	return ok && e.status == status
}

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
	began := time.Now()
	err := newClient(server.URL, "1:t").call(t.Context(), 50*time.Millisecond, "getMe", struct{}{}, nil)
	if took := time.Since(began); !isForeign(err, http.StatusSwitchingProtocols) || took > 4*time.Second {
		t.Errorf("%v after %v", err, took)
	}
}

// However short the pause that Telegram asks for, there is one between two requests for updates, and after a long one
// they come at their pace again.
func TestPollPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &forwarder{env: pipeline.Env{Name: "f", Logger: slog.New(slog.DiscardHandler)}}
		began, wait := time.Now(), time.Second
		for range 20 {
			wait = f.pollFailed(t.Context(), &apiError{Code: 429, RetryAfter: time.Microsecond}, wait)
		}
		if took := time.Since(began); took < 20*time.Second {
			t.Errorf("20 requests in %v", took)
		}
		began = time.Now()
		wait = f.pollFailed(t.Context(), &apiError{Code: 429, RetryAfter: time.Hour}, wait)
		if took := time.Since(began); took != time.Hour || wait > 15*time.Second {
			t.Errorf("a pause of %v, then %v", took, wait)
		}
	})
}
