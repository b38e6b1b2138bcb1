package pawl

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Why the context of a handler ended: what context.Cause returns.
var (
	// ErrLeaseLost: the lease ended or was taken over; the delivery cannot be
	// settled any more. Settling with a stale token reports it, too.
	ErrLeaseLost = errors.New("lease lost")
	// ErrDeadline: the topic's hard deadline has passed.
	ErrDeadline = errors.New("deadline passed")
	// ErrDrain: the process is stopping and the time to finish is over. A delivery
	// whose handler returns with this cause is released, not failed.
	ErrDrain = errors.New("draining")
)

// Kind says what sort of thing failed ("Download", "Parser"). Kinds select
// rows of the policy; an application may add its own. Empty is unknown.
type Kind string

// MaxKind is how long a kind may be, in bytes. It is a label of metrics and a column of listings.
const MaxKind = 64

// Bounded returns k as Pawl keeps it: characters that cannot be printed are escaped as in a Go string, and what is
// longer than [MaxKind] bytes is cut. A program in another language may send anything.
func (k Kind) Bounded() Kind {
	plain := func(r rune) bool { return r != utf8.RuneError && strconv.IsPrint(r) }
	s := string(k)
	if len(s) > MaxKind {
		end := MaxKind
		for end > MaxKind-utf8.UTFMax && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		quoted := strconv.QuoteToGraphic(s)
		s = quoted[1 : len(quoted)-1]
	}
	for len(s) > MaxKind {
		_, last := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-last]
	}
	return Kind(s)
}

// Kinds that the runtime itself reports.
const (
	KindDecode   Kind = "Decode"   // a body that is not what the handler reads
	KindPanic    Kind = "Panic"    // the handler panicked
	KindDeadline Kind = "Deadline" // the hard deadline passed
	KindRescue   Kind = "Rescue"   // workers died of it
	KindEmit     Kind = "Emit"     // it emitted something that no store accepts
	KindParked   Kind = "Parked"   // it waited behind a dead letter of its lane
	KindSkipped  Kind = "Skipped"  // it was skipped on request
)

// Class says what a failure means for a repetition.
type Class uint8

// The classes. The zero value is the right guess about an unknown error.
const (
	ClassTransient Class = iota // may succeed when repeated; attempts are bounded
	ClassPermanent              // no repetition will help
	ClassThrottled              // the other side asked us to come back later
)

// String returns the class's name: transient, permanent or throttled.
func (c Class) String() string {
	if c > ClassThrottled {
		c = ClassTransient
	}
	return [...]string{"transient", "permanent", "throttled"}[c]
}

// Failure is an error with the facts that the policy decides by. Failures may be
// wrapped in each other: for each fact, the outermost one that states it counts.
type Failure struct {
	Err   error
	Class Class
	Kind  Kind
	After time.Duration // throttled: when to come back; transient: not before; at most [MaxPause]
	// Attrs are facts of the failure, by name, kept with the attempt and the dead
	// letter: an HTTP status, a host, an error code. See [WithAttrs].
	Attrs map[string]string
}

func (f *Failure) Error() string {
	if f.Err == nil { // made by hand
		return strings.TrimSpace(fmt.Sprintf("%v failure %s", f.Class, f.Kind.Bounded()))
	}
	return f.Err.Error()
}

// Unwrap returns the error that f describes.
func (f *Failure) Unwrap() error { return f.Err }

// Permanent marks an error that no repetition will cure. Permanent(nil) is nil.
func Permanent(err error) error {
	return failure(err, Failure{Class: ClassPermanent})
}

// Throttled marks an error by which the other side asked us to come back after
// that long (HTTP 429 with Retry-After), at most [MaxPause]: a server that means milliseconds, or a far date, must not
// put work off for years. Throttled(nil, …) is nil.
func Throttled(err error, after time.Duration) error {
	return failure(err, Failure{Class: ClassThrottled, After: after})
}

// OfKind names the kind of an error. OfKind(…, nil) is nil.
func OfKind(kind Kind, err error) error {
	return failure(err, Failure{Kind: kind})
}

// Limits of the facts of a failure. What is beyond them is cut off when the failure
// is recorded: a long value at its end, of too many the last by name.
const (
	MaxAttrs     = 16  // facts of a failure
	MaxAttrName  = 64  // bytes of a name; a longer one is left out
	MaxAttrValue = 256 // bytes of a value
)

// NotBefore says that a failed delivery must not be retried before that long has passed, at most [MaxPause]. It is a
// failed attempt like any other. NotBefore(nil, …) is nil.
func NotBefore(err error, wait time.Duration) error { return failure(err, Failure{After: wait}) }

// WithAttrs states facts about an error, in words that dead letters are selected
// and grouped by (pawl dead ls --attr status=404, --group-by attr:status). Use few
// names, with values of which there are few. WithAttrs(nil, …) is nil.
func WithAttrs(err error, attrs map[string]string) error {
	return failure(err, Failure{Attrs: attrs})
}

func failure(err error, f Failure) error {
	if err == nil {
		return nil
	}
	f.Err = err
	return &f
}

// Describe gathers what the chain of err says: class, kind, delay and each of the
// facts, from the outermost failure that states it. A nil error gives the zero
// Failure.
func Describe(err error) Failure {
	d := Failure{Err: err}
	for e := err; e != nil; {
		f, ok := errors.AsType[*Failure](e)
		if !ok {
			break
		}
		if d.Class == ClassTransient {
			d.Class = f.Class
			if f.After > 0 {
				d.After = min(f.After, MaxPause)
			}
		}
		if d.Kind == "" {
			d.Kind = f.Kind.Bounded()
		}
		for name, value := range f.Attrs {
			if _, stated := d.Attrs[name]; stated {
				continue
			}
			if d.Attrs == nil {
				d.Attrs = map[string]string{}
			}
			d.Attrs[name] = value
		}
		e = f.Err
	}
	return d
}

// ReleaseError gives a delivery back without counting an attempt. See [Release].
type ReleaseError struct {
	After  time.Duration
	Reason string
}

func (e *ReleaseError) Error() string { return "released: " + e.Reason }

// Release, returned by a handler, gives the delivery back uncounted and closes
// its lane for that long, at most [MaxPause]: the work was not tried, or is not due yet. A time that is
// over, a negative one, is now; a message that is given back so again and again comes up to a second later.
func Release(after time.Duration, reason string) error {
	return &ReleaseError{After: min(max(after, 0), MaxPause), Reason: reason}
}

// Faults gathers everything that is wrong with a configuration, so that it is reported at
// once. The zero value is empty.
type Faults struct {
	// About begins the text of each fault that If adds.
	About string
	errs  []error
}

// If adds a fault, in the words of [fmt.Errorf], if something is wrong.
func (f *Faults) If(wrong bool, why string, args ...any) {
	if wrong {
		err := fmt.Errorf(why, args...)
		if f.About != "" {
			err = fmt.Errorf("%s%w", f.About, err)
		}
		f.errs = append(f.errs, err)
	}
}

// Add adds an error, unless it is nil.
func (f *Faults) Add(err error) { f.errs = append(f.errs, err) }

// Err joins the faults; it is nil if there are none.
func (f *Faults) Err() error { return errors.Join(f.errs...) }
