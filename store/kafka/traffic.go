package kafka

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl/store"
)

// traffic counts requests and bytes, for all clients of a store. It is a hook of the
// client.
type traffic struct {
	mu    sync.Mutex
	count Traffic
}

var (
	_ kgo.HookBrokerConnect    = (*traffic)(nil)
	_ kgo.HookBrokerDisconnect = (*traffic)(nil)
	_ kgo.HookBrokerE2E        = (*traffic)(nil)
	_ kgo.HookBrokerThrottle   = (*traffic)(nil)
)

// OnBrokerConnect implements [kgo.HookBrokerConnect].
func (t *traffic) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		t.count.ConnectFailures++
	} else {
		t.count.Connects++
	}
}

// OnBrokerDisconnect implements [kgo.HookBrokerDisconnect].
func (t *traffic) OnBrokerDisconnect(kgo.BrokerMetadata, net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count.Disconnects++
}

// OnBrokerE2E implements [kgo.HookBrokerE2E].
func (t *traffic) OnBrokerE2E(_ kgo.BrokerMetadata, key int16, e kgo.BrokerE2E) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count.Requests++
	t.count.BytesWritten += uint64(max(e.BytesWritten, 0))
	t.count.BytesRead += uint64(max(e.BytesRead, 0))
	if e.Err() == nil {
		return
	}
	t.count.RequestFailures++
	if key == kmsg.Produce.Int16() {
		t.count.ProduceFailures++
	}
}

// OnBrokerThrottle implements [kgo.HookBrokerThrottle].
func (t *traffic) OnBrokerThrottle(_ kgo.BrokerMetadata, d time.Duration, _ bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.count.Throttled += d
}

func (t *traffic) figures() Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}

// logEvery is how often the figures are logged.
const logEvery = time.Minute

// logLoop logs the figures, at debug level.
func (s *Store) logLoop() {
	for store.Sleep(s.ctx, logEvery) == nil {
		s.logFigures()
	}
}

func (s *Store) logFigures() {
	if !s.cfg.Logger.Enabled(s.ctx, slog.LevelDebug) {
		return
	}
	f := s.Figures()
	var consumed, failed uint64
	for _, t := range f.Topics {
		consumed, failed = consumed+t.Consumed, failed+t.Failed
	}
	p, t := f.Produced, f.Traffic
	s.cfg.Logger.LogAttrs(context.Background(), slog.LevelDebug, "figures of Kafka",
		slog.Group("produced", "stored", p.Stored, "refused", p.Refused, "unknown", p.Unknown, "buffered", p.Buffered),
		slog.Uint64("consumed", consumed), slog.Uint64("attempts_failed", failed),
		slog.Int("partitions", len(f.Partitions)),
		slog.Group("commits", "ok", f.Commits.OK, "failed", f.Commits.Failed, "bare", f.Commits.Bare),
		slog.Group("group", "assigned", f.Assigned, "revoked", f.Revoked, "lost", f.Lost),
		slog.Group("client", "connects", t.Connects, "connect_failures", t.ConnectFailures, "disconnects",
			t.Disconnects,
			"requests", t.Requests, "request_failures", t.RequestFailures, "bytes_written", t.BytesWritten,
			"bytes_read", t.BytesRead,
			"throttled", t.Throttled),
	)
}
