// Command bulk carries rows of an application to a sink that takes them in bulks, and answers each row by itself. A
// row and its message are committed together. The sink throttles every row twice before it fails with a 503: of two
// attempts that a row has, only the 503 counts. So nothing dies but the row that the sink refuses for good.
package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/sqlite"
)

const rows, refused = 300, 13

func main() {
	ctx, calls, last := context.Background(), make([]int, rows), make([]time.Time, rows) // of each row
	sink := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var ids []int
		must(json.NewDecoder(r.Body).Decode(&ids))
		statuses := make([]int, len(ids))
		for i, id := range ids {
			statuses[i] = []int{429, 429, 503, 200}[min(calls[id], 3)]
			if calls[id]++; id == refused || calls[id] < 4 && time.Since(last[id]) < time.Second {
				statuses[i] = 400 // for good, also where a throttled row is back too soon
			}
			last[id] = time.Now()
		}
		w.Header().Set("Retry-After", "1")
		must(json.NewEncoder(w).Encode(statuses))
	}))
	dir, err := os.MkdirTemp("", "bulk")
	must(err)
	defer os.RemoveAll(dir)
	path := dir + "/shop.db"
	s, err := sqlite.Open(ctx, sqlite.Config{Path: path})
	must(err)
	defer s.Close()
	place(ctx, path, s)
	soon := policy.Backoff{Shape: policy.Exponential, Base: 10 * time.Millisecond, Max: time.Second}
	rule := policy.Rule{ID: "sink", Match: policy.Match{Kind: "SinkDown"}, MaxAttempts: 2, Backoff: soon}
	matrix, err := policy.NewMatrixOf(nil, append(policy.Builtin(), rule))
	must(err)
	put := func(_ context.Context, ds []*pawl.Delivery) []error { return send(sink.URL, ds) }
	d, err := dispatch.New(s, dispatch.Config{Policy: matrix, UntilEmpty: true, Topics: []dispatch.Topic{{
		Name: "orders", Batch: pawl.BatchHandlerFunc(put), BatchSize: 100, BatchWait: time.Second / 10, Concurrency: 1,
	}}})
	must(err)
	must(d.Run(ctx))
	if calls[refused] += 3; !slices.Equal(calls, slices.Repeat([]int{4}, rows)) {
		log.Fatalf("calls of each row: %d", calls)
	}
	fmt.Printf("%d rows came, and the sink refused one\n", rows-1)
}

// send sends one bulk, and returns what became of each row.
func send(url string, ds []*pawl.Delivery) []error {
	body, statuses, verdicts := []byte("["), []int{}, make([]error, len(ds))
	for i, d := range ds {
		body = append(append(body, ","[:min(i, 1)]...), d.Body...)
	}
	resp, err := http.Post(url, "application/json", bytes.NewReader(append(body, ']')))
	if err != nil {
		return slices.Repeat([]error{pawl.OfKind("SinkDown", err)}, len(ds))
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&statuses); err != nil || len(statuses) != len(ds) {
		return slices.Repeat([]error{pawl.OfKind("SinkDown", errors.New("the answer does not fit the bulk"))}, len(ds))
	}
	seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
	for i, status := range statuses {
		switch err := fmt.Errorf("the sink answered %d", status); {
		case status == http.StatusTooManyRequests:
			verdicts[i] = pawl.Throttled(err, time.Duration(seconds)*time.Second)
		case status >= 500:
			verdicts[i] = pawl.OfKind("SinkDown", err)
		case status >= 400:
			verdicts[i] = pawl.Permanent(err)
		}
	}
	return verdicts
}

// place stores the rows and their messages together.
func place(ctx context.Context, path string, s *sqlite.Store) {
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	must(err)
	tx, err := db.BeginTx(ctx, nil)
	must(err)
	msgs := make([]pawl.Message, rows)
	for i := range msgs {
		msgs[i] = pawl.Message{Topic: "orders", Body: strconv.AppendInt(nil, int64(i), 10)}
	}
	_, err = tx.ExecContext(ctx, `CREATE TABLE orders AS
		WITH RECURSIVE n(id) AS (SELECT 0 UNION ALL SELECT id + 1 FROM n WHERE id < 299) SELECT id FROM n`)
	must(err)
	must(store.SendTx(ctx, s, tx, msgs...))
	must(errors.Join(tx.Commit(), db.Close()))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
