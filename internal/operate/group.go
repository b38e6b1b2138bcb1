package operate

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Groups are what dead letters are grouped by, beside a fact of the failure.
func Groups() []string { return []string{"fingerprint", "kind", "topic", "hour"} }

// OfAttr begins the name of a fact to group by.
const OfAttr = "attr:"

// GroupNames reads what to group by: one thing, or two.
func GroupNames(by string) ([]string, error) {
	if by == "" {
		return nil, nil
	}
	names := strings.Split(by, ",")
	for i, name := range names {
		if fact, ok := strings.CutPrefix(name, OfAttr); !slices.Contains(Groups(), name) && (!ok || fact == "") {
			return nil, pawl.Invalid("group_by", "is %q; it is %s or attr:NAME, a fact of the failure, or two of them, separated by a comma",
				by, strings.Join(Groups(), ", "))
		}
		if i > 1 || slices.Contains(names[:i], name) {
			return nil, pawl.Invalid("group_by", "is %q; it takes one of them, or two different ones, such as fingerprint,hour",
				by)
		}
	}
	return names, nil
}

// DeadGroup is dead letters that have something in common, as JSON. Those of the
// last group say by an empty value that they have no such thing.
type DeadGroup struct {
	Fingerprint *string    `json:"fingerprint,omitempty"`
	Kind        *string    `json:"kind,omitempty"`
	Topic       *string    `json:"topic,omitempty"`
	Hour        *time.Time `json:"hour,omitempty"`
	// Attrs are the facts that were grouped by, as far as the failures state them.
	Attrs       map[string]string `json:"attrs,omitempty"`
	Count       int64             `json:"count"`
	FirstDeadAt time.Time         `json:"first_dead_at"`
	LastDeadAt  time.Time         `json:"last_dead_at"`
	Reason      string            `json:"reason"` // of the last one
	ID          string            `json:"id"`     // of the last one
	ByHour      []HourCount       `json:"by_hour,omitempty"`
	// Labels are the names of what was grouped by, in order.
	Labels [2]string `json:"-"`
}

// HourCount is how many died in an hour.
type HourCount struct {
	Hour  time.Time `json:"hour"`
	Count int64     `json:"count"`
}

// label says what the letters of the group, of which r is one, have in common.
func (g *DeadGroup) label(names []string, r *store.Record) {
	for i, name := range names {
		switch name {
		case "fingerprint":
			g.Fingerprint, g.Kind, g.Labels[i] = new(r.Fingerprint), new(string(r.Kind)), r.Fingerprint
		case "kind":
			g.Kind, g.Labels[i] = new(string(r.Kind)), string(r.Kind)
		case "topic":
			g.Topic, g.Labels[i] = new(r.Topic), r.Topic
		case "hour":
			hour := r.DeadAt.UTC().Truncate(time.Hour)
			g.Hour, g.Labels[i] = &hour, hour.Format(time.RFC3339)
		default:
			fact := strings.TrimPrefix(name, OfAttr)
			value, stated := r.Attrs()[fact]
			if g.Labels[i] = value; !stated {
				continue
			}
			if g.Attrs == nil {
				g.Attrs = map[string]string{}
			}
			g.Attrs[fact] = value
		}
	}
}

// GroupDead counts dead letters by one or two of fingerprint, kind, topic, hour and attr:NAME. It keeps the groups
// only.
func GroupDead(ctx context.Context, s store.Store, d store.DeadLetters, f store.DeadFilter,
	names []string) ([]*DeadGroup, error) {
	now := Now(ctx, s)
	found, sums := map[[2]string]*DeadGroup{}, map[string]int64{}
	f.Brief = !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, OfAttr) })
	for r, err := range d.Dead(ctx, f) {
		if err != nil {
			return nil, err
		}
		one := DeadGroup{FirstDeadAt: r.DeadAt.UTC(), LastDeadAt: r.DeadAt.UTC(), Reason: r.Reason, ID: r.ID}
		one.label(names, &r)
		g := found[one.Labels]
		if g == nil {
			if g = &one; len(names) == 1 && names[0] == "fingerprint" {
				g.ByHour = lastHours(now)
			}
			found[g.Labels] = g
		}
		g.add(&r)
		sums[g.Labels[0]]++
	}
	sorted := slices.SortedFunc(maps.Values(found), func(a, b *DeadGroup) int {
		if names[0] != "hour" {
			if c := cmp.Compare(sums[b.Labels[0]], sums[a.Labels[0]]); c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(a.Labels[0], b.Labels[0]), cmp.Compare(a.Labels[1], b.Labels[1]))
	})
	return sorted, nil
}

// Join adds the letters of another group. What the two do not have in common is no longer said.
func (g *DeadGroup) Join(other *DeadGroup) {
	if g.Kind != nil && (other.Kind == nil || *g.Kind != *other.Kind) {
		g.Kind = nil
	}
	g.Fingerprint, g.Count = nil, g.Count+other.Count
	if other.FirstDeadAt.Before(g.FirstDeadAt) {
		g.FirstDeadAt = other.FirstDeadAt
	}
	if other.LastDeadAt.After(g.LastDeadAt) {
		g.LastDeadAt, g.Reason, g.ID = other.LastDeadAt, other.Reason, other.ID
	}
	for i := range min(len(g.ByHour), len(other.ByHour)) {
		g.ByHour[i].Count += other.ByHour[i].Count
	}
}

func (g *DeadGroup) add(r *store.Record) {
	g.Count++
	if at := r.DeadAt.UTC(); !at.Before(g.LastDeadAt) {
		g.LastDeadAt, g.Reason, g.ID = at, r.Reason, r.ID
	} else if at.Before(g.FirstDeadAt) {
		g.FirstDeadAt = at
	}
	if len(g.ByHour) == 0 {
		return
	}
	if i := int(r.DeadAt.Sub(g.ByHour[0].Hour) / time.Hour); !r.DeadAt.Before(g.ByHour[0].Hour) && i < len(g.ByHour) {
		g.ByHour[i].Count++
	}
}

// lastHours are 24 hours, the last one of which is under way.
func lastHours(now time.Time) []HourCount {
	hours := make([]HourCount, 24)
	for i := range hours {
		hours[i].Hour = now.UTC().Truncate(time.Hour).Add(time.Duration(i-23) * time.Hour)
	}
	return hours
}
