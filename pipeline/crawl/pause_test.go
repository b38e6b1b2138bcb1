package crawl

import (
	"net/http"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/retryafter"
)

// However a site asks for a pause, it is bounded; where a 429 does not say, the host is left alone for a second.
func TestPausesThatASiteAsksFor(t *testing.T) {
	for after, want := range map[string]time.Duration{"": 0, "0": 0, "-5": 0, "1.5": 1500 * time.Millisecond, "soon": 0,
		"999999999": retryafter.Most, "inf": retryafter.Most, "Wed, 21 Oct 2015 07:28:00 GMT": 0,
		"Wed, 21 Oct 2099 07:28:00 GMT": retryafter.Most} {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			_, read := retryafter.Of(http.Header{"Retry-After": {after}})
			throttled := read || status == http.StatusTooManyRequests
			f := pawl.Describe(refused(&http.Response{StatusCode: status, Header: http.Header{"Retry-After": {after}}}))
			if f.After != want || (f.Class == pawl.ClassThrottled) != throttled {
				t.Errorf("%d, %q: %v after %v, want %v", status, after, f.Class, f.After, want)
			}
		}
	}
}
