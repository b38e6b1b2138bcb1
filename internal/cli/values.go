package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/commands"
	"github.com/pawl-dev/pawl/internal/config"
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
	v, err := config.ParseDuration(s)
	*d = duration(v)
	return err
}

// Type implements pflag.Value.
func (d *duration) Type() string { return "duration" }

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
	var ok bool
	if p.Time, ok = commands.ParseTime(s); ok {
		return nil
	}
	if d, err := config.ParseDuration(s); p.back && err == nil {
		p.Time = time.Now().Add(-d)
		return nil
	}
	if p.back {
		return fmt.Errorf("%q is neither a time such as 2026-01-31T12:00:00Z nor how long ago, such as 2h", s)
	}
	return fmt.Errorf("%q is not a time such as 2026-01-31T12:00:00Z", s)
}

// Type implements pflag.Value.
func (p *point) Type() string { return "time" }

// facts is a flag: NAME=VALUE, as often as need be.
type facts map[string]string

func (f *facts) String() string { return "" }

// Set implements pflag.Value.
func (f *facts) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return errors.New("it is not NAME=VALUE, such as status=404")
	}
	if *f == nil {
		*f = facts{}
	}
	(*f)[name] = value
	return nil
}

// Type implements pflag.Value.
func (f *facts) Type() string { return "facts" }

// keyOf is the key of a flag; nil for none.
func keyOf(flag string) []byte {
	if flag == "" {
		return nil
	}
	return []byte(flag)
}

// rate is a flag: 100/s, 30/m, 10/5s, or a number a second.
type rate struct {
	perSecond float64
	text      string
}

func (r *rate) String() string { return r.text }

// Set implements pflag.Value.
func (r *rate) Set(s string) error {
	perSecond, err := config.ParseRate(s)
	r.text, r.perSecond = s, perSecond
	return err
}

// Type implements pflag.Value.
func (r *rate) Type() string { return "rate" }
