package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// withSend opens a store, and a connection of an application that finds pawl_send beside its tables.
func withSend(t testing.TB) (*Store, *pgx.Conn) {
	t.Helper()
	at := server(t)
	own := freshSchema(t, at)
	execute(t, application(t, at), "CREATE SCHEMA "+own)
	join := "?"
	if strings.Contains(at, "?") {
		join = "&"
	}
	at += join + "search_path=" + own
	s := open(t, Config{URL: at, Schema: freshSchema(t, at), AutoMigrate: true, NoChores: true})
	return s, application(t, at)
}

// callSend calls pawl_send.
func callSend(ctx context.Context, c *pgx.Conn, topic, body string, key any, options string) (id string, err error) {
	err = c.QueryRow(ctx, "SELECT pawl_send($1, $2::text, $3, $4::jsonb)", topic, body, key, options).Scan(&id)
	return id, err
}

func mustSend(t *testing.T, c *pgx.Conn, topic, body string, key any, options string) string {
	t.Helper()
	id, err := callSend(t.Context(), c, topic, body, key, options)
	if err != nil {
		t.Fatalf("pawl_send(%q, %q, %v, %s): %v", topic, body, key, options, err)
	}
	return id
}

func claimAll(t *testing.T, s *Store, topic string) []pawl.Delivery {
	t.Helper()
	wants := []store.Want{{Topic: topic, Limit: 100, Run: 100}}
	ds, err := s.Claim(t.Context(), wants, store.Lease{For: time.Minute, Owner: "w"})
	if err != nil {
		t.Fatal(err)
	}
	return ds
}

// rowsOfOne are all rows of the only message of a store, $1 with its id, but for what differs between two appends.
const rowsOfOne = `SELECT concat_ws(E'\n',
	(SELECT (m.lane - m.seq * (m.lane > 0)::int,
	m.rank - (extract(epoch FROM m.vis) * 1000000)::bigint,
	m.topic, m.prio, m.replays, CASE WHEN $1 THEN m.id END, m.key, m.uniq, m.body,
	nullif(m.meta, '')::jsonb)::text
	FROM @msg m),
	(SELECT (s.band % 128, s.lane, s.rank - m.rank, s.seq - m.seq)::text FROM @slot s, @msg m),
	(SELECT (l.lane - m.lane, l.token, l.reach, l.first - m.seq, l.last - m.seq, l.until - m.vis)::text
	FROM @lease l, @msg m),
	(SELECT (u.k, CASE WHEN u.until = 'infinity' THEN NULL ELSE u.until - m.vis END,
	u.until IS NULL, u.id = m.id)::text FROM @uniq u, @msg m),
	(SELECT (y.topic, y.what, y.n)::text FROM @tally y))`

