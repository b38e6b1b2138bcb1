package sqlite

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

// broken are queries that find what must not be, with what it would mean.
var broken = map[string]string{
	"a lane of a key with messages that has not exactly one of ticket, lease and closure": `
		SELECT b.lane FROM (SELECT DISTINCT lane FROM pawl_msg WHERE lane < 0) b
		WHERE (SELECT count(*) FROM pawl_slot s WHERE s.lane = b.lane) + (SELECT count(*) FROM pawl_lease l WHERE l.lane = b.lane)
			+ (SELECT count(*) FROM pawl_closed c WHERE c.lane = b.lane) <> 1`,
	"a message of its own lane that is not in exactly one place": `
		SELECT m.seq FROM pawl_msg m WHERE m.lane = 0
		AND (SELECT count(*) FROM pawl_slot s WHERE s.seq = m.seq AND s.lane = 0) + (SELECT count(*) FROM pawl_lease l WHERE l.lane = m.seq)
			+ (SELECT count(*) FROM pawl_closed c WHERE c.lane = m.seq) + (SELECT count(*) FROM pawl_dead d WHERE d.seq = m.seq)
			+ (SELECT count(*) FROM pawl_acked a WHERE a.seq = m.seq) <> 1`,
	"a ticket that is not that of the first message of its lane": `
		SELECT s.seq FROM pawl_slot s LEFT JOIN pawl_msg m ON m.seq = s.seq
		WHERE m.seq IS NULL OR m.topic <> s.topic OR m.rank <> s.rank OR m.lane <> s.lane
		OR s.lane < 0 AND s.seq <> (SELECT min(f.seq) FROM pawl_msg f WHERE f.lane = s.lane AND f.lane < 0)
		OR s.suspect <> coalesce((SELECT CASE WHEN t.rescues >= 2 THEN min(t.rescues, 4) END FROM pawl_tried t WHERE t.seq = s.seq), 0)`,
	"a lease without its last message": `
		SELECT l.lane FROM pawl_lease l LEFT JOIN pawl_msg m ON m.seq = l.last
		WHERE m.seq IS NULL OR l.lane <> CASE m.lane WHEN 0 THEN m.seq ELSE m.lane END`,
	"a closure of a message that is not there": `
		SELECT lane FROM pawl_closed c WHERE lane > 0 AND NOT EXISTS (SELECT 1 FROM pawl_msg m WHERE m.seq = c.lane)`,
	"a bound that is too late": `
		SELECT closed_due FROM pawl_state WHERE closed_due > (SELECT min(at) FROM pawl_closed)
		OR lease_due > (SELECT min(until) FROM pawl_lease)`,
	"a lane with messages that its key does not lead to": `
		SELECT m.lane FROM pawl_msg m WHERE m.lane < 0 AND NOT EXISTS (SELECT 1 FROM pawl_key k WHERE k.lane = m.lane)`,
	"traces of a message that is not there": `
		SELECT seq FROM (SELECT seq FROM pawl_tried UNION ALL SELECT seq FROM pawl_attempt UNION ALL SELECT seq FROM pawl_dead
		UNION ALL SELECT seq FROM pawl_acked) x WHERE NOT EXISTS (SELECT 1 FROM pawl_msg m WHERE m.seq = x.seq)`,
	"a unique key of a message that does not live": `
		SELECT hex(ukey) FROM pawl_uniq u WHERE until = 0 AND NOT EXISTS (SELECT 1 FROM pawl_msg m WHERE m.id = u.id
		AND NOT EXISTS (SELECT 1 FROM pawl_dead d WHERE d.seq = m.seq) AND NOT EXISTS (SELECT 1 FROM pawl_acked a WHERE a.seq = m.seq))`,
	"a number that was not given yet": `
		SELECT max(seq) FROM pawl_msg HAVING max(seq) > (SELECT seq FROM pawl_state)`,
}

// intact fails the test unless the file is whole and says nothing contradictory.
func intact(t testing.TB, path string) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, "mode=rw&_query_only=1&_busy_timeout=5000"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("the file is damaged: %s, %v", verdict, err)
	}
	var tables int
	if err := db.QueryRow("SELECT count(*) FROM sqlite_schema WHERE name = 'pawl_state'").Scan(&tables); err != nil ||
		tables == 0 {
		return // the test has migrated down
	}
	for what, query := range broken {
		if found, where := finds(t, db, query); found {
			t.Errorf("%s: %v", what, where)
		}
	}
}

// finds reports whether a query finds something, and the first.
func finds(t testing.TB, db *sql.DB, query string) (found bool, where any) {
	t.Helper()
	switch err := db.QueryRow(query).Scan(&where); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		t.Errorf("%v: %s", err, query)
	}
	return true, where
}

// TestContradictionsAreFound: the checks of intact can fail.
func TestContradictionsAreFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path})
	load(t, s, 1000, 10)
	load(t, s, 1000, 0)
	db := application(t, path)
	for what, sabotage := range map[string]string{
		"not exactly one of":   `DELETE FROM pawl_slot WHERE lane < 0`,
		"its own lane":         `DELETE FROM pawl_slot WHERE lane = 0 AND seq % 2 = 0`,
		"a ticket that is not": `UPDATE pawl_slot SET suspect = 1`,
		"a lease without":      `INSERT INTO pawl_lease VALUES (77777, 1, 1, 1, 1, 1, 77777, 0, 0, '')`,
		"a closure":            `INSERT INTO pawl_closed VALUES (77777, 1, 1, 0)`,
		"a bound":              `INSERT INTO pawl_closed VALUES (77777, 1, 1, 0)`,
		"does not lead to":     `DELETE FROM pawl_key`,
		"traces":               `INSERT INTO pawl_tried (seq, attempts, rescues, lonely, reason) VALUES (77777, 1, 1, 1, '')`,
		"a unique key":         `INSERT INTO pawl_uniq VALUES (x'00', 0, x'00')`,
		"a number":             `UPDATE pawl_state SET seq = 1`,
	} {
		seen := false
		for name, query := range broken {
			if !strings.Contains(name, what) {
				continue
			}
			if found, _ := finds(t, db, query); found {
				t.Errorf("%s: found before it is there", name)
			}
			tx, err := db.Begin()
			must(t, err)
			_, err = tx.Exec(sabotage)
			must(t, err)
			var where any
			seen = tx.QueryRow(query).Scan(&where) == nil
			must(t, tx.Rollback())
		}
		if !seen {
			t.Errorf("%q is not found", what)
		}
	}
}
