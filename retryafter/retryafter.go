// Package retryafter reads how long a server wants to be left alone.
package retryafter

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Most bounds what a server may ask for: a mistake, such as milliseconds in place of
// seconds, must not close it for years.
const Most = time.Hour

// Of reads the Retry-After of an answer: seconds, or a date, which counts from the date
// that the server says it is. It reports whether there is one that can be read.
func Of(h http.Header) (wait time.Duration, ok bool) {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if s, err := strconv.ParseFloat(text, 64); err == nil && s >= 0 {
		return time.Duration(min(s, Most.Seconds()) * float64(time.Second)), true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(at.Sub(now), 0), Most), true
}
