package cli

import (
	"context"
	"strings"

	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
)

// groupNames reads what to group by.
func groupNames(by string) ([]string, error) {
	names, err := operate.GroupNames(by)
	if err != nil {
		return nil, usage("such as --group-by fingerprint,hour", "--%s",
			strings.Replace(err.Error(), "group_by", "group-by", 1))
	}
	return names, nil
}

// groupDead counts, and prints the groups.
func (s *session) groupDead(ctx context.Context, d store.DeadLetters, f store.DeadFilter, names []string) error {
	sorted, err := operate.GroupDead(ctx, s.opened, d, f, names)
	if err != nil {
		return cannot(err, "list dead letters")
	}
	return s.printGroups(names, sorted)
}

func (s *session) printGroups(names []string, sorted []*operate.DeadGroup) error {
	var columns []string
	for _, name := range names {
		columns = append(columns, strings.ToUpper(name))
	}
	histogram := len(names) == 1 && names[0] == "fingerprint"
	columns = append(columns, ">COUNT", "FIRST", "LAST")
	if histogram {
		columns = append(columns, "LAST 24 H")
	}
	l := s.list(append(columns, "REASON", "ITS ID")...)
	for _, g := range sorted {
		var cells []string
		for i, name := range names {
			if name == "hour" {
				cells = append(cells, g.Hour.UTC().Format("2006-01-02 15:00Z"))
			} else {
				cells = append(cells, g.Labels[i])
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
func sparkline(hours []operate.HourCount) string {
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
