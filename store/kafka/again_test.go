package kafka_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// remake deletes a topic and makes it again.
func remake(t testing.TB, admin *kadm.Client, wire string) {
	t.Helper()
	drop(t, admin, wire)
	create(t, admin, wire, 1)
}

// drop deletes a topic, and waits until the brokers do not take records for it any more.
func drop(t testing.TB, admin *kadm.Client, wire string) {
	t.Helper()
	if _, err := admin.DeleteTopic(t.Context(), wire); err != nil {
		t.Fatal(err)
	}
	eventually(t, wire+" is gone", func() bool {
		topics, err := admin.ListTopics(t.Context(), wire)
		return err == nil && !topics.Has(wire)
	})
}

// eventually waits until something is so, for a minute.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come to be that %s", what)
		}
	}
}

// found lists letters; false if that is not possible at the moment.
func found(t testing.TB, s *kafka.Store) (ids []string, ok bool) {
	for r, err := range s.Dead(t.Context(), store.DeadFilter{Topic: "orders"}) {
		if err != nil {
			t.Log(err)
			return nil, false
		}
		ids = append(ids, r.ID)
	}
	return ids, true
}

// TestLettersOfATopicMadeAgain: processes that have read a topic of dead letters
// that is deleted forget what was in it, and go on with the one that is made again:
// they read it, write to it and change it.
func TestLettersOfATopicMadeAgain(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		one, two := open(t, config), open(t, config)
		both := func(want ...string) {
			t.Helper()
			for _, s := range []*kafka.Store{one, two} {
				var got []string
				eventually(t, "it lists what is there", func() (ok bool) {
					got, ok = found(t, s)
					return ok && slices.Equal(got, want)
				})
			}
		}
		die := func() (id string) {
			t.Helper()
			eventually(t, "one dies", func() bool {
				ds := kill(t, one, "orders")
				if len(ds) > 0 {
					id = ds[0].ID
				}
				return len(ds) > 0
			})
			return id
		}
		send(t, one, "orders", 0, 4)
		both(die())
		first := die()
		eventually(t, "it lists two", func() bool { got, ok := found(t, two); return ok && len(got) == 2 })
		remake(t, admin, config.Prefix+"orders.dead")
		both()
		third := die()
		both(third)
		eventually(t, "letters of the new topic can be changed, those of the old one are not there", func() bool {
			refused, err := two.Purge(t.Context(), third, first)
			if err != nil {
				t.Log(err)
				return false
			}
			return len(refused) == 1 && errors.Is(refused[first], store.ErrNotFound)
		})
		both()
		drop(t, admin, config.Prefix+"orders.dead")
		both(die()) // who writes makes it again
	})
}

// TestStateMadeAgain: the state of a topic that is deleted is gone, for everybody;
// what is put into the one that is made again is read by all.
func TestStateMadeAgain(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		config.StateTopic = "state"
		one, two := open(t, config), open(t, config)
		send(t, one, "orders", 0, 1)
		if err := one.Pause(t.Context(), "orders", 0, "test", "test"); err != nil {
			t.Fatal(err)
		}
		put := func(value string, version int64) {
			t.Helper()
			eventually(t, "the state can be put", func() bool {
				_, err := one.PutState(t.Context(), "key", []byte(value), version, "test")
				if err != nil {
					t.Log(err)
				}
				return err == nil
			})
		}
		reads := func(want string) {
			t.Helper()
			for _, s := range []*kafka.Store{one, two} {
				eventually(t, "everybody reads "+want, func() bool {
					e, err := s.GetState(t.Context(), "key")
					if want == "" {
						return errors.Is(err, store.ErrNotFound)
					}
					return err == nil && string(e.Value) == want
				})
			}
		}
		claimed := func() []pawl.Delivery {
			ds, err := two.Claim(t.Context(), []store.Want{{Topic: "orders", Limit: 1}}, store.Lease{For: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			return ds
		}
		put("before", 0)
		reads("before")
		for range 20 {
			if len(claimed()) > 0 {
				t.Fatal("claimed while the topic is paused")
			}
			time.Sleep(20 * time.Millisecond)
		}
		remake(t, admin, config.Prefix+"state")
		eventually(t, "who only claims notices that the pause is gone", func() bool { return len(claimed()) > 0 })
		reads("")
		put("after", 0)
		reads("after")
		drop(t, admin, config.Prefix+"state")
		reads("")
		put("again", 0) // who writes makes it again
		reads("again")
	})
}

// TestLettersThatRetentionTook: who lists letters of which the brokers have kept
// none does not wait for them.
func TestLettersThatRetentionTook(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		s := open(t, config)
		send(t, s, "orders", 0, 3)
		eventually(t, "one dies", func() bool { return len(kill(t, s, "orders")) > 0 })
		wire := config.Prefix + "orders.dead"
		if got, ok := found(t, s); !ok || len(got) != 1 {
			t.Fatalf("letters: %v", got)
		}
		ends, err := admin.ListEndOffsets(t.Context(), wire)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := admin.DeleteRecords(t.Context(), ends.Offsets()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for r, err := range s.Dead(ctx, store.DeadFilter{Topic: "orders"}) {
			t.Fatalf("listed %s, %v; nothing is left of it", r.ID, err)
		}
	})
}
