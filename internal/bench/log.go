package bench

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/logs"
)

// LogConfig is a load on the log.
type LogConfig struct {
	Records   int
	Producers int
	PerSecond float64 // of all producers together; 0 is as fast as they can
	Sinks     []logs.Sink
}

// LogResult is what became of it.
type LogResult struct {
	Offered        int                      `json:"offered"`
	ElapsedSeconds float64                  `json:"elapsed_seconds"`
	PerSecond      float64                  `json:"per_second"`
	Sinks          map[string]LogSinkResult `json:"sinks"`
}

// LogSinkResult is what became of the records of a sink. P99BlockNS is of the calls of producers: there is one for all
// sinks.
type LogSinkResult struct {
	Written    uint64 `json:"written"`
	Dropped    uint64 `json:"dropped"`
	MaxLag     int    `json:"max_lag"`
	P99BlockNS int64  `json:"p99_block_ns"`
}

// logConnects and logSettles are how long sinks may take to write the first record, for which they connect, and what
// waits when the producers have ended.
const (
	logConnects = 10 * time.Second
	logSettles  = time.Minute
)

// Log offers records to a log and counts what its sinks made of them. The load begins when every sink has dealt with
// the first record: how long a connection takes is not what is measured.
func Log(ctx context.Context, c LogConfig) LogResult {
	log := logs.New(logs.Config{Sinks: c.Sinks, Node: "bench", Include: logs.Fields}) // numbers in text, too
	took := make([][]int64, c.Producers+1)
	first := min(c.Records, 1)
	took[c.Producers] = produceLogs(ctx, slog.New(log.Handler()), 0, first, 0)
	settle(ctx, log, logConnects)
	began := time.Now()
	var wg sync.WaitGroup
	for p := range c.Producers {
		n := (c.Records - first) / c.Producers
		if p < (c.Records-first)%c.Producers {
			n++
		}
		wg.Go(func() { took[p] = produceLogs(ctx, slog.New(log.Handler()), p, n, c.PerSecond/float64(c.Producers)) })
	}
	wg.Wait()
	elapsed := time.Since(began).Seconds()
	all := slices.Concat(took...)
	slices.Sort(all)
	r := LogResult{Offered: len(all), ElapsedSeconds: elapsed, PerSecond: float64(len(all)) / elapsed,
		Sinks: map[string]LogSinkResult{}}
	settle(ctx, log, logSettles)
	log.Close()
	for _, f := range log.Figures() {
		s := LogSinkResult{Written: f.Written, MaxLag: f.MaxLag}
		for _, n := range f.Dropped {
			s.Dropped += n
		}
		if len(all) > 0 {
			s.P99BlockNS = all[(len(all)-1)*99/100]
		}
		r.Sinks[f.Name] = s
	}
	return r
}

// settle waits until nothing waits for a sink.
func settle(ctx context.Context, log *logs.Log, patience time.Duration) {
	for end := time.Now().Add(patience); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(time.Millisecond) {
		waits := false
		for _, f := range log.Figures() {
			waits = waits || f.Lag > 0
		}
		if !waits {
			return
		}
	}
}

// produceLogs logs n records, and returns how long each call took.
func produceLogs(ctx context.Context, log *slog.Logger, producer, n int, perSecond float64) []int64 {
	log = log.With(observe.Module, "bench", observe.QueueTopic, "mail", observe.EventType, "Download")
	worker := "worker-" + strconv.Itoa(producer)
	took := make([]int64, 0, n)
	began := time.Now()
	for i := range n {
		if perSecond > 0 {
			if early := time.Until(began.Add(time.Duration(float64(i) / perSecond * 1e9))); early > 0 {
				time.Sleep(early)
			}
		}
		if ctx.Err() != nil {
			return took
		}
		call := time.Now()
		log.LogAttrs(ctx, slog.LevelInfo, "the download is done",
			slog.String(observe.Phase, "Completed"), slog.String(observe.TaskID, worker), slog.Int("n", i),
			slog.String(observe.TraceID, "4bf92f3577b34da6a3ce929d0e0e4736"),
			slog.Int(observe.RetryCount, i%3), slog.Int(observe.RetryMax, 10),
			slog.Duration("took", 1234*time.Microsecond))
		took = append(took, int64(time.Since(call)))
	}
	return took
}

// errFails is what a failing sink says.
var errFails = errors.New("this sink fails, as it was told to")

// faulty is a sink with a fault.
type faulty struct {
	hang    time.Duration // before the second batch; 0: every batch fails
	batches int
}

// NewHanging returns an output that takes nothing for a while, and then everything.
func NewHanging(hang time.Duration) logs.Output { return &faulty{hang: hang} }

// NewFailing returns an output that takes nothing.
func NewFailing() logs.Output { return &faulty{} }

// Write implements logs.Output.
func (f *faulty) Write(b *logs.Batch) {
	if f.hang == 0 {
		b.Done(b.Lines(), errFails)
		return
	}
	if f.batches++; f.batches == 2 {
		time.Sleep(f.hang)
	}
	b.Done(0, nil)
}

// Close implements logs.Output.
func (f *faulty) Close() {}
