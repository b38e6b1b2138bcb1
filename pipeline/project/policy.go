package project

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// The kinds of failures: classes of dead letters are named after them.
const (
	kindThrottle pawl.Kind = "SearchThrottle" // the index is overloaded
	kindServer   pawl.Kind = "SearchServer"   // 5xx
	kindTimeout  pawl.Kind = "SearchTimeout"  // no answer: it may or may not have been applied
	kindMapping  pawl.Kind = "SearchMapping"  // the document does not fit into the index
	kindSize     pawl.Kind = "SearchSize"     // the document is larger than the index takes
	// alias missing, access refused, index read-only: not caused by a document
	kindConfig pawl.Kind = "SearchConfig"
)

// rules are the rows of the matrix. Throttled failures never end in a dead letter.
func rules() []policy.Rule {
	slow := policy.Backoff{Shape: policy.Exponential, Base: time.Second, Max: time.Minute}
	row := func(id string, kind pawl.Kind) policy.Rule {
		return policy.Rule{ID: id, Match: policy.Match{Kind: kind}, Backoff: slow, Alert: policy.Warn}
	}
	dead := func(id string, kind pawl.Kind) policy.Rule {
		return policy.Rule{ID: id, Match: policy.Match{Kind: kind}, Repeat: policy.NotRepeated,
			DeadLetter: policy.Always, Alert: policy.Error}
	}
	server, timeout := row("project-server", kindServer), row("project-timeout", kindTimeout)
	server.MaxAttempts, timeout.MaxAttempts = 20, 20
	config := row("project-config", kindConfig)
	config.Alert = policy.Error
	return []policy.Rule{
		row("project-throttle", kindThrottle), server, timeout, dead("project-mapping", kindMapping),
		dead("project-size", kindSize), config,
	}
}

// topicPolicy is the daemon's policy with the attempts and the backoff of a section.
type topicPolicy struct {
	policy.Policy
	p *projection
}

// Decide implements policy.Policy.
func (t *topicPolicy) Decide(a policy.Attempt) policy.Decision {
	d := t.decide(a)
	if d.Action == policy.Dead {
		t.p.figures.dead.Add(1, t.p.projection, classOf(d.Kind))
	}
	return d
}

func (t *topicPolicy) decide(a policy.Attempt) policy.Decision {
	d := t.Policy.Decide(a)
	about := pawl.Describe(a.Err)
	if d.Rule == "project-throttle" && d.Throttled {
		l := t.p.limits() // not all at the very moment that was asked for
		d.Delay = max(l.backoff.Delay(a.Throttles, t.p.random()),
			about.After+time.Duration(t.p.random()*float64(l.backoff.Base)))
		d.Reason = fmt.Sprintf("refused %d times: again after %v", a.Throttles, d.Delay.Round(time.Millisecond))
		return d
	}
	if d.Kind != kindServer && d.Kind != kindTimeout || !strings.HasPrefix(d.Rule, "project-") ||
		about.Class != pawl.ClassTransient {
		return d
	}
	l := t.p.limits()
	d.MaxAttempts = l.attempts
	if a.Number >= l.attempts {
		d.Action, d.Delay, d.Reason = policy.Dead, 0, fmt.Sprintf("attempt %d of %d: dead letter", a.Number, l.attempts)
		return d
	}
	d.Action, d.Delay = policy.Retry, l.backoff.Delay(a.Number, t.p.random())
	d.Reason = fmt.Sprintf("attempt %d of %d: again after %v", a.Number, l.attempts, d.Delay.Round(time.Millisecond))
	return d
}

// classOf is the class of dead letters of a kind.
func classOf(kind pawl.Kind) string {
	switch kind {
	case kindThrottle, kindServer, kindTimeout, kindMapping, kindSize:
		return strings.ToLower(strings.TrimPrefix(string(kind), "Search"))
	case pawl.KindRescue, pawl.KindPanic, pawl.KindDeadline:
		return "poison"
	default:
		return "other"
	}
}

// classes are those of dead letters.
var classes = [...]string{"throttle", "server", "timeout", "mapping", "size", "poison", "other"}

// classify gives the failure of a request or an item its kind, by status first.
func classify(err error) error {
	a, ok := errors.AsType[*answerError](err)
	switch {
	case ok:
	case errors.Is(err, errOdd):
		return pawl.OfKind(kindServer, fmt.Errorf("%w [bad_answer]", err))
	default:
		return pawl.OfKind(kindTimeout, fmt.Errorf("%w [%s]", err, transport(err)))
	}
	err = pawl.WithAttrs(err, map[string]string{"http_status": strconv.Itoa(a.status)})
	switch {
	case a.status == http.StatusTooManyRequests:
		return pawl.Throttled(pawl.OfKind(kindThrottle, err), a.after)
	case a.status == http.StatusRequestEntityTooLarge:
		a.kind = cmp.Or(a.kind, "content_too_long")
		return pawl.Permanent(pawl.OfKind(kindSize, err))
	case a.status >= http.StatusInternalServerError || a.status == http.StatusRequestTimeout:
		return pawl.OfKind(kindServer, err)
	case a.status == http.StatusNotFound, a.status == http.StatusUnauthorized, a.status == http.StatusForbidden,
		a.status == http.StatusBadRequest && strings.Contains(a.reason, "no write index is defined"):
		return pawl.Throttled(pawl.OfKind(kindConfig, err), 0)
	case a.status == http.StatusBadRequest:
		return pawl.Permanent(pawl.OfKind(kindMapping, err))
	default:
		return pawl.OfKind(kindServer, err)
	}
}

// transport is what stands for a type of error where there was no answer.
func transport(err error) string {
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	return "connection"
}
