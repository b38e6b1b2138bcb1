package postgres

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestDeadLettersAreLockedInOrder: a call that names b before a waits for whoever
// has a, without having b: who has a gets b, too, so that the two never wait for
// each other.
func TestDeadLettersAreLockedInOrder(t *testing.T) {
	type call struct {
		of   func(*testing.T, *Store, ...string) error
		with func(context.Context, *Store, *tx, string) error
		dead []string // letters that are there: those with a name and, behind a slash, a unique key
		mine []string // what whoever was first takes, if it is not a and b
	}
	for name, c := range map[string]call{
		"edit":   {of: editAll, with: editIn, dead: []string{"a", "b"}},
		"replay": {of: replayAll, with: replayIn, dead: []string{"a", "b"}},
		"purge": {of: purgeAll, dead: []string{"a", "b"}, with: func(ctx context.Context, _ *Store, t *tx,
			id string) error {
			return t.run(ctx, do(lockPurged, sortedIDs([]string{id})))
		}},
		"import": {of: importAll, with: importIn},
		"unique keys": {of: replayAll, with: replayIn, dead: []string{"a/2", "b/1", "c/1", "d/2"},
			mine: []string{"c", "d"}},
	} {
		t.Run(name, func(t *testing.T) {
			at := server(t)
			cfg := Config{URL: at, Schema: freshSchema(t, at), AutoMigrate: true, MaxConns: 4, NoChores: true}
			s, peer := open(t, cfg), open(t, cfg)
			if err := importAll(t, s, append(c.dead, "z")...); err != nil { // the topic is there
				t.Fatal(err)
			}
			mine, theirs := []string{"a", "b"}, []string{"b", "a"}
			if c.mine != nil {
				mine, theirs = c.mine, []string{"a", "b"} // their keys are the other way round
			}
			ended := make(chan error, 1)
			err := s.within(t.Context(), s.front, []string{"SET LOCAL lock_timeout = '300ms'"}, func(own *tx) error {
				if err := c.with(t.Context(), s, own, mine[0]); err != nil {
					return err
				}
				go func() { ended <- c.of(t, peer, theirs...) }()
				waitsForLock(t, at, s.cfg.Schema)
				return c.with(t.Context(), s, own, mine[1])
			})
			if err != nil {
				t.Errorf("whoever has the first waits for the second: %v", err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// waitsForLock returns when a call of a store in the schema waits for another.
func waitsForLock(t *testing.T, at, schema string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for range 200 {
		n := 0
		if err := c.QueryRow(t.Context(),
			`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND position($1 IN query) > 0`,
			schema).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
		if _, err := c.Exec(t.Context(), "SELECT pg_sleep(0.01)"); err != nil {
			t.Fatal(err)
		}
	}
	t.Error("nobody waits")
}

func someLetters(names ...string) (ls []store.Record) {
	for _, name := range names {
		m := pawl.Message{ID: name[:1], Topic: "t", Body: []byte("x")}
		if len(name) == 3 && name[1] == '/' {
			m.Unique = pawl.Unique{Key: name[2:]}
		}
		ls = append(ls, store.Record{Message: m, Attempts: 1, EnqueuedAt: time.Now(), DeadAt: time.Now(), Kind: "K",
			Reason: "r"})
	}
	return ls
}

func edits(ids ...string) (as []store.Edit) {
	for i, id := range ids {
		as = append(as, store.Edit{ID: id, Body: []byte(strconv.Itoa(i))})
	}
	return as
}

func editAll(t *testing.T, s *Store, ids ...string) error {
	_, err := s.Edit(t.Context(), edits(ids...)...)
	return err
}

func replayAll(t *testing.T, s *Store, ids ...string) error {
	_, err := s.Replay(t.Context(), "", ids...)
	return err
}

func purgeAll(t *testing.T, s *Store, ids ...string) error {
	_, err := s.Purge(t.Context(), ids...)
	return err
}

func importAll(t *testing.T, s *Store, names ...string) error {
	_, err := s.Import(t.Context(), someLetters(names...)...)
	return err
}

func editIn(ctx context.Context, s *Store, own *tx, id string) error {
	return s.edit(ctx, own, edits(id), map[string]error{})
}

func replayIn(ctx context.Context, s *Store, own *tx, id string) error {
	return (&replaying{letters: s.letters, ids: []string{id}}).revive(ctx, own, true)
}

func importIn(ctx context.Context, s *Store, own *tx, id string) error {
	return s.importAll(ctx, own, someLetters(id), map[string]error{})
}
