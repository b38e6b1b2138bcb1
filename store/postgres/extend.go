package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store/backend"
)

const (
	lockExtended = `SELECT ` + claimColumns + `
		FROM (SELECT clock_timestamp() + $2::interval AS at) n, unnest($1::bigint[]) f(fence)
		CROSS JOIN LATERAL (SELECT * FROM @claim c WHERE c.fence = f.fence FOR NO KEY UPDATE) c`
	// readHeld: those tokens whose message is there and, in the lane of a key, in
	// the run.
	readHeld = `SELECT s.n FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY s(lane, seq, fence, n)
		CROSS JOIN LATERAL (SELECT FROM @msg m WHERE m.lane = s.lane AND m.seq = s.seq OFFSET 0) m
		LEFT JOIN LATERAL (SELECT true AS held FROM @lease l WHERE l.lane = s.lane AND s.lane < 0 AND l.token = s.fence
			AND s.seq BETWEEN l.first AND l.last AND (l.run IS NULL OR s.seq = ANY (l.run)) OFFSET 0) l ON true
		WHERE s.lane > 0 OR l.held`
	prolong = `UPDATE @claim SET longer = $2::bigint[], longer_until = $3::timestamptz[] WHERE fence = $1::bigint`
)

// Extend implements [store.Store]. It has a connection of its own: a heartbeat
// never waits behind appends or claims.
func (s *settler) Extend(ctx context.Context, by time.Duration, tokens ...pawl.Token) ([]pawl.Token, error) {
	if err := backend.AdmitExtend(by, tokens); err != nil {
		return nil, err
	}
	var lost []pawl.Token
	err := s.guard(ctx, "extend", func(ctx context.Context) error {
		if len(tokens) == 0 {
			return nil
		}
		return s.within(ctx, s.beat, nil, func(t *tx) (err error) {
			lost, err = s.extend(ctx, t, by, tokens)
			return err
		})
	})
	return lost, err
}

// claimRow says when the leases of a claim end, in microseconds.
type claimRow struct {
	fence, at, ends, hard int64           // at: now
	gone                  map[int64]bool  // lanes that were given back
	until                 map[int64]int64 // of lanes that were extended
}

// claimColumns are those of a claim c at the time n.at.
const claimColumns = `c.fence, n.at, c.ends, c.hard, c.gone, c.longer, c.longer_until`

func readClaimRow(r row) claimRow {
	c := claimRow{fence: r.int8(0), at: r.micros(1), ends: r.micros(2), hard: r.micros(3), gone: map[int64]bool{},
		until: map[int64]int64{}}
	for _, lane := range r.int8s(4) {
		c.gone[lane] = true
	}
	ends := r.timesMicros(6)
	for i, lane := range r.int8s(5) {
		c.until[lane] = max(c.until[lane], ends[i])
	}
	return c
}

func (s *settler) extend(ctx context.Context, t *tx, by time.Duration, tokens []pawl.Token) (lost []pawl.Token,
	err error) {
	unique := make([]int64, len(tokens))
	for i, tok := range tokens {
		unique[i] = tok.Fence
	}
	slices.Sort(unique)
	unique = slices.Compact(unique)
	lanes := column(tokens, func(t *pawl.Token) int64 { return t.Lane })
	seqs := column(tokens, func(t *pawl.Token) int64 { return t.Seq })
	fences := column(tokens, func(t *pawl.Token) int64 { return t.Fence })
	claims, there := map[int64]claimRow{}, make([]bool, len(tokens))
	err = t.run(ctx,
		read(lockExtended, func(r row) error {
			c := readClaimRow(r)
			claims[c.fence] = c
			return nil
		}, int8Array(unique), s.skewValue()),
		read(readHeld, func(r row) error {
			there[r.int8(0)-1] = true
			return nil
		}, lanes, seqs, fences))
	if err != nil {
		return nil, err
	}
	changed := map[int64]bool{}
	for i, tok := range tokens {
		c, live := claims[tok.Fence]
		if !live || !there[i] || c.gone[tok.Lane] || c.hard <= c.at {
			lost = append(lost, tok)
			continue
		}
		until := min(c.at+micros(by), c.hard)
		if until > max(c.ends, c.until[tok.Lane]) {
			c.until[tok.Lane], changed[tok.Fence] = until, true
		}
	}
	var g group
	for _, fence := range unique {
		if !changed[fence] {
			continue
		}
		var longer, ends []int64
		for lane, until := range claims[fence].until {
			longer, ends = append(longer, lane), append(ends, until)
		}
		g = append(g, do(prolong, int8Value(fence), int8Array(longer), timeArray(ends)))
	}
	if len(g) > 0 {
		err = t.run(ctx, g...)
	}
	return lost, err
}
