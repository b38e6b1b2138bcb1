package wire_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/wire"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "-0s": 0, "-0": 0,
		"500ms": 500 * time.Millisecond, "90s": 90 * time.Second, "1.5h": 90 * time.Minute,
		"1h30m": 90 * time.Minute, "2d": 48 * time.Hour, "0.5d": 12 * time.Hour, "1d12h": 36 * time.Hour, "7µs": 7000,
		"2399h59m59.999999999s": 2400*time.Hour - 1, "87660h": pawl.MaxDelay, "007s": 7 * time.Second,
	} {
		if got, err := wire.ParseDuration(text); got != want || err != nil {
			t.Errorf("%s is %v and %v, not %v", text, got, err, want)
		}
	}
	for text, why := range map[string]string{
		"": "is not a duration", "5": "is not a duration", "s": "is not a duration", "5 s": "is not a duration",
		"1.2.3s": "is not",
		"five":   "is not a duration", "infd": "is not", "1e3s": "is not", "--5s": "is not", "2d\n": "is not",
		"0x1p4s":    "is not",
		"87660h1ms": "too long", "99999999h": "too long", "9223372036854775807ns": "too long", "200000d": "too long",
		strings.Repeat("9", 400) + "s": "too long", "-5s": "is negative",
	} {
		got, err := wire.ParseDuration(text)
		if err == nil || !strings.Contains(err.Error(), why) || got > 0 {
			t.Errorf("%s is %v and %v, not %s", text, got, err, why)
		}
	}
	if d, _ := wire.ParseDuration("-1h30m"); d != -90*time.Minute {
		t.Errorf("-1h30m is %v", d)
	}
}
