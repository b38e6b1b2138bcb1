package kafka_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What others read in a topic of dead letters: the record as it was, where it was
// from, why and when it died, in whose hands, and of which version these were.
func TestLetterTellsItsOrigin(t *testing.T) {
	t.Parallel()
	cluster := fakeCluster(t, 1)
	c := brisk(cluster.ListenAddrs())
	c.ClientID, c.Group, c.HandlerVersion = "bridge", "mailers", "v1.2.3"
	s := open(t, c)
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("orders.dead"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	send(t, s, "orders", 0, 1)
	receive(t, s, "orders", 1)
	sent := &kgo.Record{Topic: "orders", Key: []byte("k"), Value: []byte("v"),
		Headers: []kgo.RecordHeader{{Key: "theirs", Value: []byte{0xff}}}}
	if err := client.ProduceSync(t.Context(), sent).FirstErr(); err != nil {
		t.Fatal(err)
	}
	die(t, s, "orders")
	r := firstRecord(t, client)
	headers := map[string][]byte{}
	for _, h := range r.Headers {
		headers[h.Key] = h.Value
	}
	if string(r.Key) != "k" || string(r.Value) != "v" || string(headers["theirs"]) != "\xff" {
		t.Errorf("the record is %q: %q, %v", r.Key, r.Value, headers)
	}
	if from := headers["kafka_dlt-original-topic"]; string(from) != "orders" {
		t.Errorf("from topic %q", from)
	}
	if at := headers["kafka_dlt-original-offset"]; len(at) != 8 || binary.BigEndian.Uint64(at) != 1 {
		t.Errorf("from offset %v", at)
	}
	var l struct {
		V, Partition, Offset, Attempts                            int
		Topic, Kind, Reason, Source, Client, Group, Handler, Body string
		First                                                     time.Time `json:"first_failed_at"`
		Dead                                                      time.Time `json:"dead_at"`
	}
	if err := json.Unmarshal(headers["pawl-dead"], &l); err != nil {
		t.Fatal(err)
	}
	if l.V != 1 || l.Topic != "orders" || l.Offset != 1 || l.Attempts != 1 || l.First.IsZero() ||
		l.Dead.Before(l.First) {
		t.Errorf("%+v", l)
	}
	if l.Source != "consumer" || l.Client != "bridge" || l.Group != "mailers" || l.Handler != "v1.2.3" ||
		l.Reason == "" {
		t.Errorf("%+v", l)
	}
}

func firstRecord(t *testing.T, client *kgo.Client) *kgo.Record {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		for _, r := range client.PollFetches(ctx).Records() {
			return r
		}
	}
	t.Fatal("nothing came")
	return nil
}
