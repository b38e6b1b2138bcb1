package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/store"
)

// DeadReport counts dead letters by cause, key and day, as JSON.
type DeadReport struct {
	Since time.Time   `json:"since"`
	Count int         `json:"count"`
	Cause []DeadCount `json:"by_cause"`
	Key   []DeadCount `json:"by_key"`
	Day   []DeadCount `json:"by_day"`
	Topic []DeadCount `json:"by_topic"`
}

// DeadCount is how many dead letters have something in common.
type DeadCount struct {
	Name   string    `json:"name"`           // fingerprint, key, day or topic
	Text   string    `json:"text,omitempty"` // of a cause: its kind and an example
	Count  int       `json:"count"`
	Share  float64   `json:"share"` // of all
	LastAt time.Time `json:"last_at"`
}

// reportRows is how many keys and causes a report names.
const reportRows = 20

// ReportDead counts the dead letters that f selects.
func ReportDead(ctx context.Context, d store.DeadLetters, f store.DeadFilter) (*DeadReport, error) {
	r := &DeadReport{Since: f.Since.UTC()}
	cause, key, day, topic := map[string]*DeadCount{}, map[string]*DeadCount{}, map[string]*DeadCount{},
		map[string]*DeadCount{}
	for l, err := range d.Dead(ctx, f) {
		if err != nil {
			return nil, err
		}
		r.Count++
		countDead(cause, l.Fingerprint, &l).Text = fmt.Sprintf("%s: %.120s", l.Kind, l.Reason)
		countDead(key, keyName(l.Key), &l)
		countDead(day, l.DeadAt.UTC().Format(time.DateOnly), &l)
		countDead(topic, l.Topic, &l)
	}
	r.Cause, r.Key, r.Topic = mostFirst(cause, r.Count, reportRows), mostFirst(key, r.Count, reportRows),
		mostFirst(topic, r.Count, len(topic))
	r.Day = mostFirst(day, r.Count, len(day))
	slices.SortFunc(r.Day, func(a, b DeadCount) int { return cmp.Compare(a.Name, b.Name) })
	return r, nil
}

func countDead(in map[string]*DeadCount, name string, l *store.Record) *DeadCount {
	c := in[name]
	if c == nil {
		c = &DeadCount{Name: name}
		in[name] = c
	}
	c.Count++
	if l.DeadAt.After(c.LastAt) {
		c.LastAt = l.DeadAt.UTC()
	}
	return c
}

func keyName(key []byte) string {
	switch {
	case key == nil:
		return "(no key)"
	case utf8.Valid(key):
		return string(key)
	default:
		return fmt.Sprintf("%x", key)
	}
}

func mostFirst(in map[string]*DeadCount, all, rows int) []DeadCount {
	out := make([]DeadCount, 0, len(in))
	for _, c := range in {
		c.Share = float64(c.Count) / float64(max(all, 1))
		out = append(out, *c)
	}
	slices.SortFunc(out, func(a, b DeadCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return out[:min(rows, len(out))]
}
