package postgres

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

//go:embed send.sql
var sendSQL string

// newID is [pawl.NewID] in SQL: of message n, stored at the time since.
const newID = `int8send((date_part('epoch', since) * 1000)::bigint * 65536 + 28672 + n % 16 * 256 + n / 16 % 256)
	|| substring(uuid_send(gen_random_uuid()) FROM 9)`

// sinceMicros is the time since in microseconds since 1970. A double has 52 bits, enough for 140 years of them.
const sinceMicros = "(date_part('epoch', since) * 1000000)::bigint"

// sendScript makes pawl_send, which appends by SQL.
func (s *migrator) sendScript() string {
	return s.named(strings.NewReplacer(
		"{id}", newID, "{schema}", s.cfg.Schema, "{order}", fmt.Sprint(s.orderNumber()),
		"{deadline}", fmt.Sprint(int64(store.DefaultDeadline)), "{ageing}", fmt.Sprint(int64(store.DefaultAgeing)),
		"{most_delay}", fmt.Sprint(int64(pawl.MaxDelay.Seconds())),
		"{waiting}", strings.ReplaceAll(countWaiting, "$1::int", "number"),
		"{rank}", sqlstore.Rank(sinceMicros+" + wait", "priority", "t.ageing"),
		"{plain_rank}", sqlstore.Rank(sinceMicros, "0", "ageing"),
	).Replace(sendSQL))
}

// sendGrants are the grants for $2 on what came with the schema $1.
const sendGrants = `SELECT format('GRANT USAGE ON SCHEMA %I TO %s;', $1::text, quote_ident($2)) AS line, 0 AS n FROM pg_proc p
		WHERE p.proname = 'pawl_send' AND p.pronamespace = $1::text::regnamespace
	UNION SELECT format('GRANT EXECUTE ON FUNCTION %s.pawl_send(%s) TO %s;', p.pronamespace::regnamespace, oidvectortypes(p.proargtypes),
		quote_ident($2)), 1
	FROM pg_depend d JOIN pg_proc p ON p.oid = d.objid AND d.classid = 'pg_proc'::regclass
	WHERE d.refclassid = 'pg_type'::regclass AND d.refobjid = ($1 || '.send_options')::regtype AND p.proname = 'pawl_send'
	ORDER BY n, line`

// SendGrants returns the statements that let a role call pawl_send, and nothing else.
func (s *migrator) SendGrants(ctx context.Context, role string) (grants []string, err error) {
	err = s.guard(ctx, "grants", func(ctx context.Context) error {
		rows, err := s.front.Query(ctx, sendGrants, s.cfg.Schema, role)
		if err != nil {
			return err
		}
		grants, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (line string, err error) {
			var n int
			err = r.Scan(&line, &n)
			return line, err
		})
		if err == nil && len(grants) == 0 {
			return errors.New("pawl_send is not there")
		}
		return err
	})
	return grants, err
}
