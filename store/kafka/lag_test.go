package kafka_test

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/pawl-dev/pawl/store/kafka"
)

// TestLostToRetention: what retention took before the group had finished it is counted
// and told; what it took before the group ever read the topic was never the group's.
func TestLostToRetention(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		s := open(t, config)
		trim := kadm.Offsets{}
		for _, topic := range []string{"orders", "fresh"} {
			send(t, s, topic, 0, 10)
			trim.Add(kadm.Offset{Topic: config.Prefix + topic, At: 7, LeaderEpoch: -1})
		}
		done := kadm.Offsets{}
		done.Add(kadm.Offset{Topic: config.Prefix + "orders", At: 4, LeaderEpoch: -1})
		if err := admin.CommitAllOffsets(t.Context(), config.Group, done); err != nil {
			t.Fatal(err)
		}
		if _, err := admin.DeleteRecords(t.Context(), trim); err != nil {
			t.Fatal(err)
		}
		receive(t, s, "fresh", 3)
		receive(t, s, "orders", 3)
		f := s.Figures()
		want := []kafka.RetentionFigures{{Topic: "orders", Messages: 3}}
		if !slices.Equal(f.Retention, want) {
			t.Errorf("lost: %v, want %v", f.Retention, want)
		}
		for _, p := range f.Partitions {
			if p.Lag != 0 {
				t.Errorf("everything is finished, and the lag is %d", p.Lag)
			}
		}
		hasFault(t, s, "retention removed 3 messages")
	})
}
