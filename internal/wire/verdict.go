package wire

import (
	"bytes"
	"cmp"
	"errors"
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

// Verdict is what a worker answers about a delivery.
type Verdict struct {
	ID, Token string
	Verdict   string // one of the four
	Reason    string
	Kind      string
	After     time.Duration // before a retry, after a release
	Hold      time.Duration // after an ack
	Emit      []Draft
	Output    []byte // JSON of any kind, for the caller
}

// maxEmits is what one settlement may emit, store.MaxEmit. Of more, one too many is kept, so that
// the settlement is refused and a short line does not become a long list.
const maxEmits = 10_000

// ParseVerdict reads one verdict; v keeps no part of line. Fields that are not
// of a verdict are passed over, so that a worker may answer with the delivery it
// got and a verdict added. With an error, v has the id where it could be read, so
// that the error can be laid to a delivery.
func ParseVerdict(line []byte) (v Verdict, err error) {
	if err := v.parse(line); err != nil {
		return v, err
	}
	switch {
	case v.ID == "" && v.Token == "":
		return v, whole(`"id" and "token" are missing; repeat those of the delivery`)
	case v.ID == "":
		return v, whole(`"id" is missing; repeat the one of the delivery`)
	case v.Token == "":
		return v, whole(`"token" is missing; repeat the one of the delivery`)
	}
	return v, v.check()
}

// ParseReply reads a verdict where it is known which delivery it is about: id and
// token may be missing.
func ParseReply(text []byte) (v Verdict, err error) {
	if err := v.parse(text); err != nil {
		return v, err
	}
	return v, v.check()
}

func (v *Verdict) parse(line []byte) error {
	s := scanner{data: line}
	s.fields(func(name []byte, _ int) { s.verdictValue(string(name), v) })
	s.end()
	if s.err != nil {
		return s.err
	}
	return nil
}

// throttled is the kind of a retry that does not count as an attempt: the downstream of the program asks to
// be left alone.
const throttled = "RateLimit"

// Settle applies the verdict to d and returns the result of the handler; kind is the
// kind of failures that state none.
func (v *Verdict) Settle(d *pawl.Delivery, kind pawl.Kind) error {
	reason := cmp.Or(v.Reason, "the program's verdict is "+v.Verdict)
	fail := pawl.OfKind(cmp.Or(pawl.Kind(v.Kind), kind), errors.New(reason))
	d.Hold(v.Hold)
	switch v.Verdict {
	case Retry:
		switch {
		case v.After == 0:
			return fail
		case v.Kind == throttled:
			return pawl.Throttled(fail, v.After)
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

func (s *scanner) verdictValue(name string, v *Verdict) {
	if s.null() {
		return
	}
	switch name {
	case "id":
		v.ID = string(s.text())
	case "token":
		v.Token = string(s.text())
	case "verdict":
		v.Verdict = string(s.text())
	case "reason":
		v.Reason = string(s.text())
	case "kind":
		v.Kind = string(s.text())
	case "after_seconds":
		v.After = s.seconds()
	case "hold_seconds":
		v.Hold = s.seconds()
	case "emit":
		s.items(func() {
			var d Draft
			if s.draft(&d); s.err == nil && len(v.Emit) <= maxEmits {
				v.Emit = append(v.Emit, d)
			}
		})
	case "output":
		from := s.pos
		s.skip()
		v.Output = bytes.Clone(s.data[from:s.pos])
	default:
		s.skip()
	}
}

// check finds what contradicts itself.
func (v *Verdict) check() error {
	switch {
	case !slices.Contains([]string{Ack, Retry, Dead, Release}, v.Verdict):
		return whole("verdict is " + quoted(v.Verdict) + "; it is ack, retry, dead or release")
	case v.Verdict != Ack && len(v.Emit) > 0:
		return whole("emit goes with ack, not with " + v.Verdict)
	case v.After > 0 && (v.Verdict == Ack || v.Verdict == Dead):
		return whole("after_seconds goes with retry and release, not with " + v.Verdict)
	}
	return nil
}

func whole(why string) error { return &Error{Why: why} }

func quoted(s string) string {
	if s == "" {
		return "missing"
	}
	return string(AppendText(nil, s[:min(len(s), 40)]))
}
