package kafka_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// TestBytesAreTheCallersWhenHeHasGivenUp: what a call has handed to the client is sent
// as it was, though the call was given up since and its caller uses the bytes for
// something else.
func TestBytesAreTheCallersWhenHeHasGivenUp(t *testing.T) {
	t.Parallel()
	for name, hand := range map[string]func(context.Context, *kafka.Store, pawl.Message) error{
		"append": func(ctx context.Context, s *kafka.Store, m pawl.Message) error {
			_, err := s.Append(ctx, store.NewBatch(m))
			return err
		},
		"divert": func(ctx context.Context, s *kafka.Store, m pawl.Message) error {
			return s.Divert(ctx, []pawl.Message{m}, errors.New("for the test"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := brisk(fakeCluster(t, 1).ListenAddrs())
			config.Produce.Timeout = 2 * time.Minute
			late := config
			late.Produce.Linger, late.Produce.CloseWait = time.Minute, time.Minute // Close sends
			s := open(t, late)
			m := pawl.Message{Topic: "orders", ID: "one", Key: []byte("key"), Body: []byte("body")}
			if err := givenUp(t, s, func(ctx context.Context) error { return hand(ctx, s, m) }); !errors.Is(err,
				store.ErrUnknown) {
				t.Fatalf("%v; want that nobody knows", err)
			}
			copy(m.Key, "XXX")
			copy(m.Body, "XXXX")
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, config)
			var got pawl.Message
			if name == "divert" {
				got = awaitLetters(t, s, 1)[0].Message
			} else {
				got = firstOf(t, s, "orders").Message
			}
			if got.ID != "one" || string(got.Key) != "key" || string(got.Body) != "body" {
				t.Errorf("%s has %q, %q", got.ID, got.Key, got.Body)
			}
		})
	}
}

// givenUp makes a call that ends as soon as the client has what it produces.
func givenUp(t *testing.T, s *kafka.Store, call func(context.Context) error) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan error, 1)
	go func() { over <- call(ctx) }()
	for s.Figures().Produced.Buffered == 0 {
		select {
		case err := <-over:
			return err
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	return <-over
}

// firstOf claims until something comes.
func firstOf(t *testing.T, s *kafka.Store, topic string) pawl.Delivery {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		ds, err := s.Claim(t.Context(), []store.Want{{Topic: topic, Limit: 1}},
			store.Lease{For: time.Minute, Owner: "test"})
		if err != nil {
			t.Fatal(err)
		}
		if len(ds) > 0 {
			return ds[0]
		}
	}
	t.Fatal("nothing came")
	return pawl.Delivery{}
}

// TestCallsAtOnceStoreWhatTheyGot: each of several calls at once stores what it was given.
func TestCallsAtOnceStoreWhatTheyGot(t *testing.T) {
	t.Parallel()
	const callers, calls, each = 4, 10, 80
	s := open(t, brisk(fakeCluster(t, 1).ListenAddrs()))
	body := func(id string) []byte { return bytes.Repeat([]byte(id+"/"), 100) }
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for call := range calls {
				var msgs []pawl.Message
				for i := range each {
					id := fmt.Sprint(caller, ".", call, ".", i)
					msgs = append(msgs, pawl.Message{Topic: "orders", ID: id, Body: body(id)})
				}
				if _, err := s.Append(t.Context(), store.NewBatch(msgs...)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for end := time.Now().Add(time.Minute); len(seen) < callers*calls*each &&
		time.Now().Before(end); time.Sleep(time.Millisecond) {
		ds, err := s.Claim(t.Context(), []store.Want{{Topic: "orders", Limit: 1000}},
			store.Lease{For: time.Minute, Owner: "test"})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range ds {
			seen[d.ID] = true
			if !bytes.Equal(d.Body, body(d.ID)) {
				t.Fatalf("%s has %.40q", d.ID, d.Body)
			}
		}
	}
	if len(seen) < callers*calls*each {
		t.Errorf("%d of %d came", len(seen), callers*calls*each)
	}
}
