package demo

import (
	"net/http"
	"testing"
	"time"
)

func TestRetryAfterIsBounded(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": time.Second, "soon": time.Second, "0": 0, "7": 7 * time.Second, "-5": 0, "3601": time.Hour,
		"86400000":   time.Hour,
		"9223372037": time.Hour, "9223372036854775807": time.Hour, "99999999999999999999": time.Hour,
		"-99999999999999999999":         0,
		"Fri, 31 Dec 9999 23:59:59 GMT": time.Hour, "Sat, 01 Jan 2000 00:00:00 GMT": 0,
	} {
		if got := retryAfter(&http.Response{Header: http.Header{"Retry-After": {text}}}); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}
}
