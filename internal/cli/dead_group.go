package cli

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

var groups = []string{"fingerprint", "kind", "topic", "hour"}

// ofAttr begins the name of a fact to group by.
const ofAttr = "attr:"

// groupNames reads what to group by: one thing, or two.
func groupNames(by string) ([]string, error) {
	if by == "" {
		return nil, nil
	}
	names := strings.Split(by, ",")
	for i, name := range names {
		if fact, ok := strings.CutPrefix(name, ofAttr); !slices.Contains(groups, name) && (!ok || fact == "") {
			return nil, usage("use one of these, or two separated by a comma",
				"--group-by is %q; it is %s or attr:NAME, a fact of the failure", by, strings.Join(groups, ", "))
		}
		if i > 1 || slices.Contains(names[:i], name) {
			return nil, usage("such as --group-by fingerprint,hour",
				"--group-by is %q; it takes one of them, or two different ones", by)
		}
	}
	return names, nil
}

// deadGroup is dead letters that have something in common, as JSON. Those of the
// last group say by an empty value that they have no such thing.
type deadGroup struct {
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
	ByHour      []hourCount       `json:"by_hour,omitempty"`
	labels      [2]string
}

// hourCount is how many died in an hour.
type hourCount struct {
	Hour  time.Time `json:"hour"`
	Count int64     `json:"count"`
}

// label says what the letters of the group, of which r is one, have in common.
func (g *deadGroup) label(names []string, r *store.Record) {
	for i, name := range names {
		switch name {
		case "fingerprint":
			g.Fingerprint, g.Kind, g.labels[i] = new(r.Fingerprint), new(string(r.Kind)), r.Fingerprint
		case "kind":
			g.Kind, g.labels[i] = new(string(r.Kind)), string(r.Kind)
		case "topic":
			g.Topic, g.labels[i] = new(r.Topic), r.Topic
		case "hour":
			hour := r.DeadAt.UTC().Truncate(time.Hour)
			g.Hour, g.labels[i] = &hour, hour.Format(time.RFC3339)
		default:
			fact := strings.TrimPrefix(name, ofAttr)
			value, stated := r.Attrs()[fact]
			if g.labels[i] = value; !stated {
				continue
			}
			if g.Attrs == nil {
				g.Attrs = map[string]string{}
			}
			g.Attrs[fact] = value
		}
	}
}

// groupDead counts while it reads; it keeps the groups only.
func (s *session) groupDead(ctx context.Context, d store.DeadLetters, f store.DeadFilter, names []string) error {
	now := operate.Now(ctx, s.opened)
	found, sums := map[[2]string]*deadGroup{}, map[string]int64{}
	f.Brief = !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, ofAttr) })
	for r, err := range d.Dead(ctx, f) {
		if err != nil {
			return cannot(err, "list dead letters")
		}
		one := deadGroup{FirstDeadAt: r.DeadAt.UTC(), LastDeadAt: r.DeadAt.UTC(), Reason: r.Reason, ID: r.ID}
		one.label(names, &r)
		g := found[one.labels]
		if g == nil {
			if g = &one; len(names) == 1 && names[0] == "fingerprint" {
				g.ByHour = lastHours(now)
			}
			found[g.labels] = g
		}
		g.add(&r)
		sums[g.labels[0]]++
	}
	sorted := slices.SortedFunc(maps.Values(found), func(a, b *deadGroup) int {
		if names[0] != "hour" {
			if c := cmp.Compare(sums[b.labels[0]], sums[a.labels[0]]); c != 0 {
				return c
			}
		}
		return cmp.Or(cmp.Compare(a.labels[0], b.labels[0]), cmp.Compare(a.labels[1], b.labels[1]))
	})
	return s.printGroups(names, sorted)
}

func (g *deadGroup) add(r *store.Record) {
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
func lastHours(now time.Time) []hourCount {
	hours := make([]hourCount, 24)
	for i := range hours {
		hours[i].Hour = now.UTC().Truncate(time.Hour).Add(time.Duration(i-23) * time.Hour)
	}
	return hours
}

func (s *session) printGroups(names []string, sorted []*deadGroup) error {
	var columns []string
	for _, name := range names {
		columns = append(columns, strings.ToUpper(name))
	}
	histogram := len(names) == 1 && names[0] == "fingerprint"
	columns = append(columns, ">COUNT", "FIRST", "LAST")
	if histogram {
		columns = append(columns, "LAST 24 HOURS")
	}
	l := s.list(append(columns, "REASON OF THE LAST", "ITS ID")...)
	for _, g := range sorted {
		var cells []string
		for i, name := range names {
			if name == "hour" {
				cells = append(cells, g.Hour.UTC().Format("2006-01-02 15:00Z"))
			} else {
				cells = append(cells, g.labels[i])
			}
		}
		cells = append(cells, number(g.Count), s.at(g.FirstDeadAt), s.at(g.LastDeadAt))
		if histogram {
			cells = append(cells, sparkline(g.ByHour))
		}
		l.add(g, append(cells, firstLine(g.Reason), g.ID)...)
	}
	return l.end("no such dead letters")
}

// sparkline draws counts by hour; a dot is none.
func sparkline(hours []hourCount) string {
	most := int64(1)
	for _, h := range hours {
		most = max(most, h.Count)
	}
	bars := []rune("▁▂▃▄▅▆▇█")
	var b strings.Builder
	for _, h := range hours {
		if h.Count == 0 {
			b.WriteByte('.')
		} else {
			b.WriteRune(bars[(h.Count*int64(len(bars))-1)/most])
		}
	}
	return b.String()
}
