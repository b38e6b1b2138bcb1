package sqlite

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// withSend is a store, and another program that has its file open.
func withSend(t *testing.T) (*Store, *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.db")
	s := open(t, Config{Path: path})
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_busy_timeout=5000")
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return s, db
}

const insertSend = `INSERT INTO pawl_send (topic, body, key, options) VALUES (?, ?, ?, ?)`

func claimSent(t *testing.T, s *Store, topics ...string) []pawl.Delivery {
	t.Helper()
	var wants []store.Want
	for _, topic := range topics {
		wants = append(wants, store.Want{Topic: topic, Limit: 100, Run: 100})
	}
	ds, err := s.Claim(t.Context(), wants, store.Lease{For: time.Minute, Owner: "w"})
	must(t, err)
	return ds
}

// TestSendIsAppend: what SQL sends is what Append stores, field by field.
func TestSendIsAppend(t *testing.T) {
	s, db := withSend(t)
	for i, c := range []struct {
		key, options any
		m            pawl.Message
	}{
		{nil, nil, pawl.Message{}},
		{"ann é", `{}`, pawl.Message{Key: []byte("ann é")}},
		{[]byte{0, 255}, `{"id":null,"headers":{},"until_claimed":false}`, pawl.Message{Key: []byte{0, 255}}},
		{"k", `{"priority":100}`, pawl.Message{Priority: 100, Key: []byte("k")}},
		{nil, `{"id":"é-1","priority":7.0}`, pawl.Message{ID: "é-1", Priority: 7}},
		{nil, `{"headers":{"a":"é\"\\","bb":""}}`, pawl.Message{Headers: map[string]string{"a": `é"\`, "bb": ""}}},
		{nil, `{"headers":{"Pawl-Attempts":"1000","Pawl-Retry-For":"48h0m0s","Pawl-Timeout":"1h30m0.5s"}}`, pawl.Message{
			Headers: map[string]string{"Pawl-Attempts": "1000", "Pawl-Retry-For": "48h0m0s", "Pawl-Timeout": "1h30m0.5s"}}},
		{"k", `{"delay_seconds":3600}`, pawl.Message{Key: []byte("k"), Delay: time.Hour}},
		{nil, `{"unique_key":"u","unique_scope":"s","unique_for_seconds":1.5}`,
			pawl.Message{Unique: pawl.Unique{Key: "u", Scope: "s", For: 1500 * time.Millisecond}}},
		{nil, `{"unique_key":"u","until_claimed":true}`,
			pawl.Message{Unique: pawl.Unique{Key: "u", For: pawl.UntilClaimed}}},
		{nil, `{"unique_key":"u","unique_for_seconds":1e300}`,
			pawl.Message{Unique: pawl.Unique{Key: "u", For: pawl.Forever}}},
	} {
		topic := fmt.Sprint("t", i)
		began := time.Now()
		_, err := db.ExecContext(t.Context(), insertSend, topic, `{"to":"é"}`, c.key, c.options)
		must(t, err)
		c.m.Topic, c.m.Body = topic, []byte(`{"to":"é"}`)
		var got []store.Record
		for r, err := range s.List(t.Context(), store.Filter{Topic: topic}) {
			must(t, err)
			got = append(got, r)
		}
		if len(got) != 1 {
			t.Fatalf("%v: listed %d", c.options, len(got))
		}
		if c.m.ID == "" {
			c.m.ID = got[0].Message.ID
		}
		if !reflect.DeepEqual(got[0].Message, c.m) || got[0].EnqueuedAt.Before(began.Add(-2*time.Millisecond)) {
			t.Errorf("%v: %+v at %v, want %+v", c.options, got[0].Message, got[0].EnqueuedAt, c.m)
		}
	}
}

// TestSendRefuses: an invalid message aborts the statement with the reason, and nothing is stored.
func TestSendRefuses(t *testing.T) {
	s, db := withSend(t)
	long := strings.Repeat("x", 1025)
	many := strings.Repeat(`"h%":"",`, 129)
	for range 129 {
		many = strings.Replace(many, "%", fmt.Sprint(len(many)), 1)
	}
	for _, c := range []struct {
		topic, body, key, options any
		want                      string
	}{
		{nil, "b", nil, nil, "topic is made"}, {"", "b", nil, nil, "topic is made"}, {"a b", "b", nil, nil, "topic is made"},
		{long, "b", nil, nil, "topic is made"}, {5, "b", nil, nil, "topic is made"},
		{"t", nil, nil, nil, "body is"}, {"t", 5, nil, nil, "body is"},
		{"t", make([]byte, pawl.MaxBody+1), nil, nil, "body is"},
		{"t", "b", "", nil, "key is"}, {"t", "b", long, nil, "key is"}, {"t", "b", 5, nil, "key is"},
		{"t", "b", nil, "[]", "options are a JSON object"}, {"t", "b", nil, "{", "options are a JSON object"},
		{"t", "b", nil, 5, "options are a JSON object"}, {"t", "b", nil, `{"id":"\u0000"}`, "without"},
		{"t", "b", nil, `{"prio":null}`, "options are id"}, {"t", "b", nil, `{"priority":"5"}`, "options are id"},
		{"t", "b", nil, `{"headers":[]}`, "options are id"}, {"t", "b", nil, `{"until_claimed":1}`, "options are id"},
		{"t", "b", nil, `{"priority":1.5}`, "priority is"}, {"t", "b", nil, `{"priority":101}`, "priority is"},
		{"t", "b", nil, `{"priority":1e99}`, "priority is"}, {"t", "b", nil, `{"priority":-1}`, "priority is"},
		{"t", "b", nil, `{"delay_seconds":-0.1}`, "delay_seconds"},
		{"t", "b", nil, `{"delay_seconds":315576001}`, "delay_seconds"},
		{"t", "b", nil, `{"id":"a\nb"}`, "id has"}, {"t", "b", nil, `{"id":"` + long + `"}`, "id has"},
		{"t", "b", nil, `{"id":"a\u0085b"}`, "id has"},
		{"t", "b", nil, `{"headers":{"a":1}}`, "headers are"}, {"t", "b", nil, `{"headers":{"":"a"}}`, "headers are"},
		{"t", "b", nil, `{"headers":{"a":"` + strings.Repeat(long, 32) + `"}}`, "headers are"},
		{"t", "b", nil, `{"headers":{` + strings.TrimSuffix(many, ",") + `}}`, "headers are"},
		{"t", "b", nil, `{"headers":{"Pawl-Attempts":"-5"}}`, "header Pawl-Attempts"},
		{"t", "b", nil, `{"headers":{"Pawl-Attempts":"1001"}}`, "header Pawl-Attempts"},
		{"t", "b", nil, `{"headers":{"Pawl-Timeout":"-1s"}}`, "are durations"},
		{"t", "b", nil, `{"headers":{"Pawl-Timeout":"soon"}}`, "are durations"},
		{"t", "b", nil, `{"headers":{"Pawl-Retry-For":"0h"}}`, "are durations"},
		{"t", "b", nil, `{"unique_key":"` + long + `"}`, "unique_key and"},
		{"t", "b", nil, `{"unique_scope":"s"}`, "go with a unique_key"},
		{"t", "b", nil, `{"unique_for_seconds":0}`, "go with a unique_key"},
		{"t", "b", nil, `{"until_claimed":true}`, "go with a unique_key"},
		{"t", "b", nil, `{"unique_key":"u","unique_for_seconds":-1}`, "not negative"},
		{"t", "b", nil, `{"unique_key":"u","unique_for_seconds":1,"until_claimed":true}`, "give one"},
	} {
		_, err := db.ExecContext(t.Context(), insertSend, c.topic, c.body, c.key, c.options)
		if err == nil || !strings.Contains(err.Error(), "pawl_send: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.40v %.60v: %v; want %s", c.topic, c.options, err, c.want)
		}
	}
	stats, err := s.Stats(t.Context())
	if err != nil || len(stats) > 0 {
		t.Errorf("%+v, %v", stats, err)
	}
}

// TestSendRollsBack: a transaction that is rolled back leaves nothing; one that commits keeps the order of a key, with
// what Append stored before and after, and with what fell due before.
func TestSendRollsBack(t *testing.T) {
	s, db := withSend(t)
	for _, end := range []string{"rolled back", "1"} {
		tx, err := db.BeginTx(t.Context(), nil)
		must(t, err)
		_, err = tx.ExecContext(t.Context(), insertSend, "mail", end, "ann", `{"id":"i","unique_key":"u"}`)
		must(t, err)
		if end == "1" {
			must(t, tx.Commit())
		} else {
			must(t, tx.Rollback())
		}
	}
	must(t, store.Send(t.Context(), s, pawl.Message{Topic: "mail", Key: []byte("ann"), Body: []byte("2")}))
	must(t, store.Send(t.Context(), s, pawl.Message{Topic: "mail", Key: []byte("ann"), Body: []byte("3"),
		Delay: 20 * time.Millisecond}))
	time.Sleep(30 * time.Millisecond) // nobody looks when it falls due
	for _, body := range []string{"4", "5"} {
		_, err := db.ExecContext(t.Context(), insertSend, "mail", body, "ann", nil)
		must(t, err)
	}
	_, err := db.ExecContext(t.Context(), insertSend, "mail", "twice", nil, `{"unique_key":"u"}`)
	must(t, err)
	must(t, store.Send(t.Context(), s, pawl.Message{Topic: "mail", Key: []byte("ann"), Body: []byte("6")}))
	var got strings.Builder
	for _, d := range claimSent(t, s, "mail") {
		got.WriteString(string(d.Body) + " ")
	}
	if got.String() != "1 2 3 4 5 6 " {
		t.Errorf("claimed %s", got.String())
	}
	stats, err := s.Stats(t.Context(), "mail")
	if err != nil || stats[0].Appended != 6 || stats[0].Duplicates != 1 {
		t.Errorf("%+v, %v", stats, err)
	}
	var left int
	if must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM pawl_sent").Scan(&left)); left > 0 {
		t.Errorf("%d rows are left", left)
	}
}

// TestSendToAFullTopic: refused, as an append is.
func TestSendToAFullTopic(t *testing.T) {
	s, db := withSend(t)
	most := int64(3)
	_, err := s.Declare(t.Context(), store.Declaration{Name: "mail", MaxWaiting: &most})
	must(t, err)
	send := func() error {
		_, err := db.ExecContext(t.Context(), insertSend, "mail", "b", nil, nil)
		return err
	}
	must(t, send())
	must(t, send())
	_, err = s.Stats(t.Context()) // they are taken in
	must(t, err)
	must(t, send())
	if err := send(); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("the fourth of three: %v", err)
	}
	if ds := claimSent(t, s, "mail"); len(ds) != 3 {
		t.Fatalf("%d of 3 deliveries", len(ds))
	}
	must(t, send())
}

// TestSendWakes: a worker that waits for a topic that is not there yet is woken by the commit. Many messages are taken
// in by parts.
func TestSendWakes(t *testing.T) {
	s, db := withSend(t)
	woken, err := s.Listen(t.Context(), "mail")
	must(t, err)
	time.Sleep(20 * time.Millisecond)
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	for i := range 2500 {
		_, err = tx.ExecContext(t.Context(), insertSend, "mail", fmt.Sprint(i), "k", nil)
		must(t, err)
	}
	began := time.Now()
	must(t, tx.Commit())
	select {
	case <-woken:
		t.Logf("woken after %v", time.Since(began))
	case <-time.After(5 * time.Second):
		t.Fatal("not woken")
	}
	stats, err := s.Stats(t.Context(), "mail")
	if err != nil || stats[0].Appended != 2500 {
		t.Errorf("%+v, %v", stats, err)
	}
	if ds := claimSent(t, s, "mail"); len(ds) != 100 || string(ds[99].Body) != "99" {
		t.Errorf("claimed %d", len(ds))
	}
}
