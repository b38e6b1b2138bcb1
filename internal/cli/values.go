package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// duration is a flag: 90s, 5m, 1h30m, 2d.
type duration time.Duration

func (d *duration) String() string {
	if *d == 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Set implements pflag.Value.
func (d *duration) Set(s string) error {
	v, err := parseDuration(s)
	*d = duration(v)
	return err
}

// Type implements pflag.Value.
func (d *duration) Type() string { return "duration" }

// parseDuration reads Go's durations and those in days.
func parseDuration(s string) (time.Duration, error) {
	v, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n float64
		n, err = strconv.ParseFloat(days, 64)
		v = time.Duration(n * 24 * float64(time.Hour))
		if n > pawl.MaxDelay.Hours()/24 {
			err = strconv.ErrRange
		}
	}
	if err != nil || v < 0 {
		return 0, fmt.Errorf("%q is no duration such as 500ms, 90s, 5m, 1h30m or 2d", s)
	}
	return v, nil
}

// point is a flag: a point in time, or how long ago it was.
type point struct {
	time.Time
	text string
	back bool // a duration counts backwards
}

func (p *point) String() string { return p.text }

// Set implements pflag.Value.
func (p *point) Set(s string) (err error) {
	p.text = s
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02"} {
		if p.Time, err = time.ParseInLocation(layout, s, time.Local); err == nil {
			return nil
		}
	}
	if d, err := parseDuration(s); p.back && err == nil {
		p.Time = time.Now().Add(-d)
		return nil
	}
	if p.back {
		return fmt.Errorf("%q is neither a time such as 2026-01-31T12:00:00Z nor how long ago, such as 2h", s)
	}
	return fmt.Errorf("%q is no time such as 2026-01-31T12:00:00Z", s)
}

// Type implements pflag.Value.
func (p *point) Type() string { return "time" }

// rate is a flag: 100/s, 30/m, 10/5s, or a number a second.
type rate struct {
	perSecond float64
	text      string
}

func (r *rate) String() string { return r.text }

// Set implements pflag.Value.
func (r *rate) Set(s string) error {
	r.text = s
	count, per, ok := strings.Cut(s, "/")
	n, err := strconv.ParseFloat(count, 64)
	span := time.Second
	if ok && err == nil {
		if len(per) > 0 && (per[0] < '0' || per[0] > '9') {
			per = "1" + per
		}
		span, err = parseDuration(per)
	}
	if err != nil || !(n > 0) || n > 1e9 || span <= 0 {
		return fmt.Errorf("%q is no rate such as 100/s, 30/m or 10/5s", s)
	}
	r.perSecond = n / span.Seconds()
	return nil
}

// Type implements pflag.Value.
func (r *rate) Type() string { return "rate" }
