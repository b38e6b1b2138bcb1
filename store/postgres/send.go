package postgres

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/internal/sqlstore"
)

//go:embed send.sql
var sendSQL string

// newID is [pawl.NewID] in SQL: of message n, stored at the time since.
const newID = `set_byte(set_byte(decode(lpad(to_hex((extract(epoch FROM since) * 1000)::bigint), 12, '0'), 'hex')
	|| substring(uuid_send(gen_random_uuid()) FROM 7), 6, 112 + (n % 16)::int), 7, ((n >> 4) % 256)::int)`

// sendScript makes pawl_send, which appends by SQL.
func (s *Store) sendScript() string {
	return s.named(strings.NewReplacer(
		"{id}", newID, "{schema}", s.cfg.Schema, "{order}", fmt.Sprint(s.orderNumber()),
		"{deadline}", fmt.Sprint(int64(store.DefaultDeadline)), "{ageing}", fmt.Sprint(int64(store.DefaultAgeing)),
		"{most_delay}", fmt.Sprint(int64(pawl.MaxDelay.Seconds())),
		"{waiting}", strings.ReplaceAll(countWaiting, "$1::int", "number"),
		"{rank}", sqlstore.Rank("(extract(epoch FROM since) * 1000000)::bigint + wait", "priority", "t.ageing"),
	).Replace(sendSQL))
}
