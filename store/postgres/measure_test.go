package postgres

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Measures of the store alone, with client and server on one machine:
//
//	go test -run '^$' -bench Measure -benchtime 1x ./store/postgres
//
// Every round appends b messages and works them off. What is compared should be
// compared in pairs, on an idle machine.

// measure is one setting: messages, how many a call, lanes (0: unordered),
// claimers.
type measure struct{ messages, batch, keys, claimers int }

func BenchmarkMeasure(b *testing.B) {
	for _, m := range []measure{
		{200_000, 1000, 0, 2}, {200_000, 500, 0, 2}, {30_000, 15, 0, 2}, {30_000, 15, 1000, 2},
		{200_000, 1000, 10_000, 2}, {200_000, 1000, 100_000, 2}, {50_000, 1000, 100, 2}, {20_000, 1000, 1, 2},
		{1_000_000, 1000, 0, 2},
	} {
		b.Run(fmt.Sprintf("messages=%d/batch=%d/keys=%d", m.messages, m.batch, m.keys), func(b *testing.B) {
			at := server(b)
			s := open(b, Config{URL: at, Schema: freshSchema(b, at), AutoMigrate: true})
			for b.Loop() {
				m.run(b, s)
			}
		})
	}
}

func (m measure) run(b *testing.B, s *Store) {
	ctx := b.Context()
	order := store.OrderNone
	if m.keys > 0 {
		order = store.OrderKey
	}
	if _, err := s.Declare(ctx, store.Declaration{Name: "bench", Order: order}); err != nil {
		b.Fatal(err)
	}
	wal, cpu, start, before := walPosition(b, s), processTime(), time.Now(), serverTime()
	m.fill(b, s)
	appended, walAppended := time.Since(start), walPosition(b, s)
	served := serverTime()
	b.ReportMetric(float64((served-before).Microseconds())/float64(m.messages), "server-us/append")
	s.chores(0)
	start, before = time.Now(), serverTime()
	between := walPosition(b, s)
	if n := m.work(b, s); n != int64(m.messages) {
		b.Fatalf("worked off %d of %d", n, m.messages)
	}
	worked := time.Since(start)
	n := float64(m.messages)
	b.ReportMetric(float64((serverTime()-before).Microseconds())/n, "server-us/work")
	b.ReportMetric(n/appended.Seconds(), "append/s")
	b.ReportMetric(n/worked.Seconds(), "work/s")
	b.ReportMetric(float64(walAppended-wal)/n, "walB/append")
	b.ReportMetric(float64(walPosition(b, s)-between)/n, "walB/work")
	b.ReportMetric(float64((processTime()-cpu).Microseconds())/n, "client-us/msg")
	b.ReportMetric(0, "ns/op")
}

func (m measure) messagesFrom(i int) []pawl.Message {
	msgs := make([]pawl.Message, min(m.batch, m.messages-i))
	body := make([]byte, 84)
	for j := range msgs {
		msgs[j] = pawl.Message{Topic: "bench", Body: body}
		if m.keys > 0 {
			msgs[j].Key = strconv.AppendInt([]byte("key-"), int64((i+j)%m.keys), 10)
		}
	}
	return msgs
}

func (m measure) fill(b *testing.B, s *Store) {
	for i := 0; i < m.messages; i += m.batch {
		if _, err := s.Append(b.Context(), store.NewBatch(m.messagesFrom(i)...)); err != nil {
			b.Fatal(err)
		}
	}
}

// work claims and acks until nothing is left.
func (m measure) work(b *testing.B, s *Store) int64 {
	var total atomic.Int64
	var wg sync.WaitGroup
	for range m.claimers {
		wg.Go(func() {
			for empty := 0; empty < 3; {
				n, err := workOnce(b.Context(), s, m.batch)
				if err != nil {
					b.Error(err)
					return
				}
				if n == 0 {
					empty++
				} else {
					empty = 0
				}
				total.Add(int64(n))
			}
		})
	}
	wg.Wait()
	return total.Load()
}

// workOnce claims up to n messages and acks them in one call.
func workOnce(ctx context.Context, s *Store, n int) (int, error) {
	ds, err := s.Claim(ctx, []store.Want{{Topic: "bench", Limit: n}}, store.Lease{For: time.Minute, Owner: "measure:1"})
	if err != nil || len(ds) == 0 {
		return 0, err
	}
	items := make([]store.Settlement, len(ds))
	for i := range ds {
		items[i] = store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Ack}
	}
	refused, err := s.Settle(ctx, store.NewBatch(items...))
	if len(refused) > 0 {
		return 0, fmt.Errorf("refused %v", refused[0])
	}
	return len(ds), err
}

// BenchmarkInsertAndWork appends and works at once, with a reader that keeps
// everything from being vacuumed. A round is a second, and logs its rate:
//
//	go test -run '^$' -bench InsertAndWork -benchtime 60x -v ./store/postgres
func BenchmarkInsertAndWork(b *testing.B) {
	at := server(b)
	s := open(b, Config{URL: at, Schema: freshSchema(b, at), AutoMigrate: true})
	if _, err := s.Declare(b.Context(), store.Declaration{Name: "bench", Order: store.OrderNone}); err != nil {
		b.Fatal(err)
	}
	pin(b, at)
	ctx, cancel := context.WithCancel(b.Context())
	var appended, worked atomic.Int64
	var wg sync.WaitGroup
	m := measure{messages: 1 << 30, batch: 1000}
	wg.Go(func() {
		for ctx.Err() == nil {
			if appended.Load()-worked.Load() > 50_000 {
				time.Sleep(time.Millisecond)
				continue
			}
			if _, err := s.Append(ctx, store.NewBatch(m.messagesFrom(0)[:1000]...)); err == nil {
				appended.Add(1000)
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if n, err := workOnce(ctx, s, 1000); err == nil {
					worked.Add(int64(n))
				}
			}
		})
	}
	for b.Loop() {
		before := worked.Load()
		time.Sleep(time.Second)
		b.Logf("%d messages/s", worked.Load()-before)
	}
	cancel()
	wg.Wait()
}

// pin keeps a snapshot open until the test ends.
func pin(t testing.TB, at string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	for _, sql := range []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT count(*) FROM pg_class"} {
		if _, err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
}

func walPosition(b *testing.B, s *Store) (at int64) {
	err := s.call(b.Context(), s.front, read(`SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint`, func(r row) error {
		at = r.int8(0)
		return nil
	}))
	if err != nil {
		b.Fatal(err)
	}
	return at
}

// processTime is the time of the processor that this process took.
func processTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// serverTime is the time of the processor that the server took, if it runs here
// and PAWL_MEASURE_SERVER is the number of its first process. Unlike the rate it
// says something on a busy machine, too.
func serverTime() time.Duration {
	first := os.Getenv("PAWL_MEASURE_SERVER")
	if first == "" {
		return 0
	}
	ticks := int64(0)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
		pid := filepath.Base(filepath.Dir(file))
		switch {
		case pid == first:
			ticks += field(f[13]) + field(f[14]) // of children that have ended
		case f[1] == first:
			ticks += field(f[11]) + field(f[12])
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

func field(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
