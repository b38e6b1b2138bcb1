package sqlite

import (
	"context"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// BenchmarkBurnDown claims and settles a thousand at a time, fully durable: what
// the store itself can do.
func BenchmarkBurnDown(b *testing.B) {
	for _, c := range []struct {
		name          string
		waiting, keys int
	}{
		{"waiting=100k", 100_000, 0},
		{"waiting=1M", 1_000_000, 0},
		{"keys=100k", 100_000, 100_000},
		{"keys=1k", 100_000, 1000},
		{"keys=1", 100_000, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := open(b, Config{Path: filepath.Join(b.TempDir(), "pawl.db")})
			load(b, s, c.waiting, c.keys)
			done, cpu := 0, cpuTime()
			for b.Loop() {
				n := burn(b, s, "bench", 1000)
				if n == 0 {
					b.StopTimer()
					before := cpuTime()
					load(b, s, c.waiting, c.keys)
					cpu += cpuTime() - before
					b.StartTimer()
				}
				done += n
			}
			b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "msgs/s")
			b.ReportMetric((cpuTime()-cpu).Seconds()*1e6/float64(done), "cpu-µs/msg")
		})
	}
}

// burn claims and settles up to n messages of a topic.
func burn(tb testing.TB, s store.Store, topic string, n int) int {
	ctx := context.Background()
	ds, err := s.Claim(ctx, []store.Want{{Topic: topic, Limit: n}}, store.Lease{For: time.Minute, Owner: "bench"})
	if err != nil {
		tb.Fatal(err)
	}
	items := make([]store.Settlement, len(ds))
	for i := range ds {
		items[i] = store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Ack}
	}
	if refused, err := s.Settle(ctx, store.NewBatch(items...)); err != nil || len(refused) > 0 {
		tb.Fatal(refused, err)
	}
	return len(ds)
}

// load appends n messages of 84 bytes, with that many keys.
func load(tb testing.TB, s store.Store, n, keys int) {
	body := make([]byte, 84)
	for from := 0; from < n; from += 1000 {
		msgs := make([]pawl.Message, 1000)
		for i := range msgs {
			msgs[i] = pawl.Message{Topic: "bench", Body: body}
			if keys > 0 {
				msgs[i].Key = []byte("key-" + strconv.Itoa((from+i)%keys))
			}
		}
		if _, err := s.Append(context.Background(), store.NewBatch(msgs...)); err != nil {
			tb.Fatal(err)
		}
	}
}

// cpuTime is what this process has used: unlike the rate, it does not depend on
// what else the machine is doing.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkAppendAlone: many callers with one message each share transactions.
func BenchmarkAppendAlone(b *testing.B) {
	for _, callers := range []int{1, 32} {
		b.Run("callers="+strconv.Itoa(callers), func(b *testing.B) {
			s := open(b, Config{Path: filepath.Join(b.TempDir(), "pawl.db")})
			b.SetParallelism((callers + 1) / 2) // times GOMAXPROCS
			body := make([]byte, 84)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := s.Append(context.Background(),
						store.NewBatch(pawl.Message{Topic: "bench", Body: body})); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}
