package kafka_test

import (
	"context"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/enginetest"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
	"github.com/pawl-dev/pawl/store/storetest"
)

// clock is a store's clock that a test moves forward.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

// patient is a store whose claims wait until what was appended has been fetched:
// the suite counts on finding what it has just put there. It passes on every
// optional interface.
type patient struct{ *kafka.Store }

func (p patient) Claim(ctx context.Context, wants []store.Want, lease store.Lease) ([]pawl.Delivery, error) {
	var topics []string
	for _, w := range wants {
		topics = append(topics, w.Topic)
	}
	if _, err := p.Store.Claim(ctx, nil, lease); err != nil {
		return p.Store.Claim(ctx, wants, lease)
	}
	if _, err := p.Listen(ctx, topics...); err == nil {
		_ = p.CaughtUp(ctx, topics...)
	}
	return p.Store.Claim(ctx, wants, lease)
}

// TestContract: over a broker within the process, which is quick; the same runs
// over a real one.
func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, storetest.Harness{Open: openFake})
}

// TestEngine: the runtime over a broker within the process; each process is a member of the group.
func TestEngine(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, storetest.Harness{Open: func(t testing.TB) *storetest.Instance {
		brokers := fakeBrokers(t)
		open := func(t testing.TB) store.Store {
			s, err := kafka.Open(context.Background(), kafka.Config{Brokers: brokers, Produce: unpacked,
				Create: kafka.Creation{Partitions: 12, Replicas: 1}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			return s
		}
		in := &storetest.Instance{Store: open(t), Peer: open}
		in.Reopen = func(t testing.TB) store.Store {
			if err := in.Store.Close(); err != nil {
				t.Fatal(err)
			}
			in.Store = open(t)
			return in.Store
		}
		return in
	}})
}

func openFake(t testing.TB) *storetest.Instance {
	in := instance(t, kafka.Config{Brokers: fakeBrokers(t), Create: kafka.Creation{Partitions: 1, Replicas: 1},
		Produce: unpacked})
	in.Advance(2 * time.Hour)            // the client takes records of the past for ones that wait for long
	in.SetBack = func(d time.Duration) { // whatever a process does next, notices
		in.Advance(-d)
		if _, err := in.Store.Claim(context.Background(), nil, store.Lease{For: time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	return in
}

// unpacked is for tests over a broker within the process: the buffers of lz4, of four megabytes each, have most of the
// time of a run with -race. Those over a real broker keep the default.
var unpacked = kafka.Producing{Compression: "none"}

func fakeBrokers(t testing.TB) []string {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.BrokerConfigs(map[string]string{
		"group.initial.rebalance.delay.ms": "0", "message.max.bytes": "40000000", "max.message.bytes": "40000000",
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()
}

func instance(t testing.TB, config kafka.Config) *storetest.Instance {
	c := &clock{}
	config.Now = c.now
	config.Produce.Linger = -1
	config.Produce.BatchBytes = 20 << 20
	config.Consume.FetchMin, config.Consume.FetchWait = 1, 50*time.Millisecond
	config.Consume.PartBytes = 128 << 20
	open := func(t testing.TB) patient {
		s, err := kafka.Open(context.Background(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return patient{s}
	}
	in := &storetest.Instance{Store: open(t), Advance: c.advance}
	in.Peer = func(t testing.TB) store.Store { return open(t) }
	in.Reopen = func(t testing.TB) store.Store {
		if err := in.Store.Close(); err != nil {
			t.Fatal(err)
		}
		in.Store = open(t)
		return in.Store
	}
	return in
}

// TestRealContract: the sentences whose outcome depends on the broker, over Apache Kafka. Without -short it is the
// whole suite.
func TestRealContract(t *testing.T) {
	t.Parallel()
	broker := realBroker(t)
	var themes []string
	if testing.Short() {
		themes = []string{"batches", "messages", "runs", "emit", "dead letters", "figures", "processes", "durability"}
	}
	storetest.Run(t, storetest.Harness{Only: themes, Open: func(t testing.TB) *storetest.Instance {
		return instance(t, kafka.Config{Brokers: []string{broker}, Prefix: fresh("t") + ".", Group: fresh("g"),
			Create: kafka.Creation{Partitions: 1, Replicas: 1}})
	}})
}

// fresh is a name that no other test has, nor an earlier run.
func fresh(prefix string) string { return prefix + strconv.FormatInt(rand.Int64(), 36) }

// realBroker is the address of the broker that dev/services started.
func realBroker(t testing.TB) string {
	t.Helper()
	broker := os.Getenv("PAWL_TEST_KAFKA")
	if broker == "" {
		if slices.Contains(strings.Split(os.Getenv("PAWL_TEST_REQUIRE"), ","), "kafka") {
			t.Fatal("no Kafka: PAWL_TEST_KAFKA is not set")
		}
		t.Skip("no Kafka: dev/services run kafka -- go test ./store/kafka")
	}
	return broker
}
