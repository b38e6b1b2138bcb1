package operate

import (
	"encoding/base64"
	"iter"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
)

// The types in this file are the JSON that other programs see: field names and
// kinds are a contract. What is not there is null, except where bytes take the
// place of text. Times are in UTC.

// Message is a message as JSON.
type Message struct {
	ID         string            `json:"id"`
	Topic      string            `json:"topic"`
	Key        *string           `json:"key"`
	KeyBase64  string            `json:"key_base64,omitempty"`
	State      store.State       `json:"state"`
	Priority   int               `json:"priority"`
	Rank       int64             `json:"rank"`
	Attempt    int               `json:"attempt"` // attempts begun: failed ones, and a running one
	Rescues    int               `json:"rescues"`
	EnqueuedAt time.Time         `json:"enqueued_at"`
	NotBefore  *time.Time        `json:"not_before"`
	Lease      *Lease            `json:"lease"`
	UniqueKey  *string           `json:"unique_key"`
	Headers    map[string]string `json:"headers"`
	Body       *string           `json:"body,omitempty"`
	BodyBase64 *string           `json:"body_base64,omitempty"`
	// Throttles are throttled retries since the last other failure; they are no attempts.
	Throttles      int        `json:"throttles,omitempty"`
	ThrottledSince *time.Time `json:"throttled_since,omitempty"`
}

// BodySize is how many bytes the text of the body has.
func (m *Message) BodySize() int {
	switch {
	case m.Body != nil:
		return len(*m.Body)
	case m.BodyBase64 != nil:
		return len(*m.BodyBase64)
	default:
		return 0
	}
}

// Lease is a live lease as JSON.
type Lease struct {
	Owner     string    `json:"owner"`
	Token     string    `json:"token"`
	Until     time.Time `json:"until"`
	StartedAt time.Time `json:"started_at"`
	Deadline  time.Time `json:"deadline"`
}

// Detail is a message with its past, as JSON.
type Detail struct {
	Message
	Reason   string     `json:"reason"`
	Cause    *Cause     `json:"cause"`
	Replays  int        `json:"replays"`
	AckedAt  *time.Time `json:"acked_at"`
	Attempts []Attempt  `json:"attempts"`
}

// Cause is why a message is where it is, as JSON; nil after a failure, of which the attempts tell.
type Cause = store.Cause

// causeOf is the cause of r.
func causeOf(r *store.Record) *Cause {
	if c := r.Cause(); c.Code != "" {
		return &c
	}
	return nil
}

// DeadLetter is a dead letter as JSON.
type DeadLetter struct {
	Message
	DeadAt      time.Time `json:"dead_at"`
	Kind        string    `json:"kind"`
	Reason      string    `json:"reason"`
	Fingerprint string    `json:"fingerprint"`
	Replays     int       `json:"replays"`
	Attempts    []Attempt `json:"attempts"`
	Origin      *Origin   `json:"origin,omitempty"`
	// Resolved is who dealt with it in another way; not there: it is open.
	Resolved *Resolution `json:"resolved,omitempty"`
}

// Resolution is who resolved a dead letter, and why, as JSON.
type Resolution struct {
	At   time.Time `json:"at"`
	By   string    `json:"by"`
	Note string    `json:"note"`
}

// Origin is where a dead letter was in a log, and who read it there, as JSON.
type Origin struct {
	Topic     string    `json:"topic"`
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Timestamp time.Time `json:"timestamp"`
	Client    string    `json:"client"`
	Group     string    `json:"group"`
}

// Attempt is a failed or rescued delivery as JSON.
type Attempt struct {
	Attempt   int        `json:"attempt"`
	StartedAt time.Time  `json:"started_at"`
	EndedAt   time.Time  `json:"ended_at"`
	Worker    string     `json:"worker"`
	Kind      string     `json:"kind"`
	Error     string     `json:"error"`
	Rule      string     `json:"rule"`
	Action    string     `json:"action"`
	Inputs    string     `json:"inputs,omitempty"`
	NextAt    *time.Time `json:"next_at"`

	Attrs map[string]string `json:"attrs,omitempty"`

	Throttled bool `json:"throttled,omitempty"`
}

