package llm

import (
	"net/http"
	"testing"
	"time"
)

// However a provider asks for a pause, it is bounded, and a second where it cannot be read.
func TestPausesThatAProviderAsksFor(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After-Ms", "1500", 1500 * time.Millisecond}, {"Retry-After-Ms", "1e14", maxPause},
		{"Retry-After-Ms", "1e300", maxPause}, {"Retry-After-Ms", "inf", maxPause}, {"Retry-After-Ms", "0", 0},
		{"Retry-After-Ms", "nan", time.Second}, {"Retry-After-Ms", "-1", time.Second},
		{"Retry-After-Ms", "", time.Second},
		{"Retry-After", "999999999", maxPause}, {"Retry-After", "-1", time.Second}, {"Retry-After", "soon", time.Second},
		{"Retry-After", "0", 0}, {"Retry-After", "1.5", 1500 * time.Millisecond}, {"Retry-After", "", time.Second},
		{"Retry-After", "Wed, 21 Oct 2099 07:28:00 GMT", maxPause}, {"Retry-After", "Wed, 21 Oct 2015 07:28:00 GMT", 0},
	} {
		h := http.Header{}
		h.Set(c.name, c.value)
		if got := retryAfter(h); got != c.want {
			t.Errorf("%s %q: %v, want %v", c.name, c.value, got, c.want)
		}
	}
}
