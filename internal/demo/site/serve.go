package site

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	robotsPath = "/robots.txt"
	healthPath = "/healthz"

	robotsText = "User-agent: *\nDisallow: " + healthPath + "\n"
	typeHTML   = "text/html; charset=utf-8"
	typeText   = "text/plain; charset=utf-8"
)

// ServeHTTP answers GET and HEAD. A HEAD counts as a request and meets the
// faults of the page as a GET does.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == healthPath {
		w.Header().Set("Content-Type", typeText)
		io.WriteString(w, "ok\n")
		return
	}
	s.load.enter()
	defer s.load.leave()
	p := s.catalogue.byPath[r.URL.Path]
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		s.notice(w, http.StatusMethodNotAllowed, outcomeRefused)
	case r.URL.Path == robotsPath:
		s.robots.Add(1)
		s.send(w, r, outcomeGood, typeText, []byte(robotsText))
	case p != nil:
		s.servePage(w, r, p)
	case s.catalogue.byPath[strings.TrimSuffix(r.URL.Path, "/")] != nil:
		s.tally.add(outcomeRefused)
		http.Redirect(w, r, strings.TrimSuffix(r.URL.Path, "/"), http.StatusMovedPermanently)
	default:
		s.notice(w, http.StatusNotFound, outcomeNotFound)
	}
}

// servePage answers with the page, or with the fault that is due.
func (s *Site) servePage(w http.ResponseWriter, r *http.Request, p *page) {
	n := p.requests.Add(1)
	if p.failing {
		s.notice(w, http.StatusInternalServerError, outcomeFailing)
		return
	}
	if p.broken {
		s.send(w, r, outcomeBroken, typeHTML, brokenBody(p))
		return
	}
	var fault Fault
	if int64(n) <= int64(len(p.plan)) {
		fault = p.plan[n-1]
	}
	if fault.hasBody() {
		body, err := s.body(p)
		if err != nil {
			// The sources changed under the site. It is not a fault of the
			// plan; saying why helps whoever sees it.
			s.tally.add(outcomeRefused)
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		s.sendWith(w, r, p, fault, body)
		return
	}
	s.refuse(w, fault)
}

// hasBody reports whether the answer under the fault begins as a good one.
func (f Fault) hasBody() bool {
	return f == 0 || f == FaultSlow || f == FaultReset || f == FaultTruncated
}

// refuse answers with the status of a fault.
func (s *Site) refuse(w http.ResponseWriter, fault Fault) {
	switch fault {
	case FaultThrottled:
		w.Header().Set("Retry-After", "1")
		s.notice(w, http.StatusTooManyRequests, outcomeThrottled)
	case FaultThrottledBy:
		// The format has no fractions: the second after the next one is at
		// least one second ahead.
		by := time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat)
		w.Header().Set("Retry-After", by)
		s.notice(w, http.StatusTooManyRequests, outcomeThrottled)
	case FaultUnavailable:
		s.notice(w, http.StatusServiceUnavailable, outcomeError)
	default:
		s.notice(w, http.StatusInternalServerError, outcomeError)
	}
}

// sendWith sends a body, late or not all of it where the fault says so.
func (s *Site) sendWith(w http.ResponseWriter, r *http.Request, p *page, fault Fault, body []byte) {
	switch fault {
	case FaultReset:
		s.tally.add(outcomeReset)
		sendHead(w, body)
		reset(w, r, body[:len(body)/2])
	case FaultTruncated:
		s.tally.add(outcomeTruncated)
		sendHead(w, body)
		// The server closes the connection after an answer that is too short.
		w.Write(body[:len(body)/2])
	case FaultSlow:
		if wait(r.Context(), p.delay) {
			s.send(w, r, outcomeSlow, typeHTML, body)
			return
		}
		s.tally.add(outcomeSlow) // nobody is left to be answered
	default:
		s.send(w, r, outcomeGood, typeHTML, body)
	}
}

// send answers with a body and its ETag, or with 304 when the client has it.
func (s *Site) send(w http.ResponseWriter, r *http.Request, o outcome, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("ETag", etag(body))
	h.Set("Cache-Control", "no-cache")
	seen := &statusWriter{ResponseWriter: w}
	http.ServeContent(seen, r, "", time.Time{}, bytes.NewReader(body))
	if seen.status == http.StatusNotModified {
		o = outcomeNotModified
	}
	s.tally.add(o)
}

// statusWriter remembers the status that ServeContent chose.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func etag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// sendHead begins a good answer to which not all of the body will be sent.
func sendHead(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", typeHTML)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Header().Set("ETag", etag(body))
	w.WriteHeader(http.StatusOK)
}

// resetAfter is the time between the first part of a body and the reset. A
// reset may overtake what was sent before it, and a client that has read
// nothing yet may take the connection for an idle one and ask again by itself.
const resetAfter = 20 * time.Millisecond

// reset sends the first part of a body and resets the connection: closed with
// no time to linger, TCP says RST. Where the connection cannot be had, as with
// HTTP/2, aborting the handler has the same effect on the one stream.
func reset(w http.ResponseWriter, r *http.Request, part []byte) {
	w.Write(part)
	control := http.NewResponseController(w)
	if control.Flush() != nil {
		panic(http.ErrAbortHandler)
	}
	wait(r.Context(), resetAfter)
	conn, _, err := control.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(interface{ SetLinger(seconds int) error }); ok {
		_ = tcp.SetLinger(0) // fails only if the client was quicker, and is gone
	}
	conn.Close()
}

// wait sleeps for d; it reports false if the client went away meanwhile.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// notice answers with a status and a short page that says no more than it.
func (s *Site) notice(w http.ResponseWriter, status int, o outcome) {
	s.tally.add(o)
	body := noticeBody(status)
	h := w.Header()
	h.Set("Content-Type", typeHTML)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(body)
}
