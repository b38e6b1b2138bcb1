package kafka_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
)

// TestOrigin: a handler sees its record as it is in the log; a dead letter says where its
// message was; and a replay goes back there, to partition 0 too, wherever its key would be.
func TestOrigin(t *testing.T) {
	onBrokers(t, func(t *testing.T, config kafka.Config, admin *kadm.Client) {
		wire := config.Prefix + "orders"
		create(t, admin, wire, 8)
		client, err := kgo.NewClient(kgo.SeedBrokers(config.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		at := time.UnixMilli(time.Now().Add(-time.Hour).UnixMilli())
		headers := []kgo.RecordHeader{{Key: "h", Value: []byte{0xff}}, {Key: "h"}, {Key: "h", Value: []byte("last")}}
		for p := range int32(2) {
			r := &kgo.Record{Topic: wire, Partition: p, Key: []byte("same key"), Headers: headers, Timestamp: at}
			if p == 1 {
				r.Value = []byte{}
			}
			if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		s := open(t, config)
		for round := range int64(2) {
			seen := map[int32]bool{}
			for ; len(seen) < 2; time.Sleep(5 * time.Millisecond) {
				for _, d := range kill(t, s, "orders") {
					seen[d.Log.Partition()] = true
					if d.Log.Offset() != round || d.Log.Partition() > 1 {
						t.Fatalf("round %d: %d/%d", round, d.Log.Partition(), d.Log.Offset())
					}
					if null := d.Log.Partition() == 0; d.Log.NullBody() != null || (d.Body == nil) != null {
						t.Errorf("%d: body %v, null %v", d.Log.Partition(), d.Body, d.Log.NullBody())
					}
					got := d.Log.RawHeaders()
					if len(got) < 3 || !bytes.Equal(got[0].Value, headers[0].Value) || got[1].Value != nil ||
						string(got[2].Value) != "last" || d.Headers["h"] != "last" {
						t.Errorf("headers: %v, %v", got, d.Headers)
					}
					if round == 0 && !d.Log.Timestamp().Equal(at) {
						t.Errorf("%v, want %v", d.Log.Timestamp(), at)
					}
				}
			}
			ids := letters(t, s)
			for _, id := range ids {
				r, err := s.Get(t.Context(), id)
				if o := r.Origin; err != nil || o == nil || o.Offset != round || o.Topic != "orders" ||
					o.Group != config.Group || o.Client != "pawl" {
					t.Errorf("%s: %v, %+v", id, err, o)
				}
			}
			if refused, err := s.Replay(t.Context(), "", ids...); err != nil || len(refused) > 0 {
				t.Fatal(refused, err)
			}
		}
		// A letter that was read in no log has no origin.
		dead := store.Record{State: store.IsDead, Kind: "K", Reason: "r", DeadAt: at, EnqueuedAt: at}
		dead.Topic, dead.ID = "orders", "imported"
		if refused, err := s.Import(t.Context(), dead); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
		if r, err := s.Get(t.Context(), "imported"); err != nil || r.Origin != nil {
			t.Errorf("%v, %+v", err, r.Origin)
		}
	})
}
