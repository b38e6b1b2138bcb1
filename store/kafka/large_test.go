package kafka_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// createFor makes a topic that takes batches of that size.
func createFor(t testing.TB, admin *kadm.Client, wire string, size int) {
	t.Helper()
	limit := strconv.Itoa(size)
	resp, err := admin.CreateTopics(t.Context(), 1, 1, map[string]*string{"max.message.bytes": &limit}, wire)
	if err = errors.Join(err, resp.Error()); err != nil {
		t.Fatal(err)
	}
	await(t, admin, wire)
}

// noise is a body that no compression makes smaller.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return b
}

// foreign puts a record into a topic, as another program does whose batches are larger
// than ours.
func foreign(t testing.TB, brokers []string, wire string, body []byte) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ProducerBatchMaxBytes(16<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: wire, Value: body}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// awaitLetters waits until a topic has so many dead letters, and returns them.
func awaitLetters(t testing.TB, s *kafka.Store, n int) (rs []store.Record) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		rs = rs[:0]
		for r, err := range s.Dead(t.Context(), store.DeadFilter{Topic: "orders"}) {
			if err != nil {
				t.Fatal(err)
			}
			rs = append(rs, r)
		}
		if len(rs) >= n {
			return rs
		}
	}
	t.Fatalf("%d dead letters, want %d; faults: %v", len(rs), n, s.Faults())
	return nil
}

// TestALargeLetterIsWritten: a record of another program that is larger than our batches
// becomes a dead letter, and what is behind it goes on; so does one that is stepped over.
func TestALargeLetterIsWritten(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		wire := config.Prefix + "orders"
		createFor(t, admin, wire, 16<<20)
		body := noise(3 << 20)
		foreign(t, config.Brokers, wire, body)
		s := open(t, config)
		if _, err := s.SkipOffset(t.Context(), "orders", 0, 0, "test", "too large", time.Minute); err != nil {
			t.Fatal(err)
		}
		foreign(t, config.Brokers, wire, body)
		for len(kill(t, s, "orders")) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		for _, r := range awaitLetters(t, s, 2) {
			if string(r.Body) != string(body) {
				t.Errorf("a letter has a body of %d bytes", len(r.Body))
			}
		}
		send(t, s, "orders", 0, 1)
		receive(t, s, "orders", 1)
	})
}

// TestALargeLetterIsAmendedAndReplayed, like any other, beside small ones; where the
// topic takes nothing that large, it says so and stays a letter.
func TestALargeLetterIsAmendedAndReplayed(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		wire := config.Prefix + "orders"
		createFor(t, admin, wire, 16<<20)
		createFor(t, admin, config.Prefix+"small", 1<<20)
		body := noise(3 << 20)
		s := open(t, config)
		send(t, s, "orders", 0, 2)
		foreign(t, config.Brokers, wire, body)
		for n := 0; n < 3; n += len(kill(t, s, "orders")) {
			time.Sleep(10 * time.Millisecond)
		}
		var ids []string
		var large string
		for _, r := range awaitLetters(t, s, 3) {
			ids = append(ids, r.ID)
			if len(r.Body) == len(body) {
				large = r.ID
			}
		}
		body[0]++
		if refused, err := s.Edit(t.Context(), store.Edit{ID: large, Body: body}); err != nil ||
			len(refused) > 0 {
			t.Fatal(refused, err)
		}
		if _, err := s.Replay(t.Context(), "small", ids...); !errors.Is(err, store.ErrTooLarge) ||
			!strings.Contains(err.Error(), large) {
			t.Fatalf("replay to a topic that does not take it: %v", err)
		}
		awaitLetters(t, s, 3)
		if refused, err := s.Replay(t.Context(), "", ids...); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
		seen := map[string]bool{}
		for len(seen) < 3 {
			ds, err := s.Claim(t.Context(), []store.Want{{Topic: "orders", Limit: 10}},
				store.Lease{For: time.Minute, Owner: "test"})
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range ds {
				if seen[d.ID] = true; d.ID == large && !bytes.Equal(d.Body, body) {
					t.Errorf("the large one came back with %d other bytes", len(d.Body))
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// TestALetterWaitsForItsTopic: a letter that is too large for its topic is written when
// that takes more, without anybody's help; and not taken for the repetition of one that
// was written before.
func TestALetterWaitsForItsTopic(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		wire := config.Prefix + "orders"
		createFor(t, admin, wire, 16<<20)
		create(t, admin, wire+".dead", 1)
		s := open(t, config)
		send(t, s, "orders", 0, 1)
		for len(kill(t, s, "orders")) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		awaitLetters(t, s, 1)
		foreign(t, config.Brokers, wire, noise(3<<20))
		for len(kill(t, s, "orders")) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		hasFault(t, s, "MESSAGE_TOO_LARGE")
		limit := strconv.Itoa(20 << 20)
		resp, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: "max.message.bytes",
			Value: &limit}}, wire+".dead")
		for _, r := range resp {
			err = errors.Join(err, r.Err)
		}
		if err != nil {
			t.Fatal(err)
		}
		awaitLetters(t, s, 2)
	})
}

