package config

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/cron"
	"github.com/pawl-dev/pawl/pipeline"
)

// scheduleShape is what can be said about a schedule.
func scheduleShape() *shape {
	return &shape{kind: object, fields: []field{
		{name: "cron", doc: "When it fires: five fields, six with seconds first, or a name such as `@daily`.",
			shape: shape{kind: text, noun: "cron expression", check: invalid(func(s string) error {
				_, err := cron.Cron(s, "")
				return err
			})}},
		{name: "every", doc: "Fire at multiples of this after 1970-01-01T00:00Z, instead of `cron`.",
			shape: span(time.Second, 8*366*24*time.Hour)},
		{name: "zone", doc: "The zone of the clock, such as `Europe/Berlin`.", defDoc: "UTC",
			shape: shape{kind: text, noun: "zone", check: invalid(func(s string) error {
				_, err := cron.Every(time.Second, s)
				return err
			})}},
		{name: "topic", doc: "The topic of the messages.", must: true,
			shape: shape{kind: text, noun: "topic", check: invalid(pipeline.CheckTopic)}},
		{name: "body", doc: "The body of the messages.", shape: shape{kind: text}},
		{name: "json", doc: "The body of the messages, checked as JSON.",
			shape: shape{kind: text, noun: "JSON", check: func(s string) (why, hint string) {
				if !json.Valid([]byte(s)) {
					return "is not valid JSON", ""
				}
				return "", ""
			}}},
		{name: "body_file", doc: "A file with the body of the messages, read at the start and at a reload.",
			shape: shape{kind: text, noun: "path", check: checkFilled}},
		{name: "key", doc: "The key of the messages.", defDoc: "the schedule's own, with `overlap: queue`",
			shape: shape{kind: text, check: checkFilled}},
		{name: "priority", doc: "The priority of the messages.", def: "0", shape: whole(0, pawl.MaxPriority)},
		{name: "headers", doc: "Headers of the messages.", shape: shape{kind: table, of: &shape{kind: text},
			checkKey: filledKey, noun: "mapping by name"}},
		{name: "jitter", doc: "Delay each message by up to this, but not beyond the next tick.", def: "0s",
			shape: span(0, cron.MaxJitter)},
		{name: "overlap", doc: "What happens while the last message is unresolved.", def: cron.OverlapQueue,
			shape: oneOf(cron.OverlapQueue, cron.OverlapSkip, cron.OverlapReplace)},
		{name: "missed", doc: "Which missed ticks are made up for later.", def: cron.MissedOnce,
			shape: oneOf(cron.MissedSkip, cron.MissedOnce, cron.MissedAll)},
		{name: "missed_within", doc: "The oldest missed tick that is still made up.", def: "24h",
			shape: span(time.Second, cron.MaxMissedWithin)},
		{name: "paused", doc: "Whether it is paused.", def: "false", shape: shape{kind: boolean}},
	}}
}

// invalid makes a check of a text from one that reports a [*pawl.InvalidError].
func invalid(check func(string) error) func(string) (why, hint string) {
	return func(s string) (why, hint string) {
		err := check(s)
		if e, ok := errors.AsType[*pawl.InvalidError](err); ok {
			return e.Why, ""
		}
		if err != nil {
			return err.Error(), ""
		}
		return "", ""
	}
}

// bindSchedules checks the schedules as a whole, too.
func (w *walker) bindSchedules(c *Config, root *node) {
	for name, n := range root.at("schedules").inOrder() {
		if s, ok := w.bindSchedule(name, n); ok {
			c.Schedules = append(c.Schedules, s)
		}
	}
}

func (w *walker) bindSchedule(name string, n *node) (s cron.Schedule, ok bool) {
	faults := len(w.problems)
	switch {
	case n.bad:
		return s, false
	case n.at("cron") != nil && n.at("every") != nil:
		w.refuse(n.at("every"), "keep one of them", "is given beside cron")
	case n.lacks("cron") && n.lacks("every"):
		w.refuseKey(n, "add cron: or every:", "has neither cron nor every")
	}
	if n.lacks("topic") {
		w.refuseKey(n, "add topic: …", "has no topic")
	}
	s = cron.Schedule{Name: name, Origin: cron.OriginFile,
		Cron: get[string](n, "cron"), Every: get[time.Duration](n, "every"), Zone: get[string](n, "zone"),
		Topic: get[string](n, "topic"), Priority: get[int](n, "priority"), Body: w.scheduleBody(n),
		Jitter: get[time.Duration](n, "jitter"), Overlap: get[string](n, "overlap"), Missed: get[string](n, "missed"),
		MissedWithin: get[time.Duration](n, "missed_within"), Paused: get[bool](n, "paused"),
		Headers: n.at("headers").byName(),
	}
	if key := get[string](n, "key"); key != "" {
		s.Key = []byte(key)
	}
	known := len(w.problems) > faults || !n.sound()
	for _, e := range apart[*pawl.InvalidError](s.Validate(time.Now())) {
		switch at := n.find(e.Field); {
		case at != n && at.sound():
			w.refuse(at, "", "%s", e.Why)
		case at == n && !known: // else it may follow from what was reported
			w.refuseKey(n, "", "%s", e.Error())
		}
	}
	return s, n.sound() && len(w.problems) == faults
}

// scheduleBody is the body that one of three keys states.
func (w *walker) scheduleBody(n *node) []byte {
	stated := ""
	for _, name := range []string{"body", "json", "body_file"} {
		switch at := n.at(name); {
		case at == nil:
		case stated != "":
			w.refuse(at, "keep one of them", "is given beside %s", stated)
		default:
			stated = name
		}
	}
	if stated != "body_file" {
		return []byte(get[string](n, "body") + get[string](n, "json"))
	}
	file, ok := find[string](n, stated)
	if !ok {
		return nil
	}
	if !filepath.IsAbs(file) {
		file = filepath.Join(filepath.Dir(w.source.Path), file)
	}
	read := w.source.ReadFile
	if read == nil {
		read = func(name string) ([]byte, error) { return readUpTo(name, cron.MaxBody) }
	}
	body, err := read(file)
	if err != nil {
		w.refuse(n.at(stated), "", "cannot be read: %v", err)
	}
	return body
}
