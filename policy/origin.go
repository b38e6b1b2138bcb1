package policy

import "cmp"

// BuiltIn is the origin of what no override changed.
const BuiltIn = "built in"

// Origins says where the parts of a rule come from: the Origin of the override
// that says it, or that of the rule which the override was laid over.
type Origins struct {
	Repeat      string
	Backoff     string
	MaxAttempts string
	DeadLetter  string
	Alert       string
	Degrade     string
	Condition   string // If, Unless and Pass
}

// origins are those of r, with all parts stated.
func (r *Rule) origins() Origins {
	if r.Origins != (Origins{}) {
		return r.Origins
	}
	from := cmp.Or(r.Origin, BuiltIn)
	return Origins{from, from, from, from, from, from, from}
}

// origins are those of the changed rule: of the baseline, but for what the
// override states, and for what this takes along. Where nothing is repeated any
// more, backoff, attempts and conditions went with the repetition.
func (c *change) origins() Origins {
	from := c.b.origins()
	mine := func(part *string, changed bool) {
		if changed {
			*part = c.r.Origin
		}
	}
	repeats := c.r.Repeat == Repeated
	stopped := !repeats && c.b.Repeat == Repeated
	mine(&from.Repeat, c.o.Repeat != nil || stopped)
	mine(&from.Backoff, stopped || repeats && len(c.o.Backoff.fields()) > 0)
	mine(&from.MaxAttempts, stopped || repeats && c.o.MaxAttempts != nil)
	mine(&from.DeadLetter, c.o.DeadLetter != nil)
	mine(&from.Alert, c.o.Alert != nil)
	mine(&from.Condition, c.r.If != c.b.If || c.r.Unless != c.b.Unless || c.r.Pass != c.b.Pass)
	return from
}
