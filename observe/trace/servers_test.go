package trace

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
	"github.com/pawl-dev/pawl/store/postgres"
)

func address(t *testing.T, name, server string) string {
	t.Helper()
	at := os.Getenv(name)
	if at == "" && slices.Contains(strings.Split(os.Getenv("PAWL_TEST_REQUIRE"), ","), server) {
		t.Fatalf("%s is not set, but PAWL_TEST_REQUIRE asks for %s", name, server)
	}
	if at == "" {
		t.Skipf("%s is not set: dev/services run -- go test ./observe/trace", name)
	}
	return at
}

func TestFailuresAreKeptOverPostgres(t *testing.T) {
	at := address(t, "PAWL_TEST_POSTGRES", "postgres")
	schema := "trace_" + strings.ReplaceAll(pawl.NewID(), "-", "")
	at += "&search_path=" + schema // pawl_send is made there, not where others have theirs
	s, err := postgres.Open(t.Context(), postgres.Config{URL: at, Schema: schema, AutoMigrate: true, NoChores: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if c, err := pgx.Connect(ctx, at); err == nil {
			_, _ = c.Exec(ctx, "DROP SCHEMA "+schema+" CASCADE")
			_ = c.Close(ctx)
		}
	})
	failingLives(t, s, GRPC, 200)

	// The headers of a message that SQL sends are those of any other.
	c, err := pgx.Connect(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.WithoutCancel(t.Context())) }()
	var id string
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if err := c.QueryRow(t.Context(), `SELECT pawl_send('sql', '{}', options =>
		jsonb_build_object('headers', jsonb_build_object('traceparent', $1::text)))`, parent).Scan(&id); err != nil {
		t.Fatal(err)
	}
	foreign(t, s, "sql", id)
}

func TestFailuresAreKeptOverKafka(t *testing.T) {
	brokers := []string{address(t, "PAWL_TEST_KAFKA", "kafka")}
	prefix := "trace-" + pawl.NewID()[24:] + "-"
	c := kafka.Config{Brokers: brokers, Prefix: prefix, Create: kafka.Creation{Partitions: 1, Replicas: 1}}
	c.Consume.FetchMin, c.Consume.FetchWait = 1, 50*time.Millisecond
	s, err := kafka.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		admin := kadm.NewClient(client)
		if topics, err := admin.ListTopics(ctx); err == nil {
			for _, name := range topics.Names() {
				if strings.HasPrefix(name, prefix) {
					_, _ = admin.DeleteTopics(ctx, name)
				}
			}
		}
		client.Close()
	})
	failingLives(t, s, HTTP, 10_000)

	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), 1, 1, nil, prefix+"theirs"); err != nil {
		t.Fatal(err)
	}
	r := &kgo.Record{Topic: prefix + "theirs", Value: []byte("x"),
		Headers: []kgo.RecordHeader{{Key: "traceparent", Value: []byte(parent)}}}
	if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	foreign(t, s, "theirs", "")
}

// foreign checks that a message that another program sent is carried out in the trace of its headers.
func foreign(t *testing.T, s store.Store, topic, id string) {
	t.Helper()
	c, at, _ := newCollector(t)
	tr := newTracer(t, Config{OTLP: at})
	seen := make(chan string, 10)
	carryOut(t, tr, tr.Store(s), func() bool { return len(seen) > 0 }, topicOf(topic, seen))
	flush(t, tr)
	got := <-seen
	if id != "" && got != id {
		t.Fatalf("message %s came, want %s", got, id)
	}
	process := c.of(got)["process "+topic]
	if len(process) != 1 || string(process[0].GetParentSpanId()) != "\xb7\xad\x6b\x71\x69\x20\x33\x31" {
		t.Errorf("the attempt is %v", process)
	}
}
