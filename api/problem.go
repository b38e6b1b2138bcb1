package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/wire"
	"github.com/pawl-dev/pawl/store"
)

// Problem is an answer that is not a success (RFC 9457).
type Problem struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail"`
	Next   string       `json:"next,omitempty"`
	Fields []wire.Fault `json:"fields,omitempty"`

	after time.Duration // Retry-After
}

// Error implements error.
func (p *Problem) Error() string { return p.Title + ": " + p.Detail }

// problemTypes are the types of problems, by status.
var problemTypes = map[int]string{
	http.StatusBadRequest: "malformed", http.StatusUnauthorized: "unauthorized", http.StatusForbidden: "forbidden",
	http.StatusNotFound: "not-found", http.StatusMethodNotAllowed: "method", http.StatusConflict: "conflict",
	http.StatusRequestTimeout: "too-slow", http.StatusRequestEntityTooLarge: "too-large",
	http.StatusUnsupportedMediaType: "media-type", http.StatusUnprocessableEntity: "invalid",
	http.StatusTooManyRequests: "full", http.StatusInternalServerError: "internal",
	http.StatusServiceUnavailable: "unavailable",
}

func malformed(detail string) *Problem {
	return &Problem{Status: http.StatusBadRequest, Title: "malformed request", Detail: detail}
}

func notFound(detail string) *Problem {
	return &Problem{Status: http.StatusNotFound, Title: "not found", Detail: detail}
}

func forbidden(detail string) *Problem {
	return &Problem{Status: http.StatusForbidden, Title: "forbidden", Detail: detail,
		Next: "use a token whose role and topics allow it"}
}

func conflict(detail string) *Problem {
	return &Problem{Status: http.StatusConflict, Title: "conflict", Detail: detail}
}

func tooLarge(detail string) *Problem {
	return &Problem{Status: http.StatusRequestEntityTooLarge, Title: "too large", Detail: detail, Next: "split the request"}
}

func unsupported(detail string) *Problem {
	return &Problem{Status: http.StatusUnsupportedMediaType, Title: "unsupported media type", Detail: detail}
}

// invalid is about everything that is wrong with a request; nil if nothing is.
func invalid(faults []wire.Fault) error {
	if len(faults) == 0 {
		return nil
	}
	return invalidRequest(faults)
}

func invalidRequest(faults []wire.Fault) *Problem {
	detail := faults[0].Field + " " + faults[0].Why
	if n := len(faults); n > 1 {
		detail += " (and " + strconv.Itoa(n-1) + " more)"
	}
	return &Problem{Status: http.StatusUnprocessableEntity, Title: "invalid request", Detail: detail,
		Next: "correct the fields", Fields: faults[:min(len(faults), maxFaults)]}
}

// together is what cannot be read of a request, and what else is wrong with it.
func together(unread, wrong error) error {
	a, ok := errors.AsType[*Problem](unread)
	if !ok || wrong == nil || len(a.Fields) == 0 {
		return cmp.Or(unread, wrong)
	}
	b := problemOf(wrong)
	all := slices.Clone(a.Fields)
	for _, f := range b.Fields {
		if !slices.ContainsFunc(a.Fields, func(known wire.Fault) bool {
			rest, within := strings.CutPrefix(f.Field, known.Field)
			return within && (rest == "" || known.Field == "" || rest[0] == '.' || rest[0] == '[')
		}) {
			all = append(all, f)
		}
	}
	return invalid(all)
}

// spans are fields that have their unit in their name here.
var spans = []string{"deadline", "ageing", "retain", "delay", "every", "jitter", "missed_within"}

// faultsIn are the fields that an error names, as a request calls them.
func faultsIn(err error) (all []wire.Fault) {
	if many, ok := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); ok {
		for _, e := range many.Unwrap() {
			all = append(all, faultsIn(e)...)
		}
		return all
	}
	if bad, ok := errors.AsType[*pawl.InvalidError](err); ok {
		field := strings.ReplaceAll(bad.Field, " ", "_")
		if slices.Contains(spans, field) {
			field += "_seconds"
		}
		all = append(all, wire.Fault{Field: field, Why: bad.Why})
	}
	return all
}

// maxFaults bounds the faults of an answer.
const maxFaults = 1000

// fault is invalid for one field.
func fault(field, why string) error { return invalid([]wire.Fault{{Field: field, Why: why}}) }

// problemOf is the answer to an error of a call of the store.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	p := &Problem{Detail: err.Error(), Next: store.Hint(err)}
	full, isFull := errors.AsType[*store.TopicFullError](err)
	faults := faultsIn(err)
	switch {
	case isFull:
		p.Status, p.Title, p.after = http.StatusTooManyRequests, "topic is full", full.RetryAfter
	case len(faults) > 0:
		return invalidRequest(faults)
	case errors.Is(err, store.ErrNotFound):
		p.Status, p.Title = http.StatusNotFound, "not found"
	case errors.Is(err, store.ErrConflict):
		p.Status, p.Title = http.StatusConflict, "conflict"
	case errors.Is(err, store.ErrUnsupported):
		p.Status, p.Title = http.StatusConflict, "not supported by this store"
	case errors.Is(err, store.ErrTooLarge):
		p.Status, p.Title = http.StatusRequestEntityTooLarge, "too large"
	case errors.Is(err, store.ErrInvalid):
		p.Status, p.Title = http.StatusUnprocessableEntity, "invalid request"
		p.Fields = []wire.Fault{}
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrUnknown), errors.Is(err, store.ErrNoAnswer),
		errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrLost), errors.Is(err, store.ErrSchema),
		errors.Is(err, store.ErrDenied), errors.Is(err, store.ErrFull), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, context.Canceled):
		p.Status, p.Title, p.after = http.StatusServiceUnavailable, "store is not available", 2*time.Second
	default:
		p.Status, p.Title = http.StatusInternalServerError, "internal error"
	}
	return p
}

// problem is what a caller is told of an error; what is wrong in here is in the log.
func (x *exchange) problem(err error) *Problem {
	p := *problemOf(err)
	p.Type = "urn:pawl:problem:" + problemTypes[p.Status]
	if p.Status >= http.StatusInternalServerError {
		x.api.config.Logger.Warn("a request failed", "route", x.r.Pattern, "status", p.Status, "error", err)
		if p.Status == http.StatusInternalServerError {
			p.Detail = "the reason is in the log of this process"
		}
	}
	return &p
}

// fail answers that a request was not carried out.
func (x *exchange) fail(err error) {
	p := *x.problem(err)
	h := x.w.Header()
	h.Set("Content-Type", "application/problem+json")
	if p.after > 0 {
		h.Set("Retry-After", strconv.Itoa(int(max(math.Ceil(p.after.Seconds()), 1))))
	}
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusRequestEntityTooLarge, http.StatusRequestTimeout:
		h.Set("Connection", "close") // who floods is not to keep what it has opened
	}
	b, err := json.Marshal(&p)
	if err != nil { // a text that is no UTF-8 is replaced: this does not happen
		b = []byte("{}")
	}
	_ = x.write(p.Status, append(b, '\n'))
}
