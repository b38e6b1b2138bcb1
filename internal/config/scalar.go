package config

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/wire"
)

// The rates that a limiter keeps, a second; those of package dispatch.
const (
	LeastRate = 1e-4
	MostRate  = 1e6
)

// ParseRate reads how many a second 100/s, 30/m, 10/5s, or a number a second is.
func ParseRate(s string) (perSecond float64, err error) {
	count, per, ok := strings.Cut(s, "/")
	n, err := strconv.ParseFloat(count, 64)
	span := time.Second
	if ok && err == nil {
		if len(per) > 0 && (per[0] < '0' || per[0] > '9') {
			per = "1" + per
		}
		span, err = wire.ParseDuration(per)
	}
	if err != nil || !(n > 0) || n > 1e9 || span <= 0 {
		return 0, fmt.Errorf("%q is not a rate such as 100/s, 30/m or 10/5s", s)
	}
	return n / span.Seconds(), nil
}

// sizes are the units of [ParseSize], longest first.
var sizes = []struct {
	unit  string
	bytes float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6},
	{"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

// ParseSize reads a number of bytes: 4096, 64KiB, 5MiB, 1.5GB.
func ParseSize(s string) (int64, error) {
	for _, u := range sizes {
		count, ok := strings.CutSuffix(s, u.unit)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(count), 64)
		if err != nil || !(n >= 0) || n*u.bytes > math.MaxInt64/2 {
			break
		}
		return int64(n * u.bytes), nil
	}
	return 0, fmt.Errorf("%q is not a size such as 64KiB, 5MiB or 1GB", s)
}

// parse reads a scalar. shown stands for s in what is said about it.
func (s *shape) parse(value, shown string) (v any, why, hint string) {
	switch s.kind {
	case integer:
		n, err := strconv.ParseInt(value, 0, 64)
		switch {
		case err != nil:
			return nil, fmt.Sprintf("must be a whole number (got %s)", quote(shown)), ""
		case octal.MatchString(value):
			return nil, fmt.Sprintf("must be a whole number without a zero before it (got %s)", shown),
				"010 could mean 10 or 8"
		case n < s.min:
			return nil, fmt.Sprintf("must be at least %d (got %s)", s.min, shown), ""
		case n > s.max:
			return nil, fmt.Sprintf("must be at most %d (got %s)", s.max, shown), ""
		}
		return int(n), "", ""
	case boolean:
		if value != "true" && value != "false" {
			return nil, fmt.Sprintf("must be true or false (got %s)", quote(shown)), ""
		}
		return value == "true", "", ""
	case duration:
		d, err := wire.ParseDuration(value)
		switch {
		case err != nil && d == 0:
			return nil, fmt.Sprintf("must be a duration (got %s)", quote(shown)),
				"such as 500ms, 90s, 5m, 1h30m or 2d, up to ten years"
		case int64(d) < s.min:
			return nil, fmt.Sprintf("must be at least %v (got %s)", time.Duration(s.min), shown), ""
		case int64(d) > s.max:
			return nil, fmt.Sprintf("must be at most %v (got %s)", time.Duration(s.max), shown), ""
		}
		return d, "", ""
	case rate:
		r, err := ParseRate(value)
		if err != nil {
			return nil, fmt.Sprintf("must be a rate (got %s)", quote(shown)), "such as 100/s, 30/m or 10/5s"
		}
		if r < LeastRate || r > MostRate {
			return nil, fmt.Sprintf("must be between one in 10000s and 1000000/s (got %s)", quote(shown)),
				"for no limit leave it out; to begin messages later, send them with a delay"
		}
		return r, "", ""
	case number64:
		n, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsInf(n, 0) || !(n >= 0) {
			return nil, fmt.Sprintf("must be a number that is not negative (got %s)", quote(shown)), ""
		}
		return n, "", ""
	case size:
		n, err := ParseSize(value)
		switch {
		case err != nil:
			return nil, fmt.Sprintf("must be a size (got %s)", quote(shown)),
				"such as 64KiB, 5MiB, 1GB, or a number of bytes"
		case n < s.min || n > s.max:
			return nil, fmt.Sprintf("must be from %d to %d bytes (got %s)", s.min, s.max, shown), ""
		}
		return n, "", ""
	case choice:
		if slices.Contains(s.choices, value) {
			return value, "", ""
		}
		if n := Near(value, s.choices); n != "" {
			hint = "did you mean " + n + "?"
		}
		return nil, fmt.Sprintf("must be %s (got %s)", either(s.choices), quote(shown)), hint
	}
	if s.check != nil {
		if why, hint = s.check(value); why != "" {
			return nil, fmt.Sprintf("%s (got %s)", why, quote(shown)), hint
		}
	}
	return value, "", ""
}

// octal matches what C, and YAML 1.1, read as a number to the base of eight.
var octal = regexp.MustCompile(`^[+-]?0[0-9_]`)

// maxQuoted bounds what is repeated of a value.
const maxQuoted = 60

func quote(s string) string {
	if r := []rune(s); len(r) > maxQuoted {
		s = string(r[:maxQuoted]) + "…"
	}
	return strconv.Quote(s)
}

func either(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
