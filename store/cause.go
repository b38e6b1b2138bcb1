package store

import "strings"

// Cause is the reason of a record as a code, for programs, which need not read the words.
type Cause struct {
	Code string `json:"code"` // [CauseAppended] …; empty: a failure or death, which is in History
	By   string `json:"by"`   // the limit, or the reason that the handler gave for its release
}

// The codes of causes.
const (
	CauseAppended = "appended"
	CauseReplayed = "replayed"
	CauseReleased = "released"
	CauseLimited  = "limited" // released by a limit
)

const limitedBy = "limited by "

// LimitedBy is the error of a release by a limit.
func LimitedBy(limit string) string { return limitedBy + limit }

// Cause returns the reason of the record as a code.
func (r *Record) Cause() Cause {
	if n := len(r.History); r.State == IsDead || n > 0 && r.History[n-1].Error == r.Reason {
		return Cause{} // the words of a handler
	}
	if r.Reason == CauseAppended || r.Reason == CauseReplayed {
		return Cause{Code: r.Reason}
	}
	said, released := strings.CutPrefix(r.Reason, CauseReleased)
	if !released {
		return Cause{}
	}
	said = strings.TrimPrefix(said, ": ")
	if limit, limited := strings.CutPrefix(said, limitedBy); limited {
		return Cause{CauseLimited, limit}
	}
	return Cause{CauseReleased, said}
}
