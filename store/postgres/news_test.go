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

// What a process appends just before it closes its store is told to others, over
// the connection that it has.
func TestALoneAppendIsToldBeforeTheStoreCloses(t *testing.T) {
	z := newRig(t)
	_, err := z.s.Declare(z.ctx, store.Declaration{Name: "t"})
	z.check(err)
	conn, err := pgx.Connect(z.ctx, z.at)
	z.check(err)
	defer conn.Close(context.WithoutCancel(z.ctx))
	_, err = conn.Exec(z.ctx, `LISTEN "`+z.s.channel()+`"`)
	z.check(err)
	const rounds = 20
	made := int64(0)
	for range rounds {
		one := open(t, z.cfg)
		_, err := one.Append(z.ctx, store.NewBatch(pawl.Message{Topic: "t"}))
		z.check(err)
		z.check(one.Close())
		ctx, cancel := context.WithTimeout(z.ctx, time.Minute)
		for {
			n, err := conn.WaitForNotification(ctx)
			z.check(err)
			if strings.HasPrefix(n.Payload, one.news.origin) {
				break
			}
		}
		cancel()
		made += one.back.Stat().NewConnsCount()
	}
	if made > rounds/2 { // one that had something else to do at that moment may have needed it
		t.Errorf("%d of %d made a connection for their notification", made, rounds)
	}
}