// Topic is a topic's settings and figures as JSON.
type Topic struct {
	Topic                string      `json:"topic"`
	Order                store.Order `json:"order"`
	Waiting              int64       `json:"waiting"`
	Delayed              int64       `json:"delayed"`
	Leased               int64       `json:"leased"`
	Dead                 int64       `json:"dead"`
	OldestWaitingSeconds *float64    `json:"oldest_waiting_seconds"`
	Paused               bool        `json:"paused"`
	Pause                *Pause      `json:"pause"`
	AppendedTotal        int64       `json:"appended_total"`
	AckedTotal           int64       `json:"acked_total"`
	RetriedTotal         int64       `json:"retried_total"`
	RescuesTotal         int64       `json:"rescues_total"`
	DuplicatesTotal      int64       `json:"duplicates_total"`
	CancelledTotal       int64       `json:"cancelled_total"`
	PurgedTotal          int64       `json:"purged_total"`
	Settings
	Stuck     int64      `json:"stuck"` // of those that are leased
	LastAckAt *time.Time `json:"last_ack_at"`
	Resolved  int64      `json:"resolved"` // dead letters that are not open
	Full      bool       `json:"full"`     // appends are refused
}

// Settings are a topic's settings as JSON.
type Settings struct {
	DeadlineSeconds float64 `json:"deadline_seconds"`
	AgeingSeconds   float64 `json:"ageing_seconds"`
	Park            bool    `json:"park"`
	Retry           string  `json:"retry"` // head or tail
	RetainSeconds   float64 `json:"retain_seconds"`
	MaxWaiting      int64   `json:"max_waiting"`
	Version         int64   `json:"version"`
}

// Pause is why a topic is paused, as JSON.
type Pause struct {
	Since  time.Time  `json:"since"`
	Until  *time.Time `json:"until"`
	By     string     `json:"by"`
	Reason string     `json:"reason"`
}

// FormMessage gives r its JSON form.
func FormMessage(r *store.Record) Message {
	m := Message{
		ID: r.ID, Topic: r.Topic, State: r.State, Priority: r.Priority, Rank: r.Rank, Attempt: r.Attempts,
		Rescues:    r.Rescues,
		EnqueuedAt: r.EnqueuedAt.UTC(), NotBefore: moment(r.NotBefore), Headers: r.Headers,
	}
	if m.Headers == nil {
		m.Headers = map[string]string{}
	}
	m.Throttles, m.ThrottledSince = r.Throttles, moment(r.ThrottledSince)
	if r.Unique.Key != "" {
		m.UniqueKey = new(r.Unique.Key)
	}
	switch {
	case r.Key == nil:
	case utf8.Valid(r.Key):
		m.Key = new(string(r.Key))
	default:
		m.KeyBase64 = base64.StdEncoding.EncodeToString(r.Key)
	}
	if utf8.Valid(r.Body) {
		m.Body = new(string(r.Body))
	} else {
		m.BodyBase64 = new(base64.StdEncoding.EncodeToString(r.Body))
	}
	if l := r.Lease; l != nil {
		m.Attempt++
		m.Lease = &Lease{l.Owner, l.Token.String(), l.Until.UTC(), l.StartedAt.UTC(), l.Deadline.UTC()}
	}
	return m
}

// FormDetail gives r its JSON form with its past.
func FormDetail(r *store.Record) Detail {
	return Detail{FormMessage(r), r.Reason, causeOf(r), r.Replays, moment(r.AckedAt), formAttempts(r.History)}
}

// FormDeadLetter gives r, a dead letter, its JSON form. Of a message that killed
// its workers, the last attempt says that it did: a store records a rescue before
// it knows what follows from it, and no policy is asked.
func FormDeadLetter(r *store.Record) DeadLetter {
	d := DeadLetter{FormMessage(r), r.DeadAt.UTC(), string(r.Kind), r.Reason, r.Fingerprint, r.Replays,
		formAttempts(r.History), nil, nil}
	if by := r.Resolved; by != nil {
		d.Resolved = &Resolution{by.At.UTC(), by.By, by.Note}
	}
	if o := r.Origin; o != nil {
		d.Origin = &Origin{o.Topic, o.Partition, o.Offset, o.Timestamp.UTC(), o.Client, o.Group}
	}
	if n := len(d.Attempts) - 1; r.Kind == pawl.KindRescue && n >= 0 && d.Attempts[n].Kind == d.Kind &&
		d.Attempts[n].Rule == "" {
		d.Attempts[n].Rule, d.Attempts[n].Action = "rescue", policy.Dead.String()
	}
	return d
}

func formAttempts(history []store.Attempt) []Attempt {
	attempts := make([]Attempt, len(history))
	for i, a := range history {
		attempts[i] = Attempt{
			a.Attempt, a.StartedAt.UTC(), a.EndedAt.UTC(), a.Worker, a.Kind, a.Error, a.Rule, a.Action, a.Inputs,
			moment(a.NextAt), a.Attrs, a.Throttled,
		}
	}
	return attempts
}

