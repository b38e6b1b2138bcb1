package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/pawl-dev/pawl/store/kafka"
)

// TestBrokersShareOut: with the protocol in which the brokers say who has which partition
// everything comes, what is finished is committed, and who ends is a member no more.
func TestBrokersShareOut(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		config.Protocol = kafka.ProtocolConsumer
		s := open(t, config)
		send(t, s, "orders", 0, 20)
		receive(t, s, "orders", 20)
		committed(t, admin, config.Group, config.Prefix+"orders", 20)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		next := open(t, config)
		send(t, next, "orders", 20, 20)
		seen := receive(t, next, "orders", 20)
		for name, n := range seen {
			if n != 1 {
				t.Errorf("%s came %d times", name, n)
			}
		}
		committed(t, admin, config.Group, config.Prefix+"orders", 40)
	})
}
