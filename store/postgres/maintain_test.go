package postgres

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// A vacuum that takes long keeps nobody waiting, however few connections there are.
func TestVacuumKeepsNobodyWaiting(t *testing.T) {
	at := server(t)
	sep := "?"
	if strings.Contains(at, "?") {
		sep = "&"
	}
	slow := at + sep + "vacuum_cost_delay=100&vacuum_cost_limit=1"
	z := &rig{T: t, at: at, cfg: Config{URL: slow, Schema: freshSchema(t, at), AutoMigrate: true, MaxConns: minConns, NoChores: true}, ctx: t.Context()}
	z.s = open(t, z.cfg)
	for range 10 {
		var msgs []pawl.Message
		for range 1000 {
			msgs = append(msgs, pawl.Message{Topic: "t"})
		}
		z.appendAll(msgs...)
	}
	ctx, stop := context.WithCancel(z.ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- z.s.vacuum(ctx) }()
	look, err := pgx.Connect(z.ctx, at)
	z.check(err)
	defer func() { _ = look.Close(context.Background()) }()
	for n := 0; n == 0; {
		z.check(look.QueryRow(z.ctx, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'VACUUM%' || $1 || '%'",
			z.cfg.Schema).Scan(&n))
		select {
		case err := <-ended:
			t.Fatalf("the vacuum is over: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	soon, cancel := context.WithTimeout(z.ctx, 5*time.Second)
	defer cancel()
	if ds, err := z.s.Claim(soon, []store.Want{{Topic: "t", Limit: 1}}, store.Lease{For: time.Minute}); err != nil || len(ds) != 1 {
		t.Errorf("claimed %v while a vacuum is under way: %v", idsOf(ds), err)
	}
	if _, err := z.s.Append(soon, store.NewBatch(pawl.Message{Topic: "t"})); err != nil {
		t.Errorf("append while a vacuum is under way: %v", err)
	}
	stop()
	<-ended
}
