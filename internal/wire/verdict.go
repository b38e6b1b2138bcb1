package wire

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
)

// The verdicts of a worker.
const (
	Ack     = "ack"
	Retry   = "retry"
	Dead    = "dead"
	Release = "release"
)

var verdicts = []string{Ack, Retry, Dead, Release}

// Verdict is what a worker answers about a delivery.
type Verdict struct {
	ID, Token string
	Verdict   string // one of the four
	Reason    string
	Kind      string
	Class     string            // of a retry: transient or throttled
	Attrs     map[string]string // facts of a failure
	Unknown   string            // a member that neither a verdict nor a delivery has; empty: there is none
	After     time.Duration     // before a retry, after a release
	Hold      time.Duration     // after an ack
	Emit      []Draft
	Output    []byte // JSON of any kind, for the caller
}

// reading is a verdict that is being read.
type reading struct {
	*Verdict
	stated bool // it has the member verdict
	echo   bool // it has members that only a delivery has
}

// Members are the members of a verdict.
const Members = "id, token, verdict, reason, kind, class, attrs, after_seconds, hold_seconds, emit, output"

// maxEmits is what one settlement may emit, store.MaxEmit. Of more, one too many is kept, so that
// the settlement is refused and a short line does not become a long list.
const maxEmits = 10_000

// maxFacts bounds the facts that are read; of these, [pawl.MaxAttrs] are kept.
const maxFacts = 1000

// ErrStray is the error of a line that does not begin like a verdict: something that a program printed.
var ErrStray = errors.New("not a verdict")

// ParseVerdict reads one verdict; v keeps no part of line. Fields of a delivery are passed
// over, so that a worker may answer with the delivery it got and a verdict added. With an
// error, v has id and token where they could be read, so that the error can be laid to a
// delivery. What was not meant as a verdict is an [ErrStray].
func ParseVerdict(line []byte) (v Verdict, err error) {
	r := reading{Verdict: &v}
	if err := r.parse(line); err != nil {
		if !r.meant() && !almost(line) {
			return v, fmt.Errorf("%w: %w", ErrStray, err)
		}
		return v, err
	}
	switch {
	case !r.meant():
		return v, fmt.Errorf("%w: %w", ErrStray, v.check())
	case v.ID == "" && v.Token == "":
		return v, whole(`"id" and "token" are missing; repeat those of the delivery`)
	case v.ID == "":
		return v, whole(`"id" is missing; repeat the one of the delivery`)
	case v.Token == "":
		return v, whole(`"token" is missing; repeat the one of the delivery`)
	}
	return v, v.check()
}

// How members look in what is not JSON, as that which Python prints of an object.
var (
	ofFour   = regexp.MustCompile(`verdict['"]?\s*:\s*(?:$|['"]?(?:ack|retry|dead|release)\b)`)
	stated   = regexp.MustCompile(`verdict['"]?\s*:`)
	hasToken = regexp.MustCompile(`token['"]?\s*:`)
	echoed   = regexp.MustCompile(`(?:topic|attempt|deadline)['"]?\s*:`)
)

// almost reports whether a line that is not JSON was meant as a verdict. A delivery that a program prints has a token,
// too, and may have anything in its body.
func almost(line []byte) bool {
	return bytes.HasPrefix(line, []byte("{")) && (ofFour.Match(line) ||
		stated.Match(line) && hasToken.Match(line) && !echoed.Match(line))
}

// meant reports whether what was read of a line is part of a verdict. A delivery that a program
// prints has id and token, too, and a record of its log may have a verdict of another kind.
func (r *reading) meant() bool {
	return r.stated && (r.ID != "" || r.Token != "" || slices.Contains(verdicts, r.Verdict.Verdict)) ||
		r.ID != "" && r.Token != "" && !r.echo
}

// ParseReply reads a verdict where it is known which delivery it is about: id and
// token may be missing.
func ParseReply(text []byte) (v Verdict, err error) {
	if err := (&reading{Verdict: &v}).parse(text); err != nil {
		return v, err
	}
	return v, v.check()
}

func (r *reading) parse(line []byte) error {
	s := scan(line)
	s.fields(func(name []byte, _ int) { s.verdictValue(string(name), r) })
	return s.end()
}

// throttled is the kind of a retry that does not count as an attempt: the downstream of the program asks to
// be left alone.
const throttled = "RateLimit"

