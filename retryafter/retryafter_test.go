package retryafter

import (
	"net/http"
	"strings"
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
		{"120|60", "", 2 * time.Minute, true}, {"120, 60", "", 0, false}, {"-0", "", 0, true}, {"-inf", "", 0, false},
		{"1e-12", "", 0, true}, {"1e400", "", 0, false}, {"Wed, 21 Oct 2099 07:28:00 GMT", "", Most, true},
		{"Fri, 31 Dec 9999 23:59:59 GMT", "Thu, 01 Jan 1970 00:00:00 GMT", Most, true},
		{"Wed, 21 Oct 2015 07:28:00 GMT", "soon", 0, true},
		{"Wed, 21 Oct 2026 07:27:00 GMT", "Wed, 21 Oct 2026 07:28:00 GMT", 0, true},
	} {
		h := http.Header{"Retry-After": strings.Split(c.value, "|"), "Date": {c.date}}
		if got, ok := Of(h); got != c.want || ok != c.ok {
			t.Errorf("%q at %q: %v, %v", c.value, c.date, got, ok)
		}
	}
}
