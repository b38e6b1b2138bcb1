package http

import (
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/retryafter"
)

// leastPause is how long a delivery rests that a service gave back, lest it is
// sent again and again for nothing.
const leastPause = time.Second

// verdict reads a reply. What said is becomes the reason.
func verdict(reply *http.Response, said []byte) error {
	status := reply.StatusCode
	if status/100 == 2 {
		return nil
	}
	reason := reply.Status
	if text := readable(said); text != "" {
		reason += ": " + text
	}
	err := errors.New(reason)
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if after, ok := retryafter.Of(reply.Header); ok {
			return pawl.Throttled(pawl.Release(max(after, leastPause), reason), after)
		}
		if status == http.StatusTooManyRequests {
			return pawl.Throttled(pawl.OfKind(policy.KindRateLimit, err), 0)
		}
		err = policy.With(err, policy.Shortage)
	case http.StatusRequestTimeout:
		return policy.With(pawl.OfKind(policy.KindService, err), policy.Timeout)
	case http.StatusTooEarly:
	case http.StatusConflict:
		return policy.With(pawl.OfKind(policy.KindRejected, err), policy.Conflict)
	default:
		if status/100 == 4 {
			return policy.With(pawl.OfKind(policy.KindRejected, err), policy.BadInput)
		}
		if status/100 == 3 {
			err = errors.New(reason + " (redirects are not followed)")
		}
	}
	return pawl.OfKind(policy.KindService, err)
}

// readable is what a reply says, if it is text.
func readable(b []byte) string {
	for i := 0; i < utf8.UTFMax && len(b) > 0 && !utf8.Valid(b); i++ {
		b = b[:len(b)-1] // it may have been cut within a character
	}
	if !utf8.Valid(b) {
		return ""
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r != '\n' && unicode.IsControl(r) {
			return ' '
		}
		return r
	}, string(b)))
}
