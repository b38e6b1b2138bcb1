package kafka_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl/store/kafka"
)

// produceLines writes lines to a topic, in batches, and returns how many are not there and why.
func produceLines(t *testing.T, c kafka.Config, topic string, batches, each int) (unsent int, why error) {
	t.Helper()
	l, err := kafka.NewLines(c, topic)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	type outcome struct {
		unsent int
		err    error
	}
	done := make(chan outcome, batches)
	for i := range batches {
		var lines [][]byte
		for k := range each {
			lines = append(lines, fmt.Appendf(nil, "line %d\n", i*each+k))
		}
		l.Produce(each, slices.Values(lines), func(unsent int, err error) { done <- outcome{unsent, err} })
	}
	for range batches {
		select {
		case o := <-done:
			unsent += o.unsent
			if o.err != nil {
				why = o.err
			}
		case <-time.After(time.Minute):
			t.Fatal("no outcome in a minute")
		}
	}
	return unsent, why
}

func TestLinesAreRecords(t *testing.T) {
	brokers := map[string]func(t *testing.T) []string{
		"fake": func(t *testing.T) []string { return fakeCluster(t, 1).ListenAddrs() },
		"real": func(t *testing.T) []string { return []string{realBroker(t)} },
	}
	for name, at := range brokers {
		t.Run(name, func(t *testing.T) {
			c := kafka.Config{Brokers: at(t), Prefix: fresh("t") + ".",
				Create: kafka.Creation{Partitions: 1, Replicas: 1}}
			const batches, each = 20, 50
			if unsent, why := produceLines(t, c, "log", batches, each); unsent != 0 || why != nil {
				t.Fatal(unsent, why)
			}
			client, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...), kgo.ConsumeTopics(c.Prefix+"log"))
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for next := 0; next < batches*each; {
				for r := range client.PollFetches(ctx).RecordsAll() {
					if want := fmt.Sprintf("line %d", next); string(r.Value) != want {
						t.Fatalf("%q, want %q", r.Value, want)
					}
					next++
				}
				if ctx.Err() != nil {
					t.Fatalf("%d of %d in a minute", next, batches*each)
				}
			}
		})
	}
}

// TestLinesNameWhatIsWrongWithTLS, as a store does.
func TestLinesNameWhatIsWrongWithTLS(t *testing.T) {
	t.Parallel()
	cert, key := selfSigned(t)
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	at := cluster(t, kfake.TLS(&tls.Config{Certificates: []tls.Certificate{pair}}))
	soon := kafka.Producing{Timeout: time.Second}
	for want, c := range map[string]kafka.Config{
		"name its file with ca=FILE": {Brokers: at, TLS: true, Produce: soon},
		"say tls=true":               {Brokers: at, Produce: soon},
	} {
		if _, why := produceLines(t, c, "log", 1, 1); why == nil || !strings.Contains(why.Error(), want) {
			t.Errorf("%v, want %s", why, want)
		}
	}
}

func TestLinesThatCannotBeSentAreCounted(t *testing.T) {
	c := kafka.Config{Brokers: fakeCluster(t, 1).ListenAddrs(), Create: kafka.Creation{Off: true},
		Produce: kafka.Producing{Timeout: time.Second}}
	if unsent, why := produceLines(t, c, "none", 2, 5); unsent != 10 || why == nil {
		t.Error(unsent, why)
	}
	if _, err := kafka.NewLines(kafka.Config{Produce: kafka.Producing{Compression: "zip"}}, "log"); err == nil ||
		!strings.Contains(err.Error(), "no broker") || !strings.Contains(err.Error(), "zip") {
		t.Errorf("all that is wrong is said at once: %v", err)
	}
}
