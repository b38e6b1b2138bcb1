package kafka_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/pawl-dev/pawl/store/kafka"
)

// TestAForgottenTopicIsNotBegunAnew: what is written to a topic after a broker said that
// there is none is not taken for a repetition of what was written before, and dropped.
func TestAForgottenTopicIsNotBegunAnew(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		create(t, admin, config.Prefix+"orders", 1)
		s := open(t, config)
		send(t, s, "orders", 0, 1)
		s.ForgetTopic("orders")
		send(t, s, "orders", 1, 1)
		receive(t, s, "orders", 2)
	})
}
