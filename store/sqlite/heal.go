package sqlite

// isAhead tells whether a message has a number that was not given yet: an append
// was committed by half, and no other finds a free number any more.
const isAhead = `SELECT (SELECT max(seq) FROM pawl_msg) > (SELECT seq FROM pawl_state)`

// healing repairs what a partial append left behind. It reads every message, once.
var healing = []string{
	// Bounds that are too early cost a look, and settings that seem new one more.
	`UPDATE pawl_state SET seq = (SELECT max(seq) FROM pawl_msg), settings = settings + 1, closed_due = 0, lease_due = 0`,
	`INSERT OR IGNORE INTO pawl_total (topic) SELECT topic FROM pawl_topic`,
	`UPDATE pawl_total SET appended = max(appended, acked + cancelled + purged + here.n)
		FROM (SELECT m.topic, count(*) AS n FROM pawl_msg m
			WHERE NOT EXISTS (SELECT 1 FROM pawl_acked a WHERE a.seq = m.seq) GROUP BY m.topic) here
		WHERE here.topic = pawl_total.topic`,
	`DELETE FROM pawl_uniq WHERE until = 0 AND NOT EXISTS (SELECT 1 FROM pawl_msg m WHERE m.id = pawl_uniq.id
		AND NOT EXISTS (SELECT 1 FROM pawl_dead d WHERE d.seq = m.seq) AND NOT EXISTS (SELECT 1 FROM pawl_acked a WHERE a.seq = m.seq))`,
	// A lane that nothing leads to gets a ticket; one that has it keeps that.
	`INSERT OR IGNORE INTO pawl_slot (topic, suspect, rank, seq, lane)
		SELECT m.topic, ` + suspicionOf + `, m.rank, m.seq, m.lane
		FROM pawl_msg m
		WHERE NOT EXISTS (SELECT 1 FROM pawl_msg f WHERE f.lane = m.lane AND f.lane < 0 AND f.seq < m.seq)
		AND NOT EXISTS (SELECT 1 FROM pawl_lease l WHERE l.lane = CASE m.lane WHEN 0 THEN m.seq ELSE m.lane END)
		AND NOT EXISTS (SELECT 1 FROM pawl_closed c WHERE c.lane = CASE m.lane WHEN 0 THEN m.seq ELSE m.lane END)
		AND NOT EXISTS (SELECT 1 FROM pawl_dead d WHERE d.seq = m.seq)
		AND NOT EXISTS (SELECT 1 FROM pawl_acked a WHERE a.seq = m.seq)`,
}

// heal repairs a file in which an append was committed by half: versions without a
// savepoint in [Store.AppendTx] left such. A file that is whole costs a look. If the
// check fails the file can still be opened: calls that need damaged data will report
// it.
func (w *writer) heal() error {
	if ahead, err := w.ahead(); !ahead && !isBusy(err) {
		return nil
	}
	if err := w.lockDatabase(); err != nil {
		return err
	}
	ahead, err := w.ahead() // no other process changes it meanwhile
	if ahead && err == nil {
		for _, statement := range healing {
			if err = w.conn.script(statement); err != nil {
				break
			}
		}
	}
	if err == nil {
		_, err = w.conn.exec("COMMIT")
	}
	if err != nil {
		_, _ = w.conn.exec("ROLLBACK")
	}
	return err
}

func (w *writer) ahead() (bool, error) {
	cols, _, err := first(w.conn, isAhead)
	return cols[0] != 0, err
}
