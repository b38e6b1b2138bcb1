//go:build linux

package crash

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ownCrew is two consumers and a producer over brokers that no other test uses, at
// work already.
func ownCrew(t *testing.T, brokers, options string) (*crew, *stream) {
	t.Helper()
	c := newCrew(t, &plan{
		site: kafkaSiteAt(t, brokers, "&partitions=4"+options), dir: t.TempDir(), topic: "orders", concurrency: 4,
		parallel: 4,
		lease:    30 * time.Second, work: 5 * time.Millisecond,
	})
	c.book.brokers = true
	c.join()
	c.join()
	producer := c.feed(200, 4*time.Millisecond)
	c.works(time.Minute)           // brokers of other tests start, too
	time.Sleep(2 * commitInterval) // so that something is committed before the first fault
	return c, producer
}

// over ends what ownCrew began, and judges.
func (c *crew) over(producer *stream, how string) {
	c.t.Helper()
	producer.end()
	c.drained(time.Minute)
	c.finish(how)
}

// TestKafkaBrokerKilled: the only broker is killed with kill -9, and started again.
func TestKafkaBrokerKilled(t *testing.T) {
	beside(t, 96)
	kafkaBroker(t)
	v := ownService(t, "kafka")
	c, producer := ownCrew(t, v.address("PAWL_TEST_KAFKA"), "")
	var back [2]time.Duration
	for i := range back {
		v.do("kill", "kafka")
		time.Sleep(2 * time.Second) // longer than a moment
		v.do("start", "kafka")
		back[i] = c.works(30 * time.Second)
	}
	c.over(producer, fmt.Sprintf("the broker killed twice, at work %v after its return", back))
}

// TestKafkaLeaderLost: of three brokers the one is killed that leads a partition,
// and then the one that coordinates the group. Two copies are enough.
func TestKafkaLeaderLost(t *testing.T) {
	beside(t, 97)
	kafkaBroker(t)
	v := ownService(t, "kafka3")
	brokers := v.address("PAWL_TEST_KAFKA3")
	c, producer := ownCrew(t, brokers, "&replicas=3")
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin, name := kadm.NewClient(client), strings.TrimSuffix(between(c.plan.site.url, "group=", "&"), ".")
	var back [2]time.Duration
	for i, find := range []func() int32{
		func() int32 { return leaderOf(t, admin, name+"."+c.plan.topic) },
		func() int32 { return coordinatorOf(t, admin, name) },
	} {
		node := fmt.Sprintf("kafka3-%d", find())
		v.do("kill", node)
		back[i] = c.works(30 * time.Second)
		v.do("start", node)
		c.works(30 * time.Second)
	}
	c.over(producer, fmt.Sprintf("a leader killed, at work again after %v, and the coordinator, %v", back[0], back[1]))
}

func between(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}

func leaderOf(t *testing.T, admin *kadm.Client, topic string) int32 {
	t.Helper()
	var leader int32
	eventually(t, 30*time.Second, "three brokers have the partition", func() bool {
		ts, err := admin.ListTopics(t.Context(), topic)
		if err != nil || ts[topic].Err != nil {
			return false
		}
		leader = ts[topic].Partitions[0].Leader
		return len(ts[topic].Partitions[0].ISR) == 3
	})
	return leader
}

func coordinatorOf(t *testing.T, admin *kadm.Client, group string) int32 {
	t.Helper()
	var coordinator int32
	eventually(t, 30*time.Second, "the group has a coordinator", func() bool {
		gs, err := admin.DescribeGroups(t.Context(), group)
		coordinator = gs[group].Coordinator.NodeID
		return err == nil && gs[group].Err == nil
	})
	return coordinator
}

// TestKafkaConnectionCut: all traffic goes through a proxy, which closes every
// connection, resets them, and swallows what is sent over them for some seconds.
func TestKafkaConnectionCut(t *testing.T) {
	beside(t, 45)
	kafkaBroker(t)
	v := ownService(t, "kafka")
	proxied := v.address("PAWL_TEST_KAFKA_PROXIED")
	proxy := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), "kafka",
		proxied, v.address("PAWL_TEST_KAFKA_BEHIND"))
	start(t, proxy)
	defer proxy.Stop()
	c, producer := ownCrew(t, proxied, "")
	var back []time.Duration
	for _, cut := range []func(){
		func() { proxy.Stop(); time.Sleep(time.Second); start(t, proxy) },
		func() { disturb(t, proxy, "reset_peer", time.Second) },
		func() { disturb(t, proxy, "timeout", 4*time.Second) },
		func() { proxy.Stop(); start(t, proxy) },
	} {
		cut()
		back = append(back, c.works(30*time.Second))
	}
	c.over(producer, fmt.Sprintf("connections cut %d times, at work %v after each", len(back), back))
}

func start(t *testing.T, proxy *toxiproxy.Proxy) {
	t.Helper()
	if err := proxy.Start(); err != nil {
		t.Fatal(err)
	}
}

// disturb lets a proxy do harm to every connection, for some time.
func disturb(t *testing.T, proxy *toxiproxy.Proxy, kind string, d time.Duration) {
	t.Helper()
	for _, stream := range []string{"upstream", "downstream"} {
		if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(
			fmt.Sprintf(`{"name":%q,"type":%q,"stream":%q,"attributes":{"timeout":0}}`, stream, kind,
				stream))); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(d)
	for _, stream := range []string{"upstream", "downstream"} {
		if err := proxy.Toxics.RemoveToxic(context.Background(), stream); err != nil {
			t.Fatal(err)
		}
	}
}
