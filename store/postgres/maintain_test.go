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
	z := &rig{T: t, at: at, cfg: Config{URL: slow, Schema: freshSchema(t, at), AutoMigrate: true, MaxConns: minConns,
		NoChores: true}, ctx: t.Context()}
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
		z.check(look.QueryRow(z.ctx,
			"SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'VACUUM%' || $1 || '%'",
			z.cfg.Schema).Scan(&n))
		select {
		case err := <-ended:
			t.Fatalf("the vacuum is over: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	soon, cancel := context.WithTimeout(z.ctx, 5*time.Second)
	defer cancel()
	if ds, err := z.s.Claim(soon, []store.Want{{Topic: "t", Limit: 1}}, store.Lease{For: time.Minute}); err != nil ||
		len(ds) != 1 {
		t.Errorf("claimed %v while a vacuum is under way: %v", idsOf(ds), err)
	}
	if _, err := z.s.Append(soon, store.NewBatch(pawl.Message{Topic: "t"})); err != nil {
		t.Errorf("append while a vacuum is under way: %v", err)
	}
	stop()
	<-ended
}

// A unique key that another message takes while a purge of what is over waits for
// it stays taken.
func TestPurgeLeavesAKeyTakenMeanwhile(t *testing.T) {
	z := newRig(t)
	z.appendAll(pawl.Message{ID: "a", Topic: "t", Unique: pawl.Unique{Key: "k", For: 20 * time.Millisecond}})
	time.Sleep(50 * time.Millisecond)
	_, tx := z.tx()
	rs, err := z.s.AppendTx(z.ctx, tx, store.NewBatch(pawl.Message{ID: "b", Topic: "t", Unique: pawl.Unique{Key: "k"}}))
	if z.check(err); rs[0].DuplicateOf != "" {
		t.Fatalf("receipt %+v", rs[0])
	}
	purged := make(chan struct{})
	go func() {
		defer close(purged)
		z.s.purgeAll(z.ctx, purgeUniques, 5000, z.s.skewValue())
	}()
	waitsForLock(t, z.at, z.cfg.Schema)
	z.check(tx.Commit(z.ctx))
	<-purged
	if rs := z.appendAll(pawl.Message{ID: "c", Topic: "t", Unique: pawl.Unique{Key: "k"}}); rs[0].DuplicateOf != "b" {
		t.Errorf("receipt %+v; want a duplicate of b", rs[0])
	}
}

// A notification that has no room for all topics leaves the rest to the next one.
func TestNotificationsTellOfEveryTopic(t *testing.T) {
	var n news
	n.init()
	const topics = 5000
	for id := range int32(topics) {
		n.pending[id] = true
	}
	poke(n.kick)
	told := map[string]bool{}
	for range topics {
		select {
		case <-n.kick:
		default:
			if len(told) != topics {
				t.Errorf("told of %d topics of %d", len(told), topics)
			}
			return
		}
		payload := n.take()
		if len(payload) >= 8000 {
			t.Fatalf("a payload of %d bytes", len(payload))
		}
		for _, id := range strings.Fields(payload)[1:] {
			told[id] = true
		}
	}
}
