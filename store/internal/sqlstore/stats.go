package sqlstore

import (
	"cmp"
	"slices"

	"github.com/pawl-dev/pawl/store"
)

// Waiting is how many messages wait in a topic of which everything else is counted.
func Waiting(st *store.TopicStats) int64 {
	return st.Appended - st.Acked - st.Cancelled - st.Purged - st.Dead - st.Resolved - st.Leased - st.Delayed
}

// SortStats returns the figures of topics, by name.
func SortStats[ID comparable](by map[ID]*store.TopicStats) []store.TopicStats {
	all := make([]store.TopicStats, 0, len(by))
	for _, st := range by {
		if st.Waiting = Waiting(st); st.Waiting == 0 {
			st.OldestWaiting = 0
		}
		all = append(all, *st)
	}
	slices.SortFunc(all, func(a, b store.TopicStats) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