// Settle applies the verdict to d and returns the result of the handler; kind is the
// kind of failures that state none.
func (v *Verdict) Settle(d *pawl.Delivery, kind pawl.Kind) error {
	reason := cmp.Or(v.Reason, "the program's verdict is "+v.Verdict)
	fail := pawl.WithAttrs(pawl.OfKind(cmp.Or(pawl.Kind(v.Kind), kind), errors.New(reason)), v.Attrs)
	d.Hold(v.Hold)
	switch v.Verdict {
	case Retry:
		switch {
		case v.Class == pawl.ClassThrottled.String(), v.Class == "" && v.Kind == throttled && v.After > 0:
			return pawl.Throttled(fail, v.After)
		case v.After == 0:
			return fail
		}
		return pawl.NotBefore(fail, v.After)
	case Dead:
		return pawl.Permanent(fail)
	case Release:
		return pawl.Release(v.After, reason)
	}
	now := time.Now()
	for i := range v.Emit {
		d.Emit(v.Emit[i].At(now))
	}
	return nil
}

func (s *scanner) verdictValue(name string, v *reading) {
	v.stated = v.stated || name == "verdict"
	if s.null() {
		return
	}
	switch name {
	case "id":
		v.ID = string(s.text())
	case "token":
		v.Token = string(s.text())
	case "verdict":
		v.Verdict.Verdict = string(s.text())
	case "reason":
		v.Reason = string(s.text())
	case "kind":
		v.Kind = string(s.text())
	case "class":
		v.Class = string(s.text())
	case "attrs":
		v.Attrs = s.attrs()
	case "after_seconds":
		v.After = s.pause()
	case "hold_seconds":
		v.Hold = s.pause()
	case "emit":
		s.emitted = true
		s.items(func() {
			var d Draft
			if s.draft(&d); s.err == nil && len(v.Emit) <= maxEmits {
				v.Emit = append(v.Emit, d)
			}
		})
	case "output":
		v.Output = bytes.Clone(s.skip())
	case "topic", "key", "key_base64", "attempt", "last_attempt", "deadline", "headers", "log", "body", "body_base64":
		v.echo = true
		s.skip()
	default:
		if v.Unknown == "" {
			v.Unknown = quoted(name)
		}
		s.skip()
	}
}

// attrs reads facts of a failure. One that is not a text is kept as it is written, a null
// is left out.
func (s *scanner) attrs() map[string]string {
	attrs := map[string]string{}
	s.fields(func(name []byte, _ int) {
		key := string(name)
		switch c := s.peek(); {
		case s.null():
		case c == '"':
			attrs[key] = string(s.text())
		case c == '{' || c == '[':
			s.unexpected("a text, a number, true or false as a fact")
		default:
			attrs[key] = string(s.skip())
		}
		if len(attrs) > maxFacts {
			s.fail(s.pos, "more than %d facts", maxFacts)
		}
	})
	return attrs
}

// check finds what contradicts itself.
func (v *Verdict) check() error {
	switch {
	case !slices.Contains(verdicts, v.Verdict):
		return whole("verdict is " + quoted(v.Verdict) + "; it is ack, retry, dead or release")
	case v.Verdict != Ack && len(v.Emit) > 0:
		return whole("emit goes with ack, not with " + v.Verdict)
	case len(v.Attrs) > 0 && v.Verdict != Retry && v.Verdict != Dead:
		return whole("attrs goes with retry and dead, not with " + v.Verdict)
	case !slices.Contains(classes[v.Verdict], v.Class):
		return whole("class is " + quoted(v.Class) + "; with retry it is transient or throttled, with dead permanent")
	case v.After > 0 && (v.Verdict == Ack || v.Verdict == Dead):
		return whole("after_seconds goes with retry and release, not with " + v.Verdict)
	}
	return nil
}

// classes are those that go with a verdict.
var classes = map[string][]string{
	Ack: {""}, Release: {""}, Dead: {"", pawl.ClassPermanent.String()},
	Retry: {"", pawl.ClassTransient.String(), pawl.ClassThrottled.String()},
}

func whole(why string) error { return &Error{Why: why} }

func quoted(s string) string {
	if s == "" {
		return "missing"
	}
	return string(AppendText(nil, s[:min(len(s), 40)]))
}
