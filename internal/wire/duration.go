package wire

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
)

// Durations is the form of what [ParseDuration] takes, as a regular expression.
const Durations = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h|d))+$`

var (
	durations = regexp.MustCompile(`^-?0$|^-?` + Durations[1:])
	parts     = regexp.MustCompile(`([0-9.]+)([^0-9.]+)`)
)

// units of a duration, in nanoseconds.
var units = map[string]float64{"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9, "d": 86400e9}

// ParseDuration reads a duration as flags, files, queries and forms have it: 500ms, 90s, 5m, 1h30m, 2d, up to
// [pawl.MaxDelay]. A negative one is refused and returned all the same, for those that take it for 0.
func ParseDuration(s string) (time.Duration, error) {
	if !durations.MatchString(s) {
		return 0, fmt.Errorf("%q is not a duration such as 500ms, 90s, 5m, 1h30m or 2d", s)
	}
	var sum float64 // a float64 has all nanoseconds of 104 days
	for _, part := range parts.FindAllStringSubmatch(s, -1) {
		n, _ := strconv.ParseFloat(part[1], 64) // out of range, it is infinite
		sum += n * units[part[2]]
	}
	if sum > float64(pawl.MaxDelay) {
		return 0, fmt.Errorf("%q is too long: more than ten years", s)
	}
	d := time.Duration(math.Round(sum))
	if s[0] == '-' && d > 0 {
		return -d, fmt.Errorf("%q is negative", s)
	}
	return d, nil
}
