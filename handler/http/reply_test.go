package http

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

func TestAReplyHasABound(t *testing.T) {
	for _, known := range []bool{true, false} {
		h := hook(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ContentVerdict)
			if known {
				w.Header().Set("Content-Length", fmt.Sprint(maxVerdict+1))
			}
			_, _ = io.WriteString(w, `{"verdict":"ack","reason":"`)
			filling := strings.Repeat("x", 1<<20)
			for range maxVerdict >> 20 {
				if _, err := io.WriteString(w, filling); err != nil {
					return
				}
			}
			_, _ = io.WriteString(w, `"}`)
		})
		if err := h.Handle(t.Context(), delivery()); err == nil || !strings.Contains(err.Error(), "more than 32 MiB") {
			t.Errorf("length known: %v: %v", known, err)
		}
	}
}

func TestAManyTimesEmittedNothing(t *testing.T) {
	h := hook(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", ContentVerdict)
		_, _ = io.WriteString(w, `{"verdict":"ack","emit":[`+strings.Repeat("{},", 50_000)+`{}]}`)
	})
	d := delivery()
	if err := h.Handle(t.Context(), d); err != nil || len(d.Emitted()) != 10_001 {
		t.Errorf("it emits %d, %v; want one too many", len(d.Emitted()), err)
	}
}

// TestAReplyHasItsTimeToTheEnd, not only to its first byte.
func TestAReplyHasItsTimeToTheEnd(t *testing.T) {
	h := hook(t, Config{Timeout: 50 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", ContentVerdict)
		_, _ = io.WriteString(w, `{"verdict":"ack"`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	err := h.Handle(t.Context(), delivery())
	if policy.FactsOf(err) != policy.Timeout || !strings.Contains(err.Error(), "no reply within 50ms") {
		t.Errorf("it ends with %v", err)
	}
}

// TestAVerdictIsNotOverlooked, however its type is written: it would be an ack.
func TestAVerdictIsNotOverlooked(t *testing.T) {
	for _, types := range [][]string{
		{ContentVerdict}, {strings.ToUpper(ContentVerdict)}, {ContentVerdict + " ; charset"}, {ContentVerdict + ";;"},
		{ContentVerdict + "; charset=utf-8; charset=UTF-8"}, {ContentVerdict + `; a="b`}, {"text/html", ContentVerdict},
	} {
		h := hook(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = types
			_, _ = io.WriteString(w, `{"verdict":"retry","reason":"not yet"}`)
		})
		if err := h.Handle(t.Context(), delivery()); err == nil || err.Error() != "not yet" {
			t.Errorf("%q: %v", types, err)
		}
	}
}

// TestNew: what no request can be made of is refused at once, not with each delivery, and without its password.
func TestNew(t *testing.T) {
	for _, c := range []Config{{}, {URL: "example.com/hooks"}, {URL: "ftp://u:secret@example.com/"}, {URL: "http://"},
		{URL: "http://:80/"}, {URL: "/hooks"}, {URL: "http://u:secret%zz@h/"}, {URL: "http://h/", Method: "PO ST"}} {
		if _, err := New(c); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestWhatTheMachineLacks is no failure of a message: it is given back.
func TestWhatTheMachineLacks(t *testing.T) {
	for _, why := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		h, err := New(Config{URL: "http://127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		h.client.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", why)}
		}
		err = h.Handle(t.Context(), delivery())
		r, ok := errors.AsType[*pawl.ReleaseError](err)
		if !ok || r.After != leastPause || !strings.Contains(r.Reason, why.Error()) {
			t.Errorf("%v: %#v", why, err)
		}
	}
}

// TestAConnectionThatIsNotMadeInTime is not taken for a reply that is late: it has a time of its own.
func TestAConnectionThatIsNotMadeInTime(t *testing.T) {
	for _, timeout := range []time.Duration{0, time.Minute} {
		h, err := New(Config{URL: "http://127.0.0.1:1", Timeout: timeout})
		if err != nil {
			t.Fatal(err)
		}
		h.client.Transport.(*http.Transport).DialContext = (&net.Dialer{Timeout: time.Nanosecond}).DialContext
		err = h.Handle(t.Context(), delivery())
		if policy.FactsOf(err)&policy.Connect == 0 || !strings.Contains(err.Error(), "dial tcp 127.0.0.1:1") {
			t.Errorf("with a timeout of %v: %v, %v", timeout, err, policy.FactsOf(err))
		}
	}
}

// TestABodyThatDoesNotEnd: the status is the verdict, however long the rest takes, and what came of it is the reason.
func TestABodyThatDoesNotEnd(t *testing.T) {
	for status, want := range map[int]string{200: "", 400: "400 Bad Request: no such room"} {
		for _, timeout := range []time.Duration{400 * time.Millisecond, time.Minute} {
			h := hook(t, Config{Timeout: timeout}, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(status)
				_, _ = io.WriteString(w, "no such room")
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			})
			began := time.Now()
			err := h.Handle(t.Context(), delivery())
			if took := time.Since(began); took > min(timeout*3/4, 10*time.Second) {
				t.Errorf("%d within %v: it took %v", status, timeout, took)
			}
			if got := fmt.Sprint(err); got != want && (want != "" || err != nil) {
				t.Errorf("%d within %v: %s", status, timeout, got)
			}
		}
	}
}
