package postgres

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// TestTransactionOfAnotherDatabase: another database has the same tables, and numbers its leases
// alike. What is appended there is not in the store, and an ack there ends the lease of another
// message.
func TestTransactionOfAnotherDatabase(t *testing.T) {
	ctx, at := t.Context(), server(t)
	admin, err := pgx.Connect(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(ctx)
	schema := freshSchema(t, at)
	if _, err := admin.Exec(ctx, "CREATE DATABASE "+schema); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := admin.Exec(ctx, "DROP DATABASE "+schema+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	}()
	other, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	other.Path = schema
	var stores []*Store
	for _, at := range []string{at, other.String()} {
		s := open(t, Config{URL: at, Schema: schema, AutoMigrate: true, MaxConns: 4})
		if _, err := s.Append(ctx, store.NewBatch(pawl.Message{Topic: "ship"})); err != nil {
			t.Fatal(err)
		}
		stores = append(stores, s)
	}
	defer stores[1].Close()
	for here, s := range stores {
		got, err := s.Claim(ctx, []store.Want{{Topic: "ship", Limit: 1}}, store.Lease{For: time.Minute})
		if err != nil || len(got) != 1 {
			t.Fatalf("claimed %v, error %v", got, err)
		}
		for there, url := range []string{at, other.String()} {
			c, err := pgx.Connect(ctx, url)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close(ctx)
			for range 2 { // the second time on a connection that is known
				tx, err := c.Begin(ctx)
				if err != nil {
					t.Fatal(err)
				}
				_, sent := s.AppendTx(ctx, tx, store.NewBatch(pawl.Message{Topic: "ship"}))
				acked := s.AckTx(ctx, tx, got[0].Token)
				for _, err := range []error{sent, acked} {
					if here == there && err != nil || here != there && !errors.Is(err, store.ErrInvalid) {
						t.Errorf("store %d, transaction of database %d: error %v", here, there, err)
					}
				}
				if _, err := tx.Exec(ctx, "SELECT 1"); err != nil {
					t.Errorf("the transaction afterwards: %v", err)
				}
				if err := tx.Rollback(ctx); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
