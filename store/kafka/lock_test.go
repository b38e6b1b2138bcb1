package kafka_test

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// TestWhoTakesTheLockOverFences: a process that was suspended while it held the lock
// cannot commit once another one has it and reads. Both would replay the same letter.
func TestWhoTakesTheLockOverFences(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, _ *kadm.Client) {
		one, two := open(t, config), open(t, config)
		send(t, one, "orders", 0, 1)
		records := func(body string) []*kgo.Record {
			return []*kgo.Record{{Topic: config.Prefix + "orders", Value: []byte(body)}}
		}
		reading, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- one.ChangeDead(t.Context(), func() ([]*kgo.Record, error) {
				close(reading)
				<-goOn
				return records("late"), nil
			})
		}()
		<-reading
		// as if it had gone stale
		if _, err := two.PutState(t.Context(), kafka.KeyLock, nil, store.AnyVersion, "test"); err != nil {
			t.Fatal(err)
		}
		err := two.ChangeDead(t.Context(), func() ([]*kgo.Record, error) {
			close(goOn)
			if err := <-ended; err == nil {
				t.Error("who lost the lock commits while another one reads")
			}
			return records("in time"), nil
		})
		if err != nil {
			t.Errorf("who has the lock cannot commit: %v", err)
		}
	})
}

// TestTheLockIsRenewed: who takes long over a change is not taken for dead, and gives
// the lock back.
func TestTheLockIsRenewed(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, _ *kadm.Client) {
		one, two := open(t, config), open(t, config)
		one.RenewLock(20 * time.Millisecond)
		lock := func() store.Entry {
			e, err := two.GetState(t.Context(), kafka.KeyLock)
			if err != nil {
				t.Error(err)
			}
			return e
		}
		err := one.ChangeDead(t.Context(), func() ([]*kgo.Record, error) {
			seen := map[int64]bool{}
			eventually(t, "the lock changes", func() bool {
				seen[lock().Version] = true
				return len(seen) == 3
			})
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if e := lock(); len(e.Value) > 0 {
			t.Errorf("%s has the lock still", e.Value)
		}
	})
}
