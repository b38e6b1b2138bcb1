package postgres

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// BenchmarkSend compares pawl_send with a plain insert of the same body into a table with a primary key and one index
// more, in three ways: a statement each as psql sends them, in one transaction and in transactions of their own, and in
// a loop inside the server. The ratio is the median of the rounds:
//
//	go test ./store/postgres -run '^$' -bench Send -benchtime 1x
func BenchmarkSend(b *testing.B) {
	const rounds, calls = 3, 10_000
	_, app := withSend(b)
	execute(b, app, `CREATE TABLE plain (
			id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, topic text NOT NULL, body text NOT NULL);
		CREATE INDEX ON plain (topic)`)
	const body = `'{"to": "ann@example.org"}'`
	plain, send := "INSERT INTO plain (topic, body) VALUES ('mail', "+body+")", "pawl_send('mail', "+body+")"
	execute(b, app, "SELECT "+send)
	each := func(sql string) func() {
		return func() {
			for range calls {
				if _, err := app.Exec(b.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	together := func(do func()) func() {
		return func() {
			execute(b, app, "BEGIN")
			do()
			execute(b, app, "COMMIT")
		}
	}
	loop := func(sql string) func() {
		return func() {
			execute(b, app, fmt.Sprintf("DO $$ BEGIN FOR i IN 1..%d LOOP %s; END LOOP; END $$", calls, sql))
		}
	}
	for _, way := range []struct {
		name        string
		plain, send func()
	}{
		{"transaction", together(each(plain)), together(each("SELECT " + send))},
		{"autocommit", each(plain), each("SELECT " + send)},
		{"loop", loop(plain), loop("PERFORM " + send)},
	} {
		b.Run(way.name, func(b *testing.B) {
			took := func(do func()) time.Duration {
				start := time.Now()
				do()
				return time.Since(start)
			}
			for b.Loop() {
				var ratios, costs []float64
				for range rounds {
					p, s := took(way.plain), took(way.send)
					ratios = append(ratios, s.Seconds()/p.Seconds())
					costs = append(costs, float64(s.Microseconds())/calls)
				}
				slices.Sort(ratios)
				slices.Sort(costs)
				b.ReportMetric(ratios[rounds/2], "×plain")
				b.ReportMetric(costs[rounds/2], "µs/send")
				b.Log(strings.Trim(fmt.Sprintf("%.2f", ratios), "[]"))
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
