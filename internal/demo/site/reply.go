package site

import (
	"net/http"
	"strconv"
)

// A reply is the answer to one request on its way out. It counts the request
// as answered just before the last byte leaves: whoever has read an answer to
// its end finds it counted, and whoever then sends the next request at once is
// never taken for two at a time.
type reply struct {
	http.ResponseWriter
	site    *Site
	outcome outcome
	left    int64 // bytes of the body still to come; 0 if not known
	ended   bool
}

// begin counts a request as being answered.
func (s *Site) begin(w http.ResponseWriter) *reply {
	s.load.enter()
	return &reply{ResponseWriter: w, site: s}
}

// end counts the request as answered; only the first call does. An answer of
// which the server still holds the end in its buffers may end by itself.
func (w *reply) end() {
	if w.ended {
		return
	}
	w.ended = true
	w.site.tally.add(w.outcome)
	w.site.load.leave()
}

// Unwrap lets http.ResponseController reach the connection.
func (w *reply) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *reply) WriteHeader(status int) {
	if status == http.StatusNotModified {
		w.outcome = outcomeNotModified
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