// TestLettersAreAsLargeAsTheirTopicTakes: a topic of dead letters that takes less than
// ours do gets them all the same, in smaller batches.
func TestLettersAreAsLargeAsTheirTopicTakes(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		wire := config.Prefix + "orders"
		create(t, admin, wire, 1)
		createFor(t, admin, wire+".dead", 100<<10)
		config.Produce.BatchBytes = 64 << 10
		s := open(t, config)
		const n = 40
		var msgs []pawl.Message
		for i := range n {
			msgs = append(msgs, pawl.Message{Topic: "orders", ID: fmt.Sprint("m", i), Body: noise(10 << 10)})
		}
		if err := s.Divert(t.Context(), msgs, errors.New("for the test")); err != nil {
			t.Fatal(err)
		}
		awaitLetters(t, s, n)
		if p := s.Figures().Produced; p.Refused > 0 {
			t.Errorf("%d count as refused", p.Refused)
		}
	})
}

// TestOnlyWhatIsTooLargeIsRefused: a topic takes less than our batches have. The brokers refuse them as a whole, and
// the client fails all that it has for the partition, also of other calls. Only the message that the topic does not
// take alone is refused for good; what can be compressed to less is taken, and each lane keeps its order.
func TestOnlyWhatIsTooLargeIsRefused(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		createFor(t, admin, config.Prefix+"orders", 64<<10)
		config.Produce.Linger, config.Produce.Compression = 100*time.Millisecond, "lz4"
		s := open(t, config)
		const calls, each = 3, 20
		var all sync.WaitGroup
		for call := range calls {
			all.Go(func() {
				var batch []pawl.Message
				for i := range each {
					m := pawl.Message{ID: fmt.Sprintf("c%dm%02d", call, i), Topic: "orders", Body: noise(10 << 10),
						Key: []byte{byte(call), byte(i % 2)}}
					switch {
					case call == 0 && i == 5:
						m.Body = noise(100 << 10)
					case i == 7:
						m.Body = bytes.Repeat([]byte("tame "), 30<<10)
					}
					batch = append(batch, m)
				}
				receipts, err := s.Append(t.Context(), store.Batch[pawl.Message]{ID: pawl.NewID(), Items: batch})
				if err != nil {
					t.Errorf("call %d: %v", call, err)
				}
				for i, r := range receipts {
					large := call == 0 && i == 5
					if large != errors.Is(r.Err, store.ErrTooLarge) || !large && r.Err != nil {
						t.Errorf("call %d, message %d: %v", call, i, r.Err)
					}
				}
			})
		}
		all.Wait()
		if p := s.Figures().Produced; p.Stored != calls*each-1 {
			t.Errorf("%d count as stored, of %d", p.Stored, calls*each-1)
		}
		last := map[string]string{} // by key
		for n := 0; n < calls*each-1 && !t.Failed(); {
			ds, err := s.Claim(t.Context(), []store.Want{{Topic: "orders", Limit: 100}},
				store.Lease{For: time.Minute, Owner: "test"})
			if err != nil {
				t.Fatal(err)
			}
			var acks []store.Settlement
			for _, d := range ds {
				if n++; d.ID <= last[string(d.Key)] {
					t.Errorf("%s comes after %s", d.ID, last[string(d.Key)])
				}
				last[string(d.Key)] = d.ID
				acks = append(acks, store.Settlement{ID: d.ID, Token: d.Token, Verdict: store.Ack})
			}
			refused, err := s.Settle(t.Context(), store.Batch[store.Settlement]{ID: pawl.NewID(), Items: acks})
			if err != nil || len(refused) > 0 {
				t.Fatal(refused, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// TestLettersFitIntoASmallTopic: a topic of dead letters that takes less than our batches gets them all.
func TestLettersFitIntoASmallTopic(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		wire := config.Prefix + "orders"
		create(t, admin, wire, 1)
		createFor(t, admin, wire+".dead", 64<<10)
		s := open(t, config)
		var batch []pawl.Message
		const n = 20
		for i := range n {
			batch = append(batch, pawl.Message{Topic: "orders", Key: fmt.Append(nil, i), Body: noise(10 << 10)})
		}
		if _, err := s.Append(t.Context(), store.Batch[pawl.Message]{ID: pawl.NewID(), Items: batch}); err != nil {
			t.Fatal(err)
		}
		for dead := 0; dead < n; dead += len(kill(t, s, "orders")) {
			time.Sleep(10 * time.Millisecond)
		}
		awaitLetters(t, s, n)
	})
}
