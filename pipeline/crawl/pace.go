package crawl

import (
	"errors"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// A host is under strain when more than half of its last answers, about strainOver of them, failed or took far longer
// than they use to. The pause between two requests doubles then, from leastPace on and up to maxPace, and halves with
// each answer that is well.
const (
	strainOver = 8
	leastPace  = 100 * time.Millisecond
	maxPace    = 5 * time.Second
)

// pace is the pause that a host is given beyond what --delay and its robots.txt say. Its host's lock guards it.
type pace struct {
	delay  time.Duration
	grown  time.Time
	usual  time.Duration // how long an answer takes when the host is well
	strain float64       // the share of answers that were bad
}

// answered learns from an answer that took so long. What was not asked, or is not there, says nothing about the host;
// nor does one that cannot be reached, which no request is a burden to.
func (p *pace) answered(took time.Duration, err error) {
	_, status := errors.AsType[*statusError](err)
	kind := pawl.Describe(err).Kind
	late := errors.Is(err, errSlow) || errors.Is(err, errSilent)
	failed := late || status && (kind == KindTransfer || kind == policy.KindRateLimit)
	if err != nil && !failed {
		return
	}
	bad := failed || p.usual > 0 && took > 4*p.usual+500*time.Millisecond
	if !failed {
		if p.usual == 0 || took < p.usual {
			p.usual = took
		}
		p.usual += (took - p.usual) / (32 * strainOver) // it may become slower for good
	}
	p.strain -= p.strain / strainOver
	if !bad {
		if p.delay /= 2; p.delay < leastPace {
			p.delay = 0
		}
		return
	}
	p.strain += 1. / strainOver
	now := time.Now()
	if p.strain > 0.5 && now.Sub(p.grown) >= p.delay { // answers of one moment count once
		p.delay, p.grown = min(max(2*p.delay, leastPace), maxPace), now
	}
}
