package sqlite

import (
	"database/sql"
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
		OR s.suspect <> coalesce((SELECT t.rescues > 0 FROM pawl_tried t WHERE t.seq = s.seq), 0)`,
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
	if err := db.QueryRow("SELECT count(*) FROM sqlite_schema WHERE name = 'pawl_state'").Scan(&tables); err != nil || tables == 0 {
		return // the test has migrated down
	}
	for what, query := range broken {
		rows, err := db.Query(query)
		if err != nil {
			t.Errorf("look for %s: %v", what, err)
			continue
		}
		for rows.Next() {
			var where any
			if err := rows.Scan(&where); err != nil {
				t.Error(err)
			}
			t.Errorf("%s: %v", what, where)
		}
		if err := rows.Err(); err != nil {
			t.Error(err)
		}
		_ = rows.Close()
	}
}