// TestSendIsAppend: what SQL sends is what Append stores, field by field and row by row.
func TestSendIsAppend(t *testing.T) {
	s, app := withSend(t)
	ctx := t.Context()
	for i, c := range []struct {
		options string
		m       pawl.Message
	}{
		{`{}`, pawl.Message{}},
		{`{}`, pawl.Message{Key: []byte("ann é")}},
		{`{"id": null, "headers": {}, "until_claimed": false}`, pawl.Message{}},
		{`{"priority": 100}`, pawl.Message{Priority: 100, Key: []byte("k")}},
		{`{"id": "é-1"}`, pawl.Message{ID: "é-1"}},
		{`{"id": "01890a5d-ac96-774b-bcce-b302099a8057"}`, pawl.Message{ID: "01890a5d-ac96-774b-bcce-b302099a8057"}},
		{`{"id": "00890a5d-ac96-774b-bcce-b302099a8057"}`, pawl.Message{ID: "00890a5d-ac96-774b-bcce-b302099a8057"}},
		{`{"headers": {"a": "é\"\\", "bb": ""}}`, pawl.Message{Headers: map[string]string{"a": `é"\`, "bb": ""}}},
		{`{"delay_seconds": 0.0000015}`, pawl.Message{Delay: 1500}},
		{`{"delay_seconds": 3600, "priority": 7}`, pawl.Message{Delay: time.Hour, Priority: 7, Key: []byte("k")}},
		{`{"headers": {"Pawl-Timeout": "1h30m0.5s"}}`, pawl.Message{Headers: map[string]string{"Pawl-Timeout": "1h30m0.5s"}}},
		{`{"headers": {"Pawl-Attempts": "1000"}}`, pawl.Message{Headers: map[string]string{"Pawl-Attempts": "1000"}}},
		{`{"headers": {"Pawl-Retry-For": "87660h0m0s"}}`, pawl.Message{Headers: map[string]string{"Pawl-Retry-For": "87660h0m0s"}}},
		{`{"unique_key": "u"}`, pawl.Message{Unique: pawl.Unique{Key: "u"}}},
		{`{"unique_key": "` + strings.Repeat("é", 99) + `", "unique_scope": "s", "unique_for_seconds": 1.5}`,
			pawl.Message{Unique: pawl.Unique{Key: strings.Repeat("é", 99), Scope: "s", For: 1500 * time.Millisecond}}},
		{`{"unique_key": "u", "until_claimed": true}`,
			pawl.Message{Unique: pawl.Unique{Key: "u", For: pawl.UntilClaimed}}},
		{`{"unique_key": "u", "unique_for_seconds": 1e300}`,
			pawl.Message{Unique: pawl.Unique{Key: "u", For: pawl.Forever}}},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			execute(t, app, "TRUNCATE "+s.named("@msg, @slot, @lease, @uniq, @tally, @claim"))
			c.m.Topic, c.m.Body = "mail", []byte(`{"to": "é"}`)
			look := func() (rows string) {
				if err := app.QueryRow(ctx, s.named(rowsOfOne), c.m.ID != "").Scan(&rows); err != nil {
					t.Fatal(err)
				}
				return rows
			}
			appended, err := s.Append(ctx, store.NewBatch(c.m))
			if err != nil || appended[0].Err != nil {
				t.Fatal(appended, err)
			}
			want := look()
			execute(t, app, "TRUNCATE "+s.named("@msg, @slot, @lease, @uniq, @tally"))
			var key any
			if c.m.Key != nil {
				key = string(c.m.Key)
			}
			id := mustSend(t, app, "mail", string(c.m.Body), key, c.options)
			if got := look(); got != want {
				t.Errorf("rows of pawl_send:\n%s\nof Append:\n%s", got, want)
			}
			if c.m.ID == "" && (len(id) != 36 || id[14] != '7' || !strings.ContainsRune("89ab", rune(id[19]))) {
				t.Errorf("id %s is no UUID version 7", id)
			}
			if c.m.Delay > time.Second {
				return
			}
			if c.m.Delay > 0 {
				time.Sleep(10 * time.Millisecond)
				if _, err := s.sweepLanes(ctx, 0); err != nil {
					t.Fatal(err)
				}
			}
			ds := claimAll(t, s, "mail")
			if len(ds) != 1 {
				t.Fatalf("%d of 1 deliveries", len(ds))
			}
			c.m.ID = id
			if !reflect.DeepEqual(ds[0].Message, c.m) {
				t.Errorf("claimed %+v\nwant    %+v", ds[0].Message, c.m)
			}
		})
	}
}

// TestSendBodies: a body is text, bytes or JSON; a literal is text.
func TestSendBodies(t *testing.T) {
	s, app := withSend(t)
	for _, body := range []string{`'{"a":  1}'`, `'\x00ff'::bytea`, `'{"a":  1}'::jsonb`, `'null'::jsonb`, `''`} {
		execute(t, app, "SELECT pawl_send('b', "+body+")")
	}
	execute(t, app, "SELECT pawl_send(topic => 'b', body => 'named', options => '{\"priority\": 0}')")
	var got []string
	for _, d := range claimAll(t, s, "b") {
		got = append(got, string(d.Body))
	}
	want := []string{`{"a":  1}`, "\x00\xff", `{"a": 1}`, "null", "", "named"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("bodies %q, want %q", got, want)
	}
}

// TestSendRefuses: an invalid message raises 22023 with the reason, and nothing is stored.
func TestSendRefuses(t *testing.T) {
	s, app := withSend(t)
	const manyHeaders = "SELECT jsonb_build_object('headers', jsonb_object_agg(i::text, '')) FROM generate_series(1, 129) i"
	long := strings.Repeat("x", 1025)
	for call, want := range map[string]string{
		`null, 'b'`:                                                     "topic is null",
		`'', 'b'`:                                                       "topic is 0 bytes",
		`'a b', 'b'`:                                                    "topic 'a b'",
		`'` + long + `', 'b'`:                                           "topic is 1025 bytes",
		`'t', null`:                                                     "body is null",
		`'t', null::bytea`:                                              "body is null",
		`'t', null::jsonb`:                                              "body is null",
		`'t', repeat('x', 16777217)`:                                    "body is 16777217 bytes",
		`'t', 'b', ''`:                                                  "key is empty",
		`'t', 'b', '` + long + `'`:                                      "key has more",
		`'t', 'b', null, '[]'`:                                          "options are of type array",
		`'t', 'b', null, 'null'`:                                        "options are of type null",
		`'t', 'b', null, '{"prio": null}'`:                              "unknown 'prio'",
		`'t', 'b', null, '{"priority": "5"}'`:                           "priority is of type string",
		`'t', 'b', null, '{"priority": 1.5}'`:                           "priority is 1.5",
		`'t', 'b', null, '{"priority": 101}'`:                           "priority is 101",
		`'t', 'b', null, '{"priority": -1}'`:                            "priority is -1",
		`'t', 'b', null, '{"priority": 1e99}'`:                          "priority is 1",
		`'t', 'b', null, '{"delay_seconds": -0.1}'`:                     "delay_seconds is -0.1",
		`'t', 'b', null, '{"delay_seconds": 315576001}'`:                "delay_seconds is 315576001",
		`'t', 'b', null, '{"id": "a\nb"}'`:                              "id has control characters",
		`'t', 'b', null, '{"id": "` + long + `"}'`:                      "id has more",
		`'t', 'b', null, '{"headers": []}'`:                             "headers is of type array",
		`'t', 'b', null, '{"headers": {"a": 1}}'`:                       "headers need",
		`'t', 'b', null, '{"headers": {"": "a"}}'`:                      "headers need",
		`'t', 'b', null, '{"headers": {"Pawl-Attempts": "-5"}}'`:        "Pawl-Attempts is '-5'",
		`'t', 'b', null, '{"headers": {"Pawl-Attempts": "1001"}}'`:      "Pawl-Attempts is '1001'",
		`'t', 'b', null, '{"headers": {"Pawl-Timeout": "-1s"}}'`:        "are durations",
		`'t', 'b', null, '{"headers": {"Pawl-Retry-For": "0h"}}'`:       "are durations",
		`'t', 'b', null, '{"headers": {"Pawl-Retry-For": "87660h1s"}}'`: "are durations",
		`'t', 'b', null, ('{"headers": {"a": "' || repeat('x', 32768) || '"}}')::jsonb`:         "headers are 32769 bytes",
		`'t', 'b', null, (` + manyHeaders + `)`:                                                 "headers are 129",
		`'t', 'b', null, '{"unique_scope": "s"}'`:                                               "unique_key is empty",
		`'t', 'b', null, '{"unique_for_seconds": 0}'`:                                           "unique_key is empty",
		`'t', 'b', null, '{"until_claimed": true}'`:                                             "unique_key is empty",
		`'t', 'b', null, '{"unique_key": "` + long + `"}'`:                                      "unique_key or unique_scope",
		`'t', 'b', null, '{"unique_key": "u", "unique_for_seconds": -1}'`:                       "unique_for_seconds is -1",
		`'t', 'b', null, '{"unique_key": "u", "unique_for_seconds": 1, "until_claimed": true}'`: "give one",
	} {
		_, err := app.Exec(t.Context(), "SELECT pawl_send("+call+")")
		e, ok := errors.AsType[*pgconn.PgError](err)
		if !ok || e.Code != "22023" || !strings.Contains(e.Message, want) {
			t.Errorf("pawl_send(%.90s): %v; want 22023 %s", call, err, want)
		}
	}
	if _, err := app.Exec(t.Context(), "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT pawl_send('t', 'b')"); err == nil {
		t.Error("a transaction of isolation REPEATABLE READ was taken")
	}
	execute(t, app, "ROLLBACK")
	var rows int
	count := s.named("SELECT (SELECT count(*) FROM @msg) + (SELECT count(*) FROM @topic)")
	if err := app.QueryRow(t.Context(), count).Scan(&rows); err != nil || rows > 0 {
		t.Errorf("%d rows, %v", rows, err)
	}
}

// TestSendRollsBack: a transaction that is rolled back leaves no message, no id, no unique key and no topic.
func TestSendRollsBack(t *testing.T) {
	s, app := withSend(t)
	const options = `{"id": "i", "unique_key": "u"}`
	for _, end := range []string{"ROLLBACK", "COMMIT"} {
		execute(t, app, "BEGIN")
		mustSend(t, app, "mail", end, "k", options)
		if ds := claimAll(t, s, "mail"); len(ds) > 0 {
			t.Fatal("claimed before the commit")
		}
		execute(t, app, end)
	}
	if ds := claimAll(t, s, "mail"); len(ds) != 1 || string(ds[0].Body) != "COMMIT" {
		t.Errorf("claimed %v", ds)
	}
}

// TestSendKeepsLanes: messages of a key are in the order of their sends, those of Append among them; what commits after
// a later one was given out is behind that.
func TestSendKeepsLanes(t *testing.T) {
	s, app := withSend(t)
	late := application(t, s.cfg.URL)
	mustSend(t, app, "mail", "1", "ann", `{}`)
	if err := store.Send(t.Context(), s, pawl.Message{Topic: "mail", Key: []byte("ann"), Body: []byte("2")}); err != nil {
		t.Fatal(err)
	}
	execute(t, late, "BEGIN")
	mustSend(t, late, "mail", "late", "ann", `{}`)
	mustSend(t, app, "mail", "3", "ann", `{}`)
	bodies := func(ds []pawl.Delivery) (got string) {
		for _, d := range ds {
			got += string(d.Body) + " "
		}
		return got
	}
	ds := claimAll(t, s, "mail")
	if got := bodies(ds); got != "1 2 3 " {
		t.Errorf("claimed %s, want 1 2 3", got)
	}
	execute(t, late, "COMMIT")
	if more := claimAll(t, s, "mail"); len(more) > 0 {
		t.Errorf("claimed %s of a lane that is leased", bodies(more))
	}
	var acks []store.Settlement
	for _, d := range ds {
		acks = append(acks, store.Settlement{Token: d.Token, ID: d.Message.ID, Verdict: store.Ack})
	}
	if _, err := s.Settle(t.Context(), store.NewBatch(acks...)); err != nil {
		t.Fatal(err)
	}
	if got := bodies(claimAll(t, s, "mail")); got != "late " {
		t.Errorf("claimed %s, want late", got)
	}
}

// TestSendSharesUniqueKeys: ids and unique keys are those of Append, both ways; a duplicate answers the first id.
func TestSendSharesUniqueKeys(t *testing.T) {
	s, app := withSend(t)
	ctx := t.Context()
	unique := func(topic, scope, id string) store.Receipt {
		m := pawl.Message{Topic: topic, ID: id, Unique: pawl.Unique{Key: "u", Scope: scope}}
		r, err := s.Append(ctx, store.NewBatch(m))
		if err != nil || r[0].Err != nil {
			t.Fatal(r, err)
		}
		return r[0]
	}
	first := mustSend(t, app, "a", "b", nil, `{"unique_key": "u"}`)
	if r := unique("a", "", ""); r.DuplicateOf != first {
		t.Errorf("Append after pawl_send: duplicate of %q, want %s", r.DuplicateOf, first)
	}
	r := unique("b", "s", "plain id")
	if got := mustSend(t, app, "c", "b", nil, `{"unique_key": "u", "unique_scope": "s"}`); got != r.ID {
		t.Errorf("pawl_send after Append: %s, want %s", got, r.ID)
	}
	if got := mustSend(t, app, "c", "b", nil, `{"id": "plain id", "unique_key": "other"}`); got != r.ID {
		t.Errorf("pawl_send of an id that is there: %s", got)
	}
	if got := mustSend(t, app, "c", "b", nil, `{"id": "other", "unique_key": "other"}`); got != "other" {
		t.Errorf("a duplicate took its unique key: %s", got)
	}
	short := mustSend(t, app, "d", "b", nil, `{"unique_key": "u", "unique_for_seconds": 0.05}`)
	time.Sleep(60 * time.Millisecond)
	if again := mustSend(t, app, "d", "b", nil, `{"unique_key": "u", "unique_for_seconds": 60}`); again == short {
		t.Error("a unique key outlives its time")
	}

	// What another transaction holds is waited for; a key that is taken is not locked.
	other := application(t, s.cfg.URL)
	execute(t, other, "BEGIN")
	mustSend(t, other, "e", "b", nil, `{"id": "x", "unique_key": "x"}`)
	mustSend(t, other, "c", "b", nil, `{"id": "o", "unique_key": "u", "unique_scope": "s"}`)
	answer := make(chan string)
	go func() {
		id, err := callSend(context.Background(), app, "e", "b", nil, `{"id": "y", "unique_key": "x"}`)
		answer <- fmt.Sprint(id, err)
	}()
	for _, d := range claimAll(t, s, "b") {
		ack := store.Settlement{Token: d.Token, ID: d.Message.ID, Verdict: store.Ack}
		if refused, err := s.Settle(ctx, store.NewBatch(ack)); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
	}
	execute(t, other, "COMMIT")
	if got := <-answer; got != "x<nil>" {
		t.Errorf("the second of two sends answers %s", got)
	}
	if got := mustSend(t, app, "c", "b", nil, `{"id": "z", "unique_key": "u", "unique_scope": "s"}`); got != "z" {
		t.Errorf("the key of an acked message is taken by %s", got)
	}
}

// TestSendToADeclaredTopic: what SQL sends to a topic that nobody has appended to is found.
func TestSendToADeclaredTopic(t *testing.T) {
	s, app := withSend(t)
	if _, err := s.Declare(t.Context(), store.Declaration{Name: "fresh"}); err != nil {
		t.Fatal(err)
	}
	mustSend(t, app, "fresh", "b", nil, `{}`)
	if ds := claimAll(t, s, "fresh"); len(ds) != 1 {
		t.Errorf("%d of 1 deliveries", len(ds))
	}
}

// TestSendToAFullTopic: 53400, as an append is refused.
func TestSendToAFullTopic(t *testing.T) {
	s, app := withSend(t)
	most := int64(3)
	if _, err := s.Declare(t.Context(), store.Declaration{Name: "mail", MaxWaiting: &most}); err != nil {
		t.Fatal(err)
	}
	for range most {
		mustSend(t, app, "mail", "b", nil, `{}`)
	}
	_, err := callSend(t.Context(), app, "mail", "b", nil, `{}`)
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "53400" {
		t.Errorf("%v, want 53400", err)
	}
	if ds := claimAll(t, s, "mail"); len(ds) != 3 {
		t.Fatalf("%d of 3 deliveries", len(ds))
	}
	time.Sleep(1100 * time.Millisecond)
	mustSend(t, app, "mail", "b", nil, `{}`)
}

// TestSendWakes: a worker that waits is woken by the commit, not by a poll.
func TestSendWakes(t *testing.T) {
	s, app := withSend(t)
	mustSend(t, app, "mail", "first", nil, `{}`) // the topic is known
	claimAll(t, s, "mail")
	woken, err := s.Listen(t.Context(), "mail")
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); !s.news.hears.Load(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("notifications do not arrive")
		}
	}
	time.Sleep(20 * time.Millisecond)
	for len(woken) > 0 {
		<-woken
	}
	execute(t, app, "BEGIN")
	mustSend(t, app, "mail", "second", nil, `{}`)
	began := time.Now()
	execute(t, app, "COMMIT")
	select {
	case <-woken:
		t.Logf("woken after %v", time.Since(began))
	case <-time.After(5 * time.Second):
		t.Fatal("not woken")
	}
	if ds := claimAll(t, s, "mail"); len(ds) != 1 {
		t.Errorf("%d of 1 deliveries", len(ds))
	}
}

// TestSendGoesWithTheSchema: the functions go with the schema of the store.
func TestSendGoesWithTheSchema(t *testing.T) {
	s, app := withSend(t)
	if _, err := s.MigrateDown(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	left := func() (n int) {
		const count = `SELECT count(*) FROM pg_proc WHERE pronamespace IN (current_schema::regnamespace, $1::text::regnamespace)`
		if err := app.QueryRow(t.Context(), count, s.cfg.Schema).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := left(); n > 0 {
		t.Errorf("migrate down left %d functions", n)
	}
	if _, err := s.MigrateUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustSend(t, app, "mail", "b", nil, `{}`)
}

// TestSendNeedsExecute: a role with the grants sends, and reads no table; one without them does not send.
func TestSendNeedsExecute(t *testing.T) {
	s, app := withSend(t)
	ctx := t.Context()
	role := `Shop "` + s.cfg.Schema
	quoted := pgx.Identifier{role}.Sanitize()
	at := os.Getenv("PAWL_TEST_POSTGRES_ADMIN")
	if at == "" {
		t.Skip("PAWL_TEST_POSTGRES_ADMIN is not set, who makes a role")
	}
	admin := application(t, at)
	execute(t, admin, "CREATE ROLE "+quoted+"; GRANT "+quoted+" TO "+pgx.Identifier{app.Config().User}.Sanitize())
	t.Cleanup(func() {
		_, err := app.Exec(context.Background(), "DROP OWNED BY "+quoted)
		_, err2 := admin.Exec(context.Background(), "DROP ROLE "+quoted)
		if err := errors.Join(err, err2); err != nil {
			t.Error(err)
		}
	})
	execute(t, app, "GRANT USAGE ON SCHEMA "+app.Config().RuntimeParams["search_path"]+" TO "+quoted)
	as := func(sql string) error {
		execute(t, app, "SET ROLE "+quoted)
		defer execute(t, app, "RESET ROLE")
		_, err := app.Exec(ctx, sql)
		return err
	}
	const send = "SELECT pawl_send('mail', 'b')"
	if err := as(send); err == nil {
		t.Error("a role without grants sends")
	}
	grants, err := s.SendGrants(ctx, role)
	if err != nil || len(grants) != 3 {
		t.Fatalf("grants %q, %v", grants, err)
	}
	for _, g := range grants {
		if !strings.HasPrefix(g, "GRANT EXECUTE ON FUNCTION ") {
			t.Errorf("it grants more: %s", g)
		}
		execute(t, app, g)
	}
	for _, body := range []string{"'b'", "'b'::bytea", "'{}'::jsonb"} {
		if err := as("SELECT pawl_send('mail', " + body + ")"); err != nil {
			t.Errorf("pawl_send of %s: %v", body, err)
		}
	}
	for _, sql := range []string{
		"SELECT * FROM @msg", "SELECT @send('mail', 'b', NULL, '{}')", "SELECT nextval('@msg_seq')",
	} {
		if err := as(s.named(sql)); err == nil {
			t.Errorf("the role may %s", sql)
		}
	}

	// A second store of the database finds the name taken, and has the function in its schema.
	second := open(t, Config{URL: s.cfg.URL, Schema: freshSchema(t, s.cfg.URL), AutoMigrate: true, NoChores: true})
	grants, err = second.SendGrants(ctx, role)
	if err != nil || len(grants) != 4 || !strings.HasPrefix(grants[0], "GRANT USAGE ON SCHEMA "+second.cfg.Schema) {
		t.Fatalf("grants of the second store: %q, %v", grants, err)
	}
	for _, g := range grants {
		execute(t, app, g)
	}
	if err := as(second.named("SELECT @pawl_send('mail', 'second')")); err != nil {
		t.Error(err)
	}
	if ds := claimAll(t, second, "mail"); len(ds) != 1 {
		t.Errorf("%d of 1 deliveries of the second store", len(ds))
	}
}
