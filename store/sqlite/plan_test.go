package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// hot are the statements of the usual ways, and those that must stay cheap
// however much is stored.
var hot = map[string]string{
	"loadState": loadState, "saveState": saveState, "addTotals": addTotals,
	"insertMessage": insertMessage, "insertSlot": insertSlot, "selectSeq": selectSeq,
	"selectForgotten": selectForgotten,
	"selectOutcome":   selectOutcome, "takeUnique": takeUnique, "selectUnique": selectUnique, "freeUnique": freeUnique,
	"takeLane": takeLane, "selectLane": selectLane, "openLane": openLane, "openOwn": openOwn, "reopen": reopen,
	"endLease": endLease,
	"joinLane": joinLane, "renumber": renumber[0], "renumberAll": renumber[1],
	"selectDue": selectDue, "firstDue": firstDue, "firstOfLane": firstOfLane, "selectTried": selectTried,
	"insertAttempt": insertAttempt,
	"hasSlot":       hasSlot, "hasSuspect": hasSuspect, "hasAlone": hasAlone, "selectHeads": selectHeads,
	"selectRest": selectRest, "leaseHeads": leaseHeads,
	"takeSlots": takeSlots, "setLease": setLease, "anyDead": anyDead, "selectFirst": selectFirst,
	"keyIsDead":    keyIsDead,
	"selectFollow": selectFollow, "takeSlot": takeSlot, "extendLease": extendLease,
	"selectLease": selectLease, "topicOfRun": topicOfRun, "ackLease": ackLease, "countSpan": countSpan,
	"leasesOfSpan": leasesOfSpan,
	"ackSpan":      ackSpan, "dropSpan": dropSpan, "countRun": countRun, "dropTried": dropTried,
	"dropAttempts": dropAttempts, "openSpan": openSpan, "selectEntry": selectEntry,
	"purgeBatches": purgeBatches, "purgeUnique": purgeUnique, "selectForget": selectForget, "endOfKeys": endOfKeys,
	"purgeKeys":   purgeKeys,
	"selectPlace": selectPlace, "recordByID": recordByID, "deadPage": selectDead + deadPage,
	"deadTopic": selectDead + deadTopic,
	"briefPage": selectBrief + deadPage, "briefTopic": selectBrief + deadTopic, "selectContent": selectContent,
	"updateContent": updateContent,
	"insertBuried":  insertBuried, "versionOf": versionOf, "selectEntryOf": selectEntryOf, "putEntry": putEntry,
	"deleteEntry":   deleteEntry,
	"selectHistory": selectHistory, "headVisible": headVisible,
	"isLeased": `SELECT 1 FROM pawl_msg m WHERE 1 ` + isLeased,
}

// TestPlans: every statement finds its rows by an index, in a file with and
// without statistics.
func TestPlans(t *testing.T) {
	s := open(t, Config{Path: filepath.Join(t.TempDir(), "pawl.db")})
	load(t, s, 3000, 0)
	load(t, s, 3000, 100)
	burn(t, s, "bench", 1000)
	if _, err := s.Claim(t.Context(), []store.Want{{Topic: "bench", Limit: 500}},
		store.Lease{For: time.Minute}); err != nil {
		t.Fatal(err)
	}
	var delayed []pawl.Message
	for range 300 {
		delayed = append(delayed, pawl.Message{Topic: "bench", Delay: time.Hour,
			Unique: pawl.Unique{Key: pawl.NewID()}})
	}
	if _, err := s.Append(t.Context(), store.NewBatch(delayed...)); err != nil {
		t.Fatal(err)
	}
	kill(t, s, "bench", 300)
	c, err := connect(t.Context(), dsn(s.cfg.Path, "mode=rw"))
	must(t, err)
	defer func() { _ = c.close() }()
	for _, statistics := range []bool{false, true} {
		if statistics {
			must(t, c.script("ANALYZE"))
			must(t, c.close())
			c, err = connect(t.Context(), dsn(s.cfg.Path, "mode=rw"))
			must(t, err)
		}
		for name, query := range hot {
			for _, step := range plan(t, c, query) {
				if bad(step) {
					t.Errorf("%s (statistics: %v): %s", name, statistics, step)
				}
			}
		}
	}
}

// kill makes dead letters.
func kill(t *testing.T, s *Store, topic string, n int) {
	t.Helper()
	ds, err := s.Claim(t.Context(), []store.Want{{Topic: topic, Limit: n}}, store.Lease{For: time.Minute})
	must(t, err)
	var items []store.Settlement
	for i := range ds {
		items = append(items, store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Dead,
			Failure: store.Failure{Error: "x"}})
	}
	if refused, err := s.Settle(t.Context(), store.NewBatch(items...)); err != nil || len(refused) > 0 {
		t.Fatal(refused, err)
	}
}

// plan is how SQLite would run a statement.
func plan(t *testing.T, c *conn, query string) (steps []string) {
	t.Helper()
	args := make([]any, 20)
	for i := range args {
		args[i] = int64(1)
	}
	err := c.query("EXPLAIN QUERY PLAN "+query, func(r row) error {
		steps = append(steps, r.text(3))
		return nil
	}, args...)
	must(t, err)
	return steps
}

// bad tells a step that reads a table from end to end, or sorts. Reading in the
// order of an index, up to a limit, is neither.
func bad(step string) bool {
	if strings.Contains(step, "TEMP B-TREE") || strings.HasSuffix(step, "(lane<?)") { // of every key
		return true
	}
	table, scans := strings.CutPrefix(step, "SCAN ")
	if !scans {
		return false
	}
	for _, small := range []string{"pawl_state", "CONSTANT ROW", "busy",
		"pawl_closed USING COVERING INDEX pawl_closed_at"} {
		if table == small || strings.HasPrefix(table, small+" ") {
			return false
		}
	}
	return true
}
