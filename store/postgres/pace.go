package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/backend"
)

// reserve moves the times of keys ahead: $1 keys, $2 positions from 1 on, $3 skew, and
// by position, in microseconds, $4 floors, $5 what is taken, $6 rooms; see
// [store.Pace.Floor]. The times are marks in a scope that no caller can name; they expire
// like others. A position comes back as it is, or negative if nothing was taken, with how
// far ahead the key is, and the time.
const reserve = `WITH n AS MATERIALIZED (SELECT clock_timestamp() + $3::interval AS now)
	INSERT INTO @mark AS m (scope, key, version, until, value)
		SELECT ''::bytea, x.key, x.i, n.now + (($4::bigint[])[x.i] + ($5::bigint[])[x.i]) * interval '1 microsecond', ''::bytea
		FROM unnest($1::bytea[], $2::bigint[]) x(key, i), n
		ON CONFLICT (scope, key) DO UPDATE SET (until, version) = (
			SELECT CASE WHEN y.next <= y.last THEN y.next ELSE m.until END, CASE WHEN y.next <= y.last THEN y.i ELSE -y.i END
			FROM (SELECT excluded.version AS i, n.now + ($6::bigint[])[excluded.version] * interval '1 microsecond' AS last,
				greatest(m.until, n.now + ($4::bigint[])[excluded.version] * interval '1 microsecond')
					+ ($5::bigint[])[excluded.version] * interval '1 microsecond' AS next FROM n) y)
		RETURNING version, (extract(epoch FROM until - (SELECT now FROM n)) * 1000000)::bigint, (SELECT now FROM n)`

// Reserve implements [store.Shared].
func (s *side) Reserve(ctx context.Context, paces ...store.Pace) ([]store.Paced, error) {
	paces, err := backend.AdmitPaces(paces)
	if err != nil || len(paces) == 0 {
		return nil, err
	}
	order := make([]int64, len(paces)) // in which everybody locks
	for i := range order {
		order[i] = int64(i) + 1
	}
	slices.SortFunc(order, func(a, b int64) int { return cmp.Compare(paces[a-1].Key, paces[b-1].Key) })
	keys := make([][]byte, len(paces))
	for i, at := range order {
		keys[i] = []byte(paces[at-1].Key)
	}
	var floors, takes, rooms []int64
	for i := range paces {
		p := &paces[i]
		floors, takes, rooms = append(floors, micros(p.Floor())), append(takes, micros(p.Takes())),
			append(rooms, micros(p.Room()))
	}
	answers := make([]store.Paced, len(paces))
	err = s.guard(ctx, "reserve", func(ctx context.Context) error {
		var server int64
		ask := func() error {
			return s.call(ctx, s.front, read(reserve, func(r row) error {
				at, ahead := r.int8(0), time.Duration(r.int8(1))*time.Microsecond
				i := max(at, -at) - 1
				answers[i], server = paces[i].Answer(max(ahead, 0), at > 0), r.micros(2)
				return nil
			}, bytesArray(keys), int8Array(order), s.skewValue(), int8Array(floors), int8Array(takes), int8Array(rooms)))
		}
		err := ask()
		if err == nil && s.upkeep.steppedBack(server) { // callers remember how long they are to wait
			if err = s.upkeep.watch(ctx); err == nil {
				err = ask()
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}
