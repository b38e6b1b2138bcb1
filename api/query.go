package api

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/internal/wire"
	"github.com/pawl-dev/pawl/store"
)

// query reads the parameters of a filter, and gathers what is wrong with them.
type query struct {
	*exchange
	err error
}

func (q *query) text(name string) string { return q.r.URL.Query().Get(name) }

func (q *query) key() []byte {
	if k := q.text("key"); k != "" {
		return []byte(k)
	}
	return nil
}

func (q *query) bad(name, why string) { q.err = together(q.err, fault(name, why)) }

func (q *query) duration(name string) time.Duration {
	text := q.text(name)
	if text == "" {
		return 0
	}
	d, err := parseSpan(text)
	if err != nil {
		q.bad(name, "is no duration such as 90s, 1h or 2d, up to ten years")
	}
	return d
}

// parseSpan reads a duration as flags have it, or a number of seconds.
func parseSpan(text string) (time.Duration, error) {
	if f, err := strconv.ParseFloat(text, 64); err == nil && f >= 0 {
		return seconds(f), nil
	}
	return wire.ParseDuration(text)
}

// point is a time, or how long ago.
func (q *query) point(name string) time.Time {
	text := q.text(name)
	if text == "" {
		return time.Time{}
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t
	}
	d, err := parseSpan(text)
	if err != nil {
		q.bad(name, "is no time as in RFC 3339, and no duration, up to ten years: how long ago")
	}
	return time.Now().Add(-d)
}

// number is a whole number from 1 to most, or the one that stands for none.
func (q *query) number(name string, none, most int) int {
	text := q.text(name)
	if text == "" {
		return none
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most {
		q.bad(name, "goes from 1 to "+strconv.Itoa(most))
	}
	return n
}

func (q *query) boolean(name string) bool {
	switch text := q.text(name); text {
	case "", "false", "0":
		return false
	case "true", "1":
		return true
	default:
		q.bad(name, "is true or false")
		return false
	}
}

var states = []store.State{"", store.Waiting, store.Delayed, store.Leased, store.IsDead, store.Acked}

func (q *query) state() store.State {
	s := store.State(q.text("state"))
	if !slices.Contains(states, s) {
		q.bad("state", "is waiting, delayed, leased, dead or acked")
	}
	return s
}

func (q *query) status() string {
	s := q.text("status")
	if s != "" && !slices.Contains(operate.OperationStatuses(), s) {
		q.bad("status", "is one of "+strings.Join(operate.OperationStatuses(), ", "))
	}
	return s
}

func (q *query) dead() (store.DeadFilter, error) {
	f := store.DeadFilter{Topic: q.text("topic"), Key: q.key(), Kind: pawl.Kind(q.text("kind")),
		Reason: q.text("reason"), Fingerprint: q.text("fingerprint"), Text: q.text("search"), Since: q.point("since"),
		Until: q.point("until"), Resolved: new(q.boolean("resolved"))}
	for _, fact := range q.r.URL.Query()["attr"] {
		name, value, ok := strings.Cut(fact, "=")
		if !ok || name == "" {
			q.bad("attr", "is NAME=VALUE")
			continue
		}
		if f.Attrs == nil {
			f.Attrs = map[string]string{}
		}
		f.Attrs[name] = value
	}
	if f.Topic != "" {
		q.err = cmp.Or(q.err, q.needTopic(f.Topic))
	}
	return f, q.err
}
