package statesync

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/kafka"
	"github.com/pawl-dev/pawl/store/postgres"
)

var servers = map[string]func(t *testing.T) store.Store{"postgres": openPostgres, "kafka": openKafka}

func openPostgres(t *testing.T) store.Store {
	at := os.Getenv("PAWL_TEST_POSTGRES")
	if at == "" {
		if slices.Contains(strings.Split(os.Getenv("PAWL_TEST_REQUIRE"), ","), "postgres") {
			t.Fatal("PAWL_TEST_POSTGRES is not set, but PAWL_TEST_REQUIRE asks for postgres")
		}
		t.Skip("PAWL_TEST_POSTGRES is not set: dev/services run -- go test ./statesync")
	}
	schema := "t_" + strings.ReplaceAll(pawl.NewID(), "-", "")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		c, err := pgx.Connect(ctx, at)
		if err == nil {
			_, err = c.Exec(ctx, "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
			_ = c.Close(ctx)
		}
		if err != nil {
			t.Logf("drop schema: %v", err)
		}
	})
	s, err := postgres.Open(t.Context(), postgres.Config{URL: at, Schema: schema, AutoMigrate: true, NoChores: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func openKafka(t *testing.T) store.Store {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	c := kafka.Config{Brokers: cluster.ListenAddrs(), Create: kafka.Creation{Partitions: 1, Replicas: 1}}
	c.Produce.Linger = -1
	c.Consume.FetchMin, c.Consume.FetchWait = 1, 50*time.Millisecond
	s, err := kafka.Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}
