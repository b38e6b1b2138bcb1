package spill

import "time"

// Observer receives what happens. It is called concurrently, must not block, and must
// not call the store. Topics are those of the messages, not of the rows.
type Observer interface {
	// Spilled: the fallback store took messages. outcome says what had happened to
	// them: failed or unknown; behind: they were not tried, because rows of their key
	// wait; aside: because the topic is down. err is nil for those behind.
	Spilled(topic, outcome string, messages int, err error)
	// Diverted: the dead-letter route took messages.
	Diverted(topic string, messages int, why error)
	// Lost: no level accepted messages. Their caller got an error.
	Lost(topic string, messages int, err error)
	// Compensated: the primary store has rows again. proven counts those of them
	// that it turned out to have had.
	Compensated(topic string, rows, proven int)
	// Retried: rows failed again, while the primary store took others.
	Retried(topic string, rows int, err error)
	// Buried: rows became dead letters of the fallback store.
	Buried(topic string, rows int, err error)
	// Active: keys are latched, since then; not any more, if it is zero.
	Active(since time.Time)
	// Trouble: the fallback store failed a call of the compensator.
	Trouble(op string, err error)
}

type silent struct{}

func (silent) Spilled(string, string, int, error) {}
func (silent) Diverted(string, int, error)        {}
func (silent) Lost(string, int, error)            {}
func (silent) Compensated(string, int, int)       {}
func (silent) Retried(string, int, error)         {}
func (silent) Buried(string, int, error)          {}
func (silent) Active(time.Time)                   {}
func (silent) Trouble(string, error)              {}
