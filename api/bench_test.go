//go:build unix

package api_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/api"
	"github.com/pawl-dev/pawl/store"
)

// benched are a client and a server on this machine, over a file with full durability, or over PAWL_BENCH_STORE.
func benched(b *testing.B) (post func(path string, body []byte) []byte, s store.Store) {
	b.Helper()
	s = openStore(b, cmp.Or(os.Getenv("PAWL_BENCH_STORE"), "sqlite:"+filepath.Join(b.TempDir(), "pawl.db")))
	url := serveStore(b, s, api.Config{}).url
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	return func(path string, body []byte) []byte {
		r, err := client.Post(url+path, "application/json", bytes.NewReader(body))
		if err != nil {
			b.Error(err)
			return nil
		}
		defer func() { _ = r.Body.Close() }()
		got, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode >= 300 {
			b.Errorf("%v: %d %s", err, r.StatusCode, got)
		}
		return got
	}, s
}

// cpuTime is what this process has computed so far, the client included: what a busy machine cannot change.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkIdle has a thousand polls of fifty topics wait for nothing, for a second.
func BenchmarkIdle(b *testing.B) {
	post, _ := benched(b)
	var polls sync.WaitGroup
	for i := range api.MaxWaiting {
		body := fmt.Appendf(nil, `{"topics":["idle-%d"],"wait_seconds":%d}`, i%50, 20+b.N)
		polls.Go(func() { post("/v1/lease", body) })
	}
	time.Sleep(10 * time.Second) // all of them wait
	b.ResetTimer()
	began := cpuTime(b)
	for b.Loop() {
		time.Sleep(time.Second)
	}
	b.ReportMetric(100*(cpuTime(b)-began).Seconds()/b.Elapsed().Seconds(), "%-of-a-core")
	b.StopTimer()
	polls.Wait()
}

// BenchmarkAppend appends one message a request, over 64 connections.
func BenchmarkAppend(b *testing.B) {
	post, _ := benched(b)
	b.SetParallelism(32)
	b.ResetTimer()
	began := cpuTime(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			post("/v1/topics/bench/messages", []byte(`{"json":{"to":"ann","n":12345}}`))
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/float64(b.N), "cpu-us/message")
}

// BenchmarkWork leases and settles a hundred messages a request, over 8 connections.
func BenchmarkWork(b *testing.B) {
	post, _ := benched(b)
	many := []byte("[" + strings.TrimSuffix(strings.Repeat(`{"body":"x"},`, 1000), ",") + "]")
	for range b.N/10 + 20 {
		post("/v1/topics/bench/messages", many)
	}
	b.SetParallelism(4)
	b.ResetTimer()
	began := cpuTime(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			var got struct{ Deliveries []struct{ Token string } }
			_ = json.Unmarshal(post("/v1/lease", []byte(`{"topics":["bench"],"limit":100}`)), &got)
			var body bytes.Buffer
			for i, d := range got.Deliveries {
				if i > 0 {
					body.WriteByte(',')
				}
				body.WriteString(`{"token":"` + d.Token + `","verdict":"ack"}`)
			}
			post("/v1/settle", []byte(`{"settlements":[`+body.String()+`]}`))
		}
	})
	b.ReportMetric(100*float64(b.N)/b.Elapsed().Seconds(), "messages/s")
	b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/float64(100*b.N), "cpu-us/message")
}

// BenchmarkPickup appends a message and waits until a long poll has it.
func BenchmarkPickup(b *testing.B) {
	post, _ := benched(b)
	arrived := make(chan time.Time)
	go func() {
		for range b.N {
			var got struct{ Deliveries []struct{ Token string } }
			for len(got.Deliveries) == 0 {
				_ = json.Unmarshal(post("/v1/lease", []byte(`{"topics":["bench"],"wait_seconds":20}`)), &got)
			}
			at := time.Now()
			post("/v1/settle", []byte(`{"settlements":[{"token":"`+got.Deliveries[0].Token+`","verdict":"ack"}]}`))
			arrived <- at
		}
	}()
	var all []time.Duration
	b.ResetTimer()
	for range b.N {
		time.Sleep(3 * time.Millisecond) // the poll waits again
		post("/v1/topics/bench/messages", []byte(`{"body":"x"}`))
		appended := time.Now()
		all = append(all, max((<-arrived).Sub(appended), 0))
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
}