// FormTopic gives s its JSON form.
func FormTopic(s *store.TopicStats) Topic {
	t := Topic{
		Topic: s.Name, Order: s.Order, Waiting: s.Waiting, Delayed: s.Delayed, Leased: s.Leased, Stuck: s.Stuck,
		Resolved: s.Resolved, Full: s.Full(),
		Dead: s.Dead, LastAckAt: moment(s.LastAck),
		OldestWaitingSeconds: secondsOf(s.OldestWaiting), AppendedTotal: s.Appended, AckedTotal: s.Acked,
		RetriedTotal: s.Retried,
		RescuesTotal: s.Rescues, DuplicatesTotal: s.Duplicates, CancelledTotal: s.Cancelled, PurgedTotal: s.Purged,
		Settings: FormSettings(&s.Topic),
	}
	if p := s.Paused; p != nil {
		t.Paused, t.Pause = true, formPause(p)
	}
	return t
}

func formPause(p *store.Pause) *Pause {
	return &Pause{p.Since.UTC(), moment(p.Until), p.By, p.Reason}
}

// secondsOf is a time in seconds, nil for one that the store cannot tell.
func secondsOf(d time.Duration) *float64 {
	if d < 0 {
		return nil
	}
	return new(d.Seconds())
}

// FormSettings gives a topic's settings their JSON form.
func FormSettings(t *store.Topic) Settings {
	return Settings{t.Deadline.Seconds(), t.Ageing.Seconds(), t.Park, t.RetriesAt(), t.Retain.Seconds(),
		t.MaxWaiting, t.Version}
}

// moment is t in UTC, nil for none.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// Filter is what an operation was about, as JSON: a filter of dead letters, or
// ids.
type Filter struct {
	Topic       string     `json:"topic,omitempty"`
	Key         string     `json:"key,omitempty"`
	KeyBase64   string     `json:"key_base64,omitempty"`
	Kind        string     `json:"kind,omitempty"`
	Reason      string     `json:"reason,omitempty"`
	Fingerprint string     `json:"fingerprint,omitempty"`
	Search      string     `json:"search,omitempty"`
	Since       *time.Time `json:"since,omitempty"`
	Until       *time.Time `json:"until,omitempty"`
	Limit       int        `json:"limit,omitempty"`

	Attrs    map[string]string `json:"attrs,omitempty"`
	Resolved bool              `json:"resolved,omitempty"` // instead of open ones
	// Of messages that are not dead.
	State            string  `json:"state,omitempty"`
	OlderThanSeconds float64 `json:"older_than_seconds,omitempty"`
	Owner            string  `json:"owner,omitempty"`
	Stuck            bool    `json:"stuck,omitempty"`

	IDs []string `json:"ids,omitempty"`
}

// formFilter gives a selection its JSON form.
func formFilter(sel Selection) Filter {
	f := &sel.Filter
	form := Filter{
		Topic: f.Topic, Kind: string(f.Kind), Reason: f.Reason, Fingerprint: f.Fingerprint, Search: f.Text,
		Since: moment(f.Since), Until: moment(f.Until), Limit: f.Limit, IDs: sel.IDs, Attrs: f.Attrs,
		Resolved: f.Resolved != nil && *f.Resolved,
	}
	if utf8.Valid(f.Key) {
		form.Key = string(f.Key)
	} else {
		form.KeyBase64 = base64.StdEncoding.EncodeToString(f.Key)
	}
	return form
}

// filter is the filter that a form stands for.
func (f *Filter) filter() (store.DeadFilter, error) {
	d := store.DeadFilter{
		Topic: f.Topic, Kind: pawl.Kind(f.Kind), Reason: f.Reason, Fingerprint: f.Fingerprint, Text: f.Search,
		Limit: f.Limit, Attrs: f.Attrs, Resolved: &f.Resolved,
	}
	if f.Since != nil {
		d.Since = *f.Since
	}
	if f.Until != nil {
		d.Until = *f.Until
	}
	var err error
	switch {
	case f.Key != "":
		d.Key = []byte(f.Key)
	case f.KeyBase64 != "":
		d.Key, err = base64.StdEncoding.DecodeString(f.KeyBase64)
	}
	return d, err
}

// OperationState is an operation and whether a process carries it out, as JSON.
type OperationState struct {
	*Operation
	Live bool `json:"live"`
}

// OlderThan passes on records that were appended longer ago, at most limit of them; 0: all.
func OlderThan(records iter.Seq2[store.Record, error], than time.Duration, limit int) iter.Seq2[store.Record, error] {
	return func(yield func(store.Record, error) bool) {
		n := 0
		for r, err := range records {
			if err == nil && than > 0 && time.Since(r.EnqueuedAt) <= than {
				continue
			}
			if n++; !yield(r, err) || n == limit {
				return
			}
		}
	}
}
