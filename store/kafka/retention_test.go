package kafka_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// TestLettersThatRetentionTookAreForgotten: they are not counted, not listed, and the
// messages of their keys are not kept from being carried out any more.
func TestLettersThatRetentionTookAreForgotten(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		s := open(t, config)
		if _, err := s.Declare(t.Context(), store.Declaration{Name: "orders", Park: new(true)}); err != nil {
			t.Fatal(err)
		}
		message := pawl.Message{Topic: "orders", Key: []byte("key")}
		add := func() {
			t.Helper()
			if _, err := s.Append(t.Context(), store.NewBatch(message)); err != nil {
				t.Fatal(err)
			}
		}
		counted := func() int64 {
			t.Helper()
			stats, err := s.Stats(t.Context(), "orders")
			if err != nil {
				t.Fatal(err)
			}
			return stats[0].Dead
		}
		add()
		eventually(t, "one dies", func() bool { return len(kill(t, s, "orders")) > 0 })
		eventually(t, "its letter is counted", func() bool { return counted() == 1 })
		if err := s.ForgetExpired(t.Context()); err != nil || counted() != 1 {
			t.Fatalf("%d letters before retention took any, want 1: %v", counted(), err)
		}
		wire := config.Prefix + "orders.dead"
		ends, err := admin.ListEndOffsets(t.Context(), wire)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.DeleteRecords(t.Context(), ends.Offsets()); err != nil {
			t.Fatal(err)
		}
		if err := s.ForgetExpired(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := counted(); n != 0 {
			t.Errorf("%d letters are counted, want none", n)
		}
		for r, err := range s.Dead(t.Context(), store.DeadFilter{Topic: "orders", Brief: true}) {
			t.Errorf("listed %s, %v; nothing is left of it", r.ID, err)
		}
		add()
		eventually(t, "the next of its key comes", func() bool {
			ds, err := s.Claim(t.Context(), []store.Want{{Topic: "orders", Limit: 1}}, store.Lease{For: time.Minute})
			return err == nil && len(ds) == 1
		})
	})
}
