package observe

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/observe/figures"
)

func someSpill(topic string) figures.Spill {
	return figures.Spill{LatchedKeys: 3, Blind: 4, Topics: []figures.SpillTopic{{
		Topic: topic, Pending: 5, Dead: 6, OldestPending: 7 * time.Second, Down: true,
		Totals: figures.Totals{SpilledFailed: 5, SpilledUnknown: 3, Diverted: 9, Lost: 10, Compensated: 11,
			CompensationsFailed: 12},
	}}}
}

// Totals are told as they grow; what waits, as it stands.
func TestSpillFigures(t *testing.T) {
	m, reg := metrics(t)
	m.Spill(someSpill("a"), true)
	next := someSpill("a")
	next.Topics[0].SpilledUnknown, next.Topics[0].Pending, next.Topics[0].Down = 15, 0, false
	m.Spill(next, true)
	recorder := httptest.NewRecorder()
	Handler(reg).ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", nil))
	for _, want := range []string{
		`pawl_spill_latched_keys 3`,
		`pawl_spill_blind_total 4`,
		`pawl_spill_pending_messages{topic="a"} 0`,
		`pawl_spill_dead_messages{topic="a"} 6`,
		`pawl_spill_oldest_pending_age_seconds{topic="a"} 7`,
		`pawl_spill_down{topic="a"} 0`,
		`pawl_spill_messages_total{result="fallback",topic="a"} 20`,
		`pawl_spill_messages_total{result="diverted",topic="a"} 9`,
		`pawl_spill_messages_total{result="lost",topic="a"} 10`,
		`pawl_spill_compensated_total{topic="a"} 11`,
		`pawl_spill_compensation_failures_total{topic="a"} 12`,
	} {
		if !slices.Contains(strings.Split(recorder.Body.String(), "\n"), want) {
			t.Errorf("missing: %s", want)
		}
	}
}
