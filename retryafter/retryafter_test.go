package retryafter

import (
	"net/http"
	"testing"
	"time"
)

func TestOf(t *testing.T) {
	for _, c := range []struct {
		value, date string
		want        time.Duration
		ok          bool
	}{
		{"120", "", 2 * time.Minute, true}, {"0", "", 0, true}, {"99999999999999999999", "", Most, true},
		{" 1.5 ", "", 1500 * time.Millisecond, true}, {"inf", "", Most, true}, {"nan", "", 0, false},
		{"", "", 0, false}, {"soon", "", 0, false}, {"-5", "", 0, false},
		{"Wed, 21 Oct 2026 07:28:30 GMT", "Wed, 21 Oct 2026 07:28:00 GMT", 30 * time.Second, true},
		{"Wed, 21 Oct 2026 07:27:00 GMT", "Wed, 21 Oct 2026 07:28:00 GMT", 0, true},
	} {
		h := http.Header{"Retry-After": {c.value}, "Date": {c.date}}
		if got, ok := Of(h); got != c.want || ok != c.ok {
			t.Errorf("%q at %q: %v, %v", c.value, c.date, got, ok)
		}
	}
}
