package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// stateEnds are where the log of the state begins and ends.
func stateEnds(t *testing.T, admin *kadm.Client, topic string) (start, end int64) {
	t.Helper()
	starts, err := admin.ListStartOffsets(t.Context(), topic)
	ends, bad := admin.ListEndOffsets(t.Context(), topic)
	if err = errors.Join(err, bad); err != nil {
		t.Fatal(err)
	}
	first, _ := starts.Lookup(topic, 0)
	last, _ := ends.Lookup(topic, 0)
	return first.Offset, last.Offset
}

// alive puts signs of life of two workers until so many were put, and the log was cut.
func alive(t *testing.T, s *kafka.Store, n int, cut func() bool) {
	t.Helper()
	until := time.Now().Add(3 * time.Minute)
	for i := 0; i < n || !cut(); i++ {
		if time.Now().After(until) {
			t.Fatalf("after %d signs of life the log is not cut; faults: %v", i, s.Faults())
		}
		key := fmt.Sprintf("worker/%d", i%2)
		if _, err := s.PutState(t.Context(), key, make([]byte, 256), store.AnyVersion, key); err != nil {
			t.Fatal(err)
		}
	}
}

func get(t *testing.T, s *kafka.Store, key string) store.Entry {
	t.Helper()
	e, err := s.GetState(t.Context(), key)
	if err != nil {
		t.Fatalf("%s: %v", key, err)
	}
	return e
}

// TestSignsOfLifeDoNotMakeTheStateLonger: whoever starts reads a bounded number of
// records, has what was put before any of them, and changes it by its version. Who was cut
// off from the brokers meanwhile has it, too.
func TestSignsOfLifeDoNotMakeTheStateLonger(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		s := open(t, config)
		s.ShortenState(6 << 10)
		var away atomic.Bool
		lonely := config
		lonely.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			return &severed{c, &away}, err
		}
		other := open(t, lonely)
		topic := config.Prefix + "pawl.state"
		kept, err := s.PutState(t.Context(), "setting", []byte("kept"), 0, "somebody")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.PutState(t.Context(), "gone", nil, 0, "somebody"); err != nil {
			t.Fatal(err)
		}
		if got := get(t, other, "setting"); got.Version != kept.Version {
			t.Fatalf("%+v", got)
		}
		away.Store(true)
		if err := s.DeleteState(t.Context(), "gone", store.AnyVersion); err != nil {
			t.Fatal(err)
		}
		alive(t, s, 240, func() bool { start, _ := stateEnds(t, admin, topic); return start > 10 })
		away.Store(false)
		start, end := stateEnds(t, admin, topic)
		t.Logf("after 240 signs of life the log has %d records, from %d to %d", end-start, start, end)
		if end-start > 160 {
			t.Error("it is not shortened")
		}
		for name, reader := range map[string]*kafka.Store{"one that starts": open(t, config), "one that was away": other} {
			got := get(t, reader, "setting")
			if string(got.Value) != "kept" || got.Version != kept.Version || got.Writer != "somebody" ||
				!got.At.Equal(kept.At) {
				t.Errorf("%s has %+v, want %+v", name, got, kept)
			}
			if e, err := reader.GetState(t.Context(), "gone"); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s has what was deleted: %+v, %v", name, e, err)
			}
			if kept, err = reader.PutState(t.Context(), "setting", got.Value, got.Version, "somebody"); err != nil {
				t.Errorf("%s cannot change it: %v", name, err)
			}
		}
	})
}

// severed is a connection that fails while its process is away.
type severed struct {
	net.Conn
	away *atomic.Bool
}

func (c *severed) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.away.Load() {
		return 0, net.ErrClosed
	}
	return n, err
}

// TestStateThatCannotBeShortened: health names the right that is missing.
func TestStateThatCannotBeShortened(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	config := brisk(cluster.ListenAddrs())
	var asked atomic.Int32
	cluster.ControlKey(kmsg.DeleteRecords.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asked.Add(1)
		resp := r.ResponseKind().(*kmsg.DeleteRecordsResponse)
		partition := kmsg.NewDeleteRecordsResponseTopicPartition()
		partition.ErrorCode = kerr.TopicAuthorizationFailed.Code
		resp.Topics = []kmsg.DeleteRecordsResponseTopic{{Topic: "pawl.state",
			Partitions: []kmsg.DeleteRecordsResponseTopicPartition{partition}}}
		return resp, nil, true
	})
	s := open(t, config)
	s.ShortenState(4 << 10)
	alive(t, s, 100, func() bool { return asked.Load() >= 5 })
	hasFault(t, s, "--operation Delete --topic pawl.state")
	h, err := open(t, config).Health(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range h.Faults {
		if strings.Contains(f.What, "is not shortened") && strings.Contains(f.What, "--operation Delete") {
			return
		}
	}
	t.Errorf("health says %v", h.Faults)
}
