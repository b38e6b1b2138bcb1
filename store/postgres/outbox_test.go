package postgres

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// withOutbox opens a store with an outbox, and a connection of its application.
func withOutbox(t *testing.T) (*Store, *pgx.Conn) {
	t.Helper()
	at := server(t)
	own := freshSchema(t, at)
	join := "?"
	if strings.Contains(at, "?") {
		join = "&"
	}
	at += join + "search_path=" + own
	s := open(t, Config{URL: at, Schema: freshSchema(t, at), AutoMigrate: true, NoChores: true})
	app := application(t, at)
	execute(t, app, "CREATE SCHEMA "+own)
	if _, err := s.InstallOutbox(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, app
}

func application(t testing.TB, at string) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func execute(t testing.TB, c *pgx.Conn, sql string) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

const insertChange = `INSERT INTO pawl_outbox (projection, doc_id, op, doc)
	SELECT 'p', 'doc ' || i, 'upsert', '{}' FROM generate_series(1, %d) i`

// TestSequencesGoOn: nothing ends where the numbers of messages and dead letters leave 32 bits, or 53, in one
// of the places that take them apart.
func TestSequencesGoOn(t *testing.T) {
	s, app := withOutbox(t)
	ctx := t.Context()
	for _, bits := range []int{31, 32, 35, 36, 53, 62} {
		for _, name := range []string{"msg_seq", "dead_seq"} {
			execute(t, app, fmt.Sprintf("SELECT setval('%s.%s', %d)", s.cfg.Schema, name, int64(1)<<bits-3))
		}
		for range 6 {
			execute(t, app, fmt.Sprintf(insertChange, 1))
			m := pawl.Message{Topic: "t", Body: []byte("body")}
			if _, err := s.Append(ctx, store.Batch[pawl.Message]{Items: []pawl.Message{m}}); err != nil {
				t.Fatalf("append from 2^%d: %v", bits, err)
			}
			wants := []store.Want{{Topic: "t", Limit: 1}, {Topic: "p.index", Limit: 1}}
			ds, err := s.Claim(ctx, wants, store.Lease{For: time.Minute, Owner: "w"})
			if err != nil || len(ds) != 2 {
				t.Fatalf("claim from 2^%d: %d of 2 deliveries, %v", bits, len(ds), err)
			}
			var out []store.Settlement
			for _, d := range ds {
				out = append(out, store.Settlement{Token: d.Token, ID: d.Message.ID, Verdict: store.Dead})
			}
			if lost, err := s.Settle(ctx, store.Batch[store.Settlement]{Items: out}); err != nil || len(lost) > 0 {
				t.Fatalf("settle from 2^%d: lost %v, %v", bits, lost, err)
			}
		}
	}
	execute(t, app, "SELECT * FROM pawl_outbox_status, dead_letter_outbox")
}

// TestOutboxLocks: a transaction of many changes without a version needs no more locks of the server than one
// of few. Changes of a document wait for each other all the same, and no others do.
func TestOutboxLocks(t *testing.T) {
	s, app := withOutbox(t)
	execute(t, app, "BEGIN")
	execute(t, app, fmt.Sprintf(insertChange, 12000))
	var locks int
	count := "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid()"
	if err := app.QueryRow(t.Context(), count).Scan(&locks); err != nil {
		t.Fatal(err)
	}
	if locks > 100 {
		t.Errorf("a transaction of 12,000 changes has %d locks", locks)
	}

	// Each new projection takes one: a column that is no projection by mistake must not fill the table of locks.
	many := application(t, s.cfg.URL)
	const names = `INSERT INTO pawl_outbox (projection, doc_id, op)
		SELECT 'p' || i, 'd', 'delete' FROM generate_series($1::int, $2::int) i`
	_, err := many.Exec(t.Context(), names, 1, 101)
	if err == nil || !strings.Contains(err.Error(), "p101 is the 101st new projection") {
		t.Errorf("101 new projections: %v", err)
	}
	for from := 1; from <= 101; from += 100 { // the count is that of a transaction
		if _, err := many.Exec(t.Context(), names, from, from+99); err != nil {
			t.Errorf("100 new projections: %v", err)
		}
	}

	other := application(t, s.cfg.URL)
	execute(t, other, "SET lock_timeout = '300ms'")
	insert := `INSERT INTO pawl_outbox (projection, doc_id, op) VALUES ('p', $1, 'delete')`
	if _, err := other.Exec(t.Context(), insert, "doc 7"); err == nil {
		t.Error("a change overtook one of the same document that was not committed")
	}
	if _, err := other.Exec(t.Context(), insert, "another"); err != nil {
		t.Errorf("a change waited for one of another document: %v", err)
	}
	execute(t, app, "COMMIT")
	if _, err := other.Exec(t.Context(), insert, "doc 7"); err != nil {
		t.Errorf("after the commit: %v", err)
	}
	var rows int
	count = "SELECT count(*) FROM " + s.cfg.Schema + ".change"
	if err := app.QueryRow(t.Context(), count).Scan(&rows); err != nil || rows > 0 {
		t.Errorf("%d rows of changes are left, %v", rows, err)
	}
}

// TestViewsShowMessagesThatAreNotOfTheOutbox: one whose key, headers or body no text holds failed the views as a whole.
func TestViewsShowMessagesThatAreNotOfTheOutbox(t *testing.T) {
	s, app := withOutbox(t)
	ctx := t.Context()
	execute(t, app, fmt.Sprintf(insertChange, 1))
	for i, version := range []string{"7", "seven", "99999999999999999999", "9223372036854775807"} {
		m := pawl.Message{Topic: "p.index", Key: []byte{'k', 0xff, 0, byte('a' + i)}, Body: []byte{0xfe, 0},
			Headers: map[string]string{"op": "upsert\x00", "version": version, "trace_id": `\u0000`}}
		if _, err := s.Append(ctx, store.NewBatch(m)); err != nil {
			t.Fatal(err)
		}
	}
	const all = `SELECT string_agg(doc_id || '=' || coalesce(version::text, '-'), ' ' ORDER BY doc_id COLLATE "C") FROM `
	const want = `k\377\000a=7 k\377\000b=- k\377\000c=- k\377\000d=9223372036854775807`
	var got string
	for _, view := range []string{"pawl_outbox_status WHERE doc_id <> 'doc 1'", "dead_letter_outbox"} {
		if view == "dead_letter_outbox" {
			ds, err := s.Claim(ctx, []store.Want{{Topic: "p.index", Limit: 10}}, store.Lease{For: time.Minute, Owner: "w"})
			if err != nil || len(ds) != 5 {
				t.Fatalf("%d of 5 deliveries, %v", len(ds), err)
			}
			var out []store.Settlement
			for _, d := range ds {
				if string(d.Key) != "doc 1" {
					out = append(out, store.Settlement{Token: d.Token, ID: d.Message.ID, Verdict: store.Dead})
				}
			}
			if _, err := s.Settle(ctx, store.NewBatch(out...)); err != nil {
				t.Fatal(err)
			}
		}
		if err := app.QueryRow(ctx, all+view).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", view, err, got, want)
		}
	}
	if err := app.QueryRow(ctx, "SELECT payload FROM dead_letter_outbox LIMIT 1").Scan(&got); err != nil ||
		got != `\376\000` {
		t.Errorf("payload %q, %v", got, err)
	}
	if err := app.QueryRow(ctx, "SELECT count(*)::text FROM pawl_outbox_status").Scan(&got); err != nil || got != "5" {
		t.Errorf("%s rows, %v", got, err)
	}
}
