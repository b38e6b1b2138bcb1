package kafka_test

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// dice are by chance, and of PAWL_KAFKA_SEED where that is set.
func dice(t testing.TB) (*rand.Rand, uint64) {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("PAWL_KAFKA_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("seed: PAWL_KAFKA_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0)), seed
}

// TestChaos: processes of a group join and leave, brokers refuse commits and
// heartbeats and move partitions and coordinators, and some handlers run longer
// than a partition waits for them.
func TestChaos(t *testing.T) {
	t.Parallel()
	const keys, messages, topic = 150, 40, "orders"
	r, seed := dice(t)
	cluster := fakeCluster(t, 3)
	config := brisk(cluster.ListenAddrs())
	config.Create.Partitions = 8
	config.Consume.Session, config.Consume.Rebalance, config.Consume.Drain = 2*time.Second, 4*time.Second,
		300*time.Millisecond
	producer := open(t, config)
	log := newChronicle()
	polite := manners{slow: 4 * time.Millisecond, odds: 300, long: 800, retry: 20, dead: 200}
	var all, now []*crew
	join := func() {
		c := hire(t, log, open(t, config), len(all), topic, seed, polite)
		all, now = append(all, c), append(now, c)
	}
	orders(t, producer, topic, keys, 0, 1)
	join()
	join()
	for n := 1; n < messages; n++ {
		orders(t, producer, topic, keys, n, n+1)
		harm(t, r, cluster, topic)
		if n%3 == 0 {
			switch p := r.IntN(3); {
			case p == 0 && len(now) > 1:
				i := r.IntN(len(now))
				now[i].leave()
				now = append(now[:i], now[i+1:]...)
			case len(now) < 4:
				join()
			}
		}
		time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
	}
	log.await(t, keys*messages, 60*time.Second)
	for _, c := range now {
		c.leave()
	}
	for _, c := range all {
		c.wg.Wait()
	}
	log.judge(t, keys, messages)
}

// harm does one thing to the brokers.
func harm(t *testing.T, r *rand.Rand, cluster *kfake.Cluster, topic string) {
	t.Helper()
	faults := []kfake.Fault{
		{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorNotAvailable, Count: 3},
		{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownMemberID},
		{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.RebalanceInProgress, Count: 2},
		{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.CoordinatorLoadInProgress, Count: 2},
		{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Err: kerr.UnknownMemberID},
		{Keys: []kmsg.Key{kmsg.Heartbeat}, TopLevel: true, Err: kerr.IllegalGeneration},
		{Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.NotLeaderForPartition, Count: 5},
	}
	switch p := r.IntN(len(faults) + 4); {
	case p < len(faults):
		cluster.Fault(faults[p])
	case p == len(faults):
		cluster.RehashCoordinators()
	case p == len(faults)+1:
		cluster.ShufflePartitionLeaders()
	case p == len(faults)+2:
		if err := cluster.MoveTopicPartition(topic, int32(r.IntN(8)), int32(r.IntN(3))); err != nil {
			t.Error(err)
		}
	default: // a moment of peace
	}
}
