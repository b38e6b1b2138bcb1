package policy

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl"
)

// over is the rule that an override makes of its baseline. What is wrong goes to
// bad, field by field. An override that stands for several rows is not exact: a
// row that repeats nothing is left alone by what it says about repetitions.
func (o *Override) over(b *Rule, match Match, exact bool, bad func(field, why string)) Rule {
	c := change{o: o, b: b, r: *b, exact: exact, bad: bad}
	c.r.ID, c.r.Match, c.r.Origin = cmp.Or(match.name(), "default")+"+override", match, cmp.Or(o.Origin, "override")
	c.repeat()
	c.deadLetter()
	if c.repeats() {
		c.attempts()
		c.backoff()
	}
	c.alert()
	c.r.Origins = c.origins()
	return c.r
}

// change is an override on its way over a baseline.
type change struct {
	o     *Override
	b     *Rule
	r     Rule
	exact bool
	bad   func(field, why string)
}

func (c *change) wrong(field, why string, args ...any) { c.bad(field, fmt.Sprintf(why, args...)) }

// weaker reports what would be less strict than the baseline.
func (c *change) weaker(field, why string, args ...any) {
	c.wrong(field, "weaker than rule %q: %s", c.b.ID, fmt.Sprintf(why, args...))
}

func (c *change) repeat() {
	switch to := c.o.Repeat; {
	case to == nil:
	case *to > NotRepeated:
		c.wrong("retry", "there is no such retry: %d", *to)
	case *to == NotRepeated:
		c.stop()
	case c.b.Repeat == NotRepeated:
		c.weaker("retry", "retry on, was off")
	}
}

// stop switches repetitions off, and with them what they depend on.
func (c *change) stop() { c.r.Repeat, c.r.If, c.r.Unless = NotRepeated, 0, 0 }

// severity of dead letters, in order: never, exhausted, always.
var severity = map[DeadLetter]int{Never: 0, WhenExhausted: 1, Always: 2}

func (c *change) deadLetter() {
	switch to := c.o.DeadLetter; {
	case to == nil:
	case *to > Never:
		c.wrong("dead_letter", "there is no such dead-letter setting: %d", *to)
	case severity[*to] < severity[c.b.DeadLetter]:
		c.weaker("dead_letter", "dead letter %v, was %v", *to, c.b.DeadLetter)
	case *to == Always && c.o.Repeat != nil && *c.o.Repeat == Repeated:
		c.wrong("dead_letter", "dead letter %v contradicts a retry; leave one of them out", Always)
	default:
		if c.r.DeadLetter = *to; *to == Always { // of what would pass, too
			c.stop()
			c.r.Pass = 0
		}
	}
}

// repeats reports whether there are repetitions to say anything about.
func (c *change) repeats() bool {
	if c.r.Repeat == Repeated {
		return true
	}
	why := "has no effect: this override retries nothing"
	if c.b.Repeat == NotRepeated {
		if !c.exact {
			return false
		}
		why = fmt.Sprintf("has no effect: rule %q never retries", c.b.ID)
	}
	if c.o.MaxAttempts != nil {
		c.bad("max_attempts", why)
	}
	for _, field := range c.o.Backoff.fields() {
		c.bad(field, why)
	}
	return false
}

func (c *change) attempts() {
	switch to := c.o.MaxAttempts; {
	case to == nil:
	case *to < 1 || *to > MaxAttempts:
		c.wrong("max_attempts", "max attempts %d; it goes from 1 to %d", *to, MaxAttempts)
	case *to > c.b.limit():
		c.weaker("max_attempts", "max attempts %d, was %d", *to, c.b.limit())
	default:
		c.r.MaxAttempts = *to
	}
}

func (c *change) backoff() {
	to := c.o.Backoff
	if to == nil {
		return
	}
	n, sound := c.b.Backoff, true
	wrong := func(field, why string, args ...any) { sound = false; c.wrong(field, why, args...) }
	if to.Shape != nil {
		if n.Shape = *to.Shape; n.Shape > Linear {
			wrong("backoff.shape", "there is no such shape: %d", n.Shape)
		}
	}
	part := func(field string, given, part *time.Duration) {
		if given == nil {
			return
		}
		if *part = *given; *part < 0 || *part > pawl.MaxDelay {
			wrong(field, "%v; it goes from 0 to %v", *part, pawl.MaxDelay)
		}
	}
	part("backoff.base", to.Base, &n.Base)
	part("backoff.max", to.Max, &n.Max)
	if !sound {
		return
	}
	n.shorter(c.b.Backoff, func(field, why string, args ...any) { sound = false; c.weaker(field, why, args...) })
	switch {
	case !sound || n.Base <= n.Max:
	case to.Max == nil:
		wrong("backoff.base", "base %v is more than max %v; raise max, too", n.Base, n.Max)
	default:
		wrong("backoff.max", "max %v is less than base %v", n.Max, n.Base)
	}
	if sound {
		c.r.Backoff = n
	}
}

// fields names the parts that are given.
func (b *BackoffChange) fields() []string {
	if b == nil {
		return nil
	}
	var fields []string
	if b.Shape != nil {
		fields = append(fields, "backoff.shape")
	}
	if b.Base != nil {
		fields = append(fields, "backoff.base")
	}
	if b.Max != nil {
		fields = append(fields, "backoff.max")
	}
	return fields
}

func (c *change) alert() {
	was := cmp.Or(c.b.Alert, Warn)
	switch to := c.o.Alert; {
	case to == nil:
	case *to < Info || *to > Critical:
		c.wrong("alert", "there is no such alert level: %d", *to)
	case *to < was:
		c.weaker("alert", "alert %v, was %v", *to, was)
	default:
		c.r.Alert = *to
	}
}
