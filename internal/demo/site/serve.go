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
// faults of the page as a GET does. What cannot be written is not reported:
// the client that would care is gone.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == healthPath {
		w.Header().Set("Content-Type", typeText)
		io.WriteString(w, "ok\n")
		return
	}
	reply := s.begin(w)
	defer reply.end()
	p := s.byPath[r.URL.Path]
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		reply.notice(http.StatusMethodNotAllowed, &s.tally.Refused)
	case r.URL.Path == robotsPath:
		s.robots.Add(1)
		reply.send(r, &s.tally.Good, typeText, []byte(robotsText))
	case p != nil:
		reply.page(r, p)
	case s.byPath[strings.TrimSuffix(r.URL.Path, "/")] != nil:
		reply.outcome = &s.tally.Refused
		http.Redirect(reply, r, strings.TrimSuffix(r.URL.Path, "/"), http.StatusMovedPermanently)
	default:
		reply.notice(http.StatusNotFound, &s.tally.NotFound)
	}
}

// page answers with a page, or with the fault that is due.
func (w *reply) page(r *http.Request, p *page) {
	n := p.requests.Add(1)
	if p.failing {
		w.notice(http.StatusInternalServerError, &w.site.tally.Failing)
		return
	}
	if p.broken {
		w.send(r, &w.site.tally.Broken, typeHTML, brokenBody(p))
		return
	}
	var fault Fault
	if int64(n) <= int64(len(p.plan)) {
		fault = p.plan[n-1]
	}
	body := w.site.body(p)
	switch fault {
	case FaultThrottled:
		w.Header().Set("Retry-After", "1")
		w.notice(http.StatusTooManyRequests, &w.site.tally.Throttled)
	case FaultThrottledBy:
		// The format has no fractions: the second after the next one is at
		// least one second ahead.
		by := time.Now().Add(2 * time.Second).UTC().Format(http.TimeFormat)
		w.Header().Set("Retry-After", by)
		w.notice(http.StatusTooManyRequests, &w.site.tally.Throttled)
	case FaultUnavailable:
		w.notice(http.StatusServiceUnavailable, &w.site.tally.Errors)
	case FaultInternal:
		w.notice(http.StatusInternalServerError, &w.site.tally.Errors)
	case FaultReset:
		w.outcome = &w.site.tally.Resets
		w.head(body)
		w.reset(r, body[:len(body)/2])
	case FaultTruncated:
		w.outcome = &w.site.tally.Truncated
		w.head(body)
		// The server closes the connection after an answer that is too short.
		_, _ = w.Write(body[:len(body)/2])
	case FaultSlow:
		w.outcome = &w.site.tally.Slow
		if wait(r.Context(), p.delay) {
			w.send(r, &w.site.tally.Slow, typeHTML, body)
		}
	default:
		w.send(r, &w.site.tally.Good, typeHTML, body)
	}
}

// send answers with a body and its ETag, or with 304 when the client has it.
func (w *reply) send(r *http.Request, o *int64, contentType string, body []byte) {
	w.outcome = o
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("ETag", etag(body))
	h.Set("Cache-Control", "no-cache")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
}

func etag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

// head begins a good answer of which not all of the body will be sent.
func (w *reply) head(body []byte) {
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
func (w *reply) reset(r *http.Request, part []byte) {
	_, _ = w.Write(part)
	control := http.NewResponseController(w)
	if control.Flush() != nil {
		panic(http.ErrAbortHandler)
	}
	wait(r.Context(), resetAfter)
	conn, _, err := control.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.end()
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
func (w *reply) notice(status int, o *int64) {
	w.outcome = o
	body := noticeBody(status)
	h := w.Header()
	h.Set("Content-Type", typeHTML)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// A reply is the answer to one request on its way out. It counts the request
// as answered just before the last byte leaves: whoever has read an answer to
// its end finds it counted, and whoever then sends the next request at once is
// never taken for two at a time.
type reply struct {
	http.ResponseWriter
	site    *Site
	outcome *int64 // the field of the tally that counts it
	left    int64  // bytes of the body still to come; 0 if not known
	ended   bool
}

// begin counts a request as being answered.
func (s *Site) begin(w http.ResponseWriter) *reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now++
	s.most = max(s.most, s.now)
	return &reply{ResponseWriter: w, site: s, outcome: &s.tally.Good}
}

// end counts the request as answered; only the first call does. An answer of
// which the server still holds the end in its buffers may end by itself.
func (w *reply) end() {
	if w.ended {
		return
	}
	w.ended = true
	w.site.mu.Lock()
	defer w.site.mu.Unlock()
	w.site.tally.Requests++
	*w.outcome++
	w.site.now--
}

// Unwrap lets http.ResponseController reach the connection.
func (w *reply) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *reply) WriteHeader(status int) {
	if status == http.StatusNotModified {
		w.outcome = &w.site.tally.NotModified
	}
	if n, err := strconv.ParseInt(w.Header().Get("Content-Length"), 10, 64); err == nil {
		w.left = n
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *reply) Write(p []byte) (int, error) {
	first := len(p)
	last := w.left > 0 && int64(len(p)) >= w.left
	if last {
		first = int(w.left) - 1
	}
	n, err := w.ResponseWriter.Write(p[:first])
	w.left -= int64(n)
	if !last || err != nil {
		return n, err
	}
	w.end()
	m, err := w.ResponseWriter.Write(p[first:])
	return n + m, err
}
