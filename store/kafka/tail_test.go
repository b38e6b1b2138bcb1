package kafka_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// TestLettersOfATopicJustMade: a process that had found no topic of dead letters a
// moment ago finds what another one has put there.
func TestLettersOfATopicJustMade(t *testing.T) {
	t.Parallel()
	broker := fakeCluster(t, 1).ListenAddrs()
	one, two := open(t, brisk(broker)), open(t, brisk(broker))
	count := func(s *kafka.Store) (n int) {
		for _, err := range s.Dead(t.Context(), store.DeadFilter{Topic: "orders"}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	send(t, one, "orders", 0, 1)
	for len(kill(t, one, "orders")) == 0 {
		count(two) // and remembers that there is none
	}
	if n := count(two); n != 1 {
		t.Errorf("%d letters, want 1", n)
	}
}

// kill claims one message and makes it a dead letter.
func kill(t testing.TB, s *kafka.Store, topic string) []pawl.Delivery {
	t.Helper()
	ds, err := s.Claim(t.Context(), []store.Want{{Topic: topic, Limit: 1}},
		store.Lease{For: time.Minute, Owner: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range ds {
		_, err := s.Settle(t.Context(), store.Batch[store.Settlement]{Items: []store.Settlement{{Token: d.Token,
			ID: d.ID, Verdict: store.Dead, Failure: store.Failure{Kind: pawl.KindDecode, Error: "hopeless"}}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	return ds
}

// TestLettersAreThereWhenImported: who imports letters finds them, and so does who
// comes next. Brokers say that a transaction is over before who reads is shown what
// is in it.
func TestLettersAreThereWhenImported(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, _ *kadm.Client) {
		config.Create.Partitions = 8
		one, two := open(t, config), open(t, config)
		const rounds, each = 30, 100
		for round := range rounds {
			var letters []store.Record
			for i := range each {
				id := fmt.Sprintf("letter%d-%d", round, i)
				letters = append(letters, store.Record{Message: pawl.Message{ID: id, Topic: "orders", Key: []byte(id)},
					State: store.IsDead, DeadAt: time.Now(), EnqueuedAt: time.Now()})
			}
			if refused, err := one.Import(t.Context(), letters...); err != nil || len(refused) > 0 {
				t.Fatal(refused, err)
			}
			for who, s := range []*kafka.Store{one, two} {
				n := 0
				for _, err := range s.Dead(t.Context(), store.DeadFilter{Topic: "orders", Brief: true}) {
					if err != nil {
						t.Fatal(err)
					}
					n++
				}
				if want := (round + 1) * each; n != want {
					t.Fatalf("process %d lists %d letters right after the %dth were imported; want %d", who+1, n,
						want, want)
				}
			}
			one, two = two, one
		}
	})
}

// TestAnAbortedChangeIsMadeAgain: a client may abort a transaction and report that it was
// committed. The change is made again, and is an error if that ends in the same way; nothing is
// changed then.
func TestAnAbortedChangeIsMadeAgain(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	s := open(t, brisk(cluster.ListenAddrs()))
	abort := func(times int) {
		cluster.ControlKey(kmsg.EndTxn.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
			cluster.KeepControl()
			if end := r.(*kmsg.EndTxnRequest); end.Commit && times > 0 {
				end.Commit = false
				times--
			}
			return nil, nil, false
		})
	}
	list := func() (ids []string) {
		for r, err := range s.Dead(t.Context(), store.DeadFilter{Topic: "orders"}) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID+" "+string(r.Body))
		}
		slices.Sort(ids)
		return ids
	}
	letter := func(id string) store.Record {
		return store.Record{Message: pawl.Message{ID: id, Topic: "orders", Body: []byte("old")}, State: store.IsDead,
			DeadAt: time.Now(), EnqueuedAt: time.Now()}
	}
	for _, c := range []struct {
		name  string
		do    func() error
		after []string
	}{
		{"import", func() error {
			_, err := s.Import(t.Context(), letter("a"), letter("b"))
			return err
		}, []string{"a old", "b old"}},
		{"edit", func() error {
			_, err := s.Edit(t.Context(), store.Edit{ID: "a", Body: []byte("new")})
			return err
		}, []string{"a new", "b old"}},
		{"replay", func() error {
			_, err := s.Replay(t.Context(), "", "a")
			return err
		}, []string{"b old"}},
		{"purge", func() error {
			_, err := s.Purge(t.Context(), "b")
			return err
		}, nil},
	} {
		before := list()
		abort(2)
		if err := c.do(); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s, aborted twice: %v", c.name, err)
		}
		if got := list(); !slices.Equal(got, before) {
			t.Errorf("%s, aborted twice: the letters were %q, and are %q", c.name, before, got)
		}
		abort(1)
		if err := c.do(); err != nil {
			t.Errorf("%s, aborted once: %v", c.name, err)
		}
		if got := list(); !slices.Equal(got, c.after) {
			t.Errorf("%s, aborted once: the letters are %q, want %q", c.name, got, c.after)
		}
	}
}
