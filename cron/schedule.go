package cron

import (
	"fmt"
	"hash/fnv"
	"maps"
	"time"

	"github.com/pawl-dev/pawl"
)

// Headers of a tick's message: the name of the schedule, and the nominal time with the offset of its zone.
const (
	HeaderSchedule = "Pawl-Schedule"
	HeaderTick     = "Pawl-Tick"
)

// What becomes of a tick while the message of the one before is unresolved.
const (
	OverlapQueue   = "queue"   // messages without a key form a lane: one after the other
	OverlapSkip    = "skip"    // the tick has no message
	OverlapReplace = "replace" // the message before is cancelled, if it still waits
)

// What becomes of ticks for which there was no scheduler.
const (
	MissedOnce = "once" // the latest is made up
	MissedSkip = "skip" // none is
	MissedAll  = "all"  // the last thousand are
)

// OriginFile is the origin of a schedule that a configuration file states: it is changed there only.
const OriginFile = "file"

// Limits of a schedule.
const (
	MaxJitter       = 24 * time.Hour
	MaxMissedWithin = 30 * 24 * time.Hour
	MaxBody         = 512 << 10
	maxMadeUp       = 1000
)

// Schedule says when which message is sent. It has either Cron or Every.
type Schedule struct {
	Name  string        `json:"name"` // made like the name of a topic
	Cron  string        `json:"cron,omitempty"`
	Every time.Duration `json:"every,omitempty"`
	Zone  string        `json:"zone,omitempty"` // empty: UTC

	Topic    string            `json:"topic"`
	Key      []byte            `json:"key,omitempty"`
	Priority int               `json:"priority,omitempty"`
	Body     []byte            `json:"body,omitempty"`
	Headers  map[string]string `json:"headers,omitempty"`

	// Jitter is by how much a message is delayed at most. It depends on name and tick alone, and ends
	// before the next tick.
	Jitter  time.Duration `json:"jitter,omitempty"`
	Overlap string        `json:"overlap,omitempty"` // empty: OverlapQueue
	Missed  string        `json:"missed,omitempty"`  // empty: MissedOnce
	// MissedWithin is how old a tick may be that is made up; 0 is a day.
	MissedWithin time.Duration `json:"missed_within,omitempty"`
	Paused       bool          `json:"paused,omitempty"`
	Origin       string        `json:"origin,omitempty"` // who wrote it: file, api, cli or go
}

// Times returns when the schedule fires.
func (s *Schedule) Times() (*Times, error) {
	switch {
	case s.Cron != "" && s.Every != 0:
		return nil, pawl.Invalid("every", "is given beside cron; a schedule has one of them")
	case s.Cron == "" && s.Every == 0:
		return nil, pawl.Invalid("cron", "is missing; a schedule has cron or every")
	case s.Cron != "":
		return Cron(s.Cron, s.Zone)
	}
	return Every(s.Every, s.Zone)
}

// Validate reports all that is wrong with the schedule, at a time, each as a [*pawl.InvalidError].
func (s *Schedule) Validate(now time.Time) error {
	var faults pawl.Faults
	bad := func(is bool, field, why string, args ...any) {
		if is {
			faults.Add(pawl.Invalid(field, why, args...))
		}
	}
	bad(pawl.ValidTopic(s.Name) != nil, "name", "is %q; it is made like the name of a topic", s.Name)
	times, err := s.Times()
	if err == nil {
		err = times.Fires(now)
	}
	if faults.Add(err); err != nil {
		times = &Times{every: 1, zone: time.UTC} // for the rest
	}
	bad(s.Overlap != "" && s.Overlap != OverlapQueue && s.Overlap != OverlapSkip && s.Overlap != OverlapReplace,
		"overlap", "is %q; it is queue, skip or replace", s.Overlap)
	bad(s.Missed != "" && s.Missed != MissedOnce && s.Missed != MissedSkip && s.Missed != MissedAll,
		"missed", "is %q; it is once, skip or all", s.Missed)
	bad(s.Jitter < 0 || s.Jitter > MaxJitter, "jitter", "is %v; it goes from 0 to %v", s.Jitter, MaxJitter)
	bad(s.MissedWithin < 0 || s.MissedWithin > MaxMissedWithin, "missed_within", "is %v; it goes from 0 to %v",
		s.MissedWithin, MaxMissedWithin)
	bad(len(s.Body) > MaxBody, "body", "is %d bytes long; the limit of a schedule is %d", len(s.Body), MaxBody)
	for _, name := range []string{HeaderSchedule, HeaderTick} {
		_, given := s.Headers[name]
		bad(given, "headers", "has %s, which each message of a schedule gets from Pawl", name)
	}
	m := s.message(times, times.Next(now))
	if err = pawl.ValidTopic(s.Topic); err != nil {
		faults.Add(err)
		m.Topic = "t" // for the rest
	}
	faults.Add(m.Validate())
	return faults.Err()
}

// Within is how old a tick may be that is made up.
func (s *Schedule) Within() time.Duration {
	if s.MissedWithin == 0 {
		return 24 * time.Hour
	}
	return s.MissedWithin
}

// messageID is that of a tick.
func messageID(name string, tick int64) string { return pawl.EmitID("schedule/"+name+"/", int(tick)) }

// message is that of a tick. Its unique key admits a tick once, whoever fires it, for longer than it could be due.
func (s *Schedule) message(times *Times, tick time.Time) pawl.Message {
	m := pawl.Message{
		ID: messageID(s.Name, tick.Unix()), Topic: s.Topic, Key: s.Key, Priority: s.Priority, Body: s.Body,
		Headers: map[string]string{},
		Unique: pawl.Unique{
			Key: fmt.Sprintf("%s@%d", s.Name, tick.Unix()), Scope: "schedule",
			For: min(s.Within(), MaxMissedWithin) + 24*time.Hour,
		},
	}
	maps.Copy(m.Headers, s.Headers)
	m.Headers[HeaderSchedule], m.Headers[HeaderTick] = s.Name, tick.Format(time.RFC3339)
	if m.Key == nil && (s.Overlap == "" || s.Overlap == OverlapQueue) {
		m.Key = []byte("schedule/" + s.Name)
	}
	if next := times.Next(tick); s.Jitter > 0 && !next.IsZero() {
		h := fnv.New64a()
		_, _ = h.Write([]byte(m.ID)) // a hash never fails
		m.Delay = time.Duration(h.Sum64() % uint64(min(s.Jitter, next.Sub(tick))))
	}
	return m
}
