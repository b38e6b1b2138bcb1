// Package flag has the values of flags that pflag has no type for.
package flag

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/commands"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/wire"
)

// Duration is a flag: 90s, 5m, 1h30m, 2d.
type Duration time.Duration

func (d *Duration) String() string {
	if *d <= 0 {
		return ""
	}
	return time.Duration(*d).String()
}

// Set implements pflag.Value.
func (d *Duration) Set(s string) error {
	v, err := wire.ParseDuration(s)
	*d = Duration(v)
	return err
}

// Delay is a flag: a duration from now. Where it is negative, its time has passed, which is now.
type Delay struct{ Duration }

// Set implements pflag.Value.
func (d *Delay) Set(s string) error {
	err := d.Duration.Set(s)
	if d.Duration < 0 {
		d.Duration, err = 0, nil
	}
	return err
}

// Type implements pflag.Value.
func (d *Duration) Type() string { return "duration" }

// Point is a flag: a point in time, or how long ago it was.
type Point struct {
	time.Time
	Text string
	Back bool // a duration counts backwards
}

func (p *Point) String() string { return p.Text }

// Set implements pflag.Value.
func (p *Point) Set(s string) (err error) {
	p.Text = s
	var ok bool
	if p.Time, ok = commands.ParseTime(s); ok {
		return nil
	}
	if d, err := wire.ParseDuration(s); p.Back && err == nil {
		p.Time = time.Now().Add(-d)
		return nil
	}
	if p.Back {
		return fmt.Errorf("%q is neither a time such as 2026-01-31T12:00:00Z nor how long ago, such as 2h", s)
	}
	return fmt.Errorf("%q is not a time such as 2026-01-31T12:00:00Z", s)
}

// Type implements pflag.Value.
func (p *Point) Type() string { return "time" }

// Facts is a flag: NAME=VALUE, as often as need be.
type Facts map[string]string

func (f *Facts) String() string { return "" }

// Set implements pflag.Value.
func (f *Facts) Set(s string) error {
	name, value, ok := strings.Cut(s, "=")
	if !ok || name == "" {
		return errors.New("it is not NAME=VALUE, such as status=404")
	}
	if *f == nil {
		*f = Facts{}
	}
	(*f)[name] = value
	return nil
}

// Type implements pflag.Value.
func (f *Facts) Type() string { return "facts" }

// Rate is a flag: 100/s, 30/m, 10/5s, or a number a second.
type Rate struct {
	PerSecond float64
	Text      string
}

func (r *Rate) String() string { return r.Text }

// Set implements pflag.Value.
func (r *Rate) Set(s string) error {
	perSecond, err := config.ParseRate(s)
	r.Text, r.PerSecond = s, perSecond
	return err
}

// Type implements pflag.Value.
func (r *Rate) Type() string { return "rate" }
