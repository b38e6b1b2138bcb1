package cli

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/internal/app"
	"github.com/pawl-dev/pawl/store"
)

func (s *session) deadLs() *cobra.Command {
	var f deadFilter
	var by string
	c := &cobra.Command{
		Use: "ls", Short: "List dead letters, or count them by cause", Args: count(0, 0, "flags only"),
		Long: `Lists dead letters, the oldest death first. With --group-by it counts them
instead: by fingerprint, which is the same for failures with one cause, by kind of
error, by topic, or by the hour of death.

A table shows the first 100; -o json and -o jsonl have all, unless --limit says
otherwise.`,
		Example: `  pawl dead ls
  pawl dead ls --group-by fingerprint
  pawl dead ls --topic mail --reason timeout --since 2h -o jsonl`,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.limit < 0 {
				return usage("use 0 for no limit", "--limit is %d", f.limit)
			}
			if by != "" && !slices.Contains(groups, by) {
				return usage("use one of these", "--group-by is %q; it is %s", by, strings.Join(groups, ", "))
			}
			d, err := part[store.DeadLetters](c.Context(), s, "list dead letters")
			if err != nil {
				return err
			}
			if by != "" {
				return s.groupDead(c.Context(), d, f.filter(), by)
			}
			if s.output == formatTable && !c.Flags().Changed("limit") {
				f.limit = tableRows
			}
			return s.listDead(c.Context(), d, f.filter())
		},
	}
	f.add(c.Flags(), "reason")
	c.Flags().StringVar(&by, "group-by", "", "count by fingerprint, kind, topic or hour")
	return c
}

func (s *session) listDead(ctx context.Context, d store.DeadLetters, f store.DeadFilter) error {
	l := s.list("ID", "TOPIC", "KEY", "DEAD AT", ">ATTEMPTS", "KIND", "FINGERPRINT", "REASON")
	for r, err := range d.Dead(ctx, f) {
		if err != nil {
			return cannot(err, "list dead letters")
		}
		m := app.FormDeadLetter(&r)
		err := l.add(m, m.ID, m.Topic, cut(keyCell(&m.Message), 24), when(m.DeadAt), number(m.Attempt), m.Kind, m.Fingerprint, firstLine(m.Reason))
		if err != nil {
			return err
		}
	}
	if s.output == formatTable && l.n == tableRows {
		s.note("these are the first %d; --limit 0 lists all, --group-by counts", tableRows)
	}
	return l.end("no such dead letters")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return cut(oneLine(line), 80)
}

var groups = []string{"fingerprint", "kind", "topic", "hour"}

// deadGroup is dead letters that have something in common, as JSON. Those of the
// last group say by an empty value that they have no such thing.
type deadGroup struct {
	Fingerprint *string    `json:"fingerprint,omitempty"`
	Kind        *string    `json:"kind,omitempty"`
	Topic       *string    `json:"topic,omitempty"`
	Hour        *time.Time `json:"hour,omitempty"`
	Count       int64      `json:"count"`
	FirstDeadAt time.Time  `json:"first_dead_at"`
	LastDeadAt  time.Time  `json:"last_dead_at"`
	Reason      string     `json:"reason"` // of the last one
	ID          string     `json:"id"`     // of the last one
	name        string
}

// groupDead counts while it reads; it keeps the groups only.
func (s *session) groupDead(ctx context.Context, d store.DeadLetters, f store.DeadFilter, by string) error {
	found := map[string]*deadGroup{}
	for r, err := range d.Dead(ctx, f) {
		if err != nil {
			return cannot(err, "list dead letters")
		}
		name, hour := groupOf(&r, by)
		g := found[name]
		if g == nil {
			g = &deadGroup{name: name, FirstDeadAt: r.DeadAt.UTC()}
			g.label(by, &r, hour)
			found[name] = g
		}
		g.Count++
		g.LastDeadAt, g.Reason, g.ID = r.DeadAt.UTC(), r.Reason, r.ID
	}
	var sorted []*deadGroup
	for _, g := range found {
		sorted = append(sorted, g)
	}
	slices.SortFunc(sorted, func(a, b *deadGroup) int {
		if by == "hour" {
			return cmp.Compare(a.name, b.name)
		}
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.name, b.name))
	})
	l := s.list(strings.ToUpper(by), ">COUNT", "FIRST", "LAST", "REASON OF THE LAST", "ITS ID")
	for _, g := range sorted {
		label := g.name
		if by == "hour" {
			label = g.Hour.Local().Format("2006-01-02 15:00")
		}
		if err := l.add(g, label, number(g.Count), when(g.FirstDeadAt), when(g.LastDeadAt), firstLine(g.Reason), g.ID); err != nil {
			return err
		}
	}
	return l.end("no such dead letters")
}

func groupOf(r *store.Record, by string) (name string, hour time.Time) {
	switch by {
	case "kind":
		return string(r.Kind), hour
	case "topic":
		return r.Topic, hour
	case "hour":
		hour = r.DeadAt.UTC().Truncate(time.Hour)
		return hour.Format(time.RFC3339), hour
	}
	return r.Fingerprint, hour
}

func (g *deadGroup) label(by string, r *store.Record, hour time.Time) {
	switch by {
	case "kind":
		g.Kind = new(string(r.Kind))
	case "topic":
		g.Topic = new(r.Topic)
	case "hour":
		g.Hour = &hour
	default:
		g.Fingerprint, g.Kind = new(r.Fingerprint), new(string(r.Kind))
	}
}
