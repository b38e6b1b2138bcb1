package postgres

import (
	"context"
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// ackSolo acks messages that are lanes of their own, in one statement: $1
// lanes, $2 position of their fence, $3 index in the batch, $4 fences (sorted),
// $5 batch id, $6 skew. The row of the claim is the lease: it is locked against
// the sweep and against settlements that give lanes back, but not against other
// acks. OR false keeps the planner from making a join of a look-up.
const ackSolo = `
WITH now AS MATERIALIZED (SELECT clock_timestamp() + $6::interval AS at),
g AS MATERIALIZED (SELECT $5::bytea <> '' AND EXISTS (SELECT FROM @batch WHERE id = $5::bytea AND part = 1 OFFSET 0) AS before),
c AS MATERIALIZED (
	SELECT f.n, c.gone, c.fence IS NOT NULL AS live FROM unnest($4::bigint[]) WITH ORDINALITY f(fence, n)
	LEFT JOIN LATERAL (SELECT c.fence, c.gone FROM @claim c WHERE c.fence = f.fence FOR KEY SHARE) c ON true),
v AS MATERIALIZED (SELECT array_agg(live ORDER BY n) AS live FROM c),
d AS (DELETE FROM @msg WHERE lane = ANY ($1::bigint[]) AND seq = lane AND (lane IN (
		SELECT s.lane FROM v, unnest($1::bigint[], $2::int[]) s(lane, f)
		WHERE v.live[s.f] AND NOT (SELECT before FROM g) AND (s.f, s.lane) NOT IN (SELECT c.n::int, g FROM c, unnest(c.gone) g)) OR false)
	RETURNING *),
lost AS MATERIALIZED (
	SELECT CASE WHEN (SELECT count(*) FROM d) < cardinality($1::bigint[]) THEN
		(SELECT array_agg(s.i) FROM unnest($1::bigint[], $3::int[]) s(lane, i) WHERE s.lane NOT IN (SELECT lane FROM d)) END AS items),
` + ackCommon + `
o AS (INSERT INTO @batch (id, part, at, items)
	SELECT $5::bytea, 1, now.at, lost.items FROM now, lost, g WHERE $5::bytea <> '' AND NOT before)
SELECT items, before FROM lost, g`

// ackRuns acks messages of runs whose lanes are locked: $1 lanes, $2 seqs, $3
// tokens, $4 index in the batch, $5 batch id, $6 skew.
const ackRuns = `
WITH now AS MATERIALIZED (SELECT clock_timestamp() + $6::interval AS at),
g AS MATERIALIZED (SELECT $5::bytea <> '' AND EXISTS (SELECT FROM @batch WHERE id = $5::bytea AND part = 2 OFFSET 0) AS before),
d AS (DELETE FROM @msg WHERE ctid = ANY (ARRAY(
		SELECT m.ctid FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) s(lane, seq, token)
		CROSS JOIN LATERAL (SELECT m.ctid FROM @lease l CROSS JOIN @msg m
			WHERE l.lane = s.lane AND l.token = s.token AND s.seq BETWEEN l.first AND l.last AND (l.run IS NULL OR s.seq = ANY (l.run)) AND m.lane = s.lane AND m.seq = s.seq
			OFFSET 0) m WHERE NOT (SELECT before FROM g)))
	RETURNING *),
lost AS MATERIALIZED (
	SELECT CASE WHEN (SELECT count(*) FROM d) < cardinality($1::bigint[]) THEN
		(SELECT array_agg(s.i) FROM unnest($2::bigint[], $4::int[]) s(seq, i) WHERE s.seq NOT IN (SELECT seq FROM d)) END AS items),
` + ackCommon + `
o AS (INSERT INTO @batch (id, part, at, items)
	SELECT $5::bytea, 2, now.at, lost.items FROM now, lost, g WHERE $5::bytea <> '' AND NOT before)
SELECT items, before FROM lost, g`

// dropUniques gives up the unique keys of d. They are locked in their order, as in all
// statements, before any is deleted: a deletion follows the physical order of rows.
const dropUniques = `q AS (DELETE FROM @uniq WHERE k = ANY (ARRAY(
	SELECT q.k FROM (SELECT d.uniq, d.id FROM d WHERE d.uniq <> '' ORDER BY d.uniq) d
	CROSS JOIN LATERAL (SELECT q.k FROM @uniq q WHERE q.k = d.uniq AND q.id = d.id FOR UPDATE) q)))`

// freeUniques gives up keys $1 of messages $2.
const freeUniques = `WITH d AS (SELECT * FROM unnest($1::bytea[], $2::bytea[]) d(uniq, id)),
` + dropUniques + `
SELECT 1`

// ackCommon has the statements that go with every ack of messages d at the time now.
const ackCommon = `
y AS (INSERT INTO @tally (topic, what, n, at) SELECT d.topic, 2, count(*), n.at FROM now n, d GROUP BY d.topic, n.at),
` + dropUniques + `,
r AS (INSERT INTO @acked (seq, id, rank, vis, topic, prio, replays, key, meta, body, acked_at, until)
	SELECT d.seq, d.id, d.rank, d.vis, d.topic, d.prio, d.replays, d.key, d.meta, d.body, n.at, n.at + t.retain / 1000 * interval '1 microsecond'
	FROM now n, d
	CROSS JOIN LATERAL (SELECT t.retain FROM @topic t WHERE t.id = d.topic OFFSET 0) t
	WHERE d.topic = ANY (ARRAY(SELECT id FROM @topic WHERE retain > 0))),`

// endRuns ends the leases of runs whose last message was acked: $1 lanes, $2
// tokens, $3 the last message acked of each.
const endRuns = `
WITH x AS (DELETE FROM @lease WHERE ctid = ANY (ARRAY(
		SELECT l.ctid FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) s(lane, token, seq)
		CROSS JOIN LATERAL (SELECT l.ctid FROM @lease l WHERE l.lane = s.lane AND l.token = s.token AND l.last = s.seq OFFSET 0) l))
	RETURNING lane, reach, rank)
` + ticketHeads

// acks are plain acks: without emits, without hold.
type acks struct {
	lanes, seqs, tokens []int64
	items               []int32
}

func (a *acks) add(t pawl.Token, item int) {
	a.lanes, a.seqs, a.tokens = append(a.lanes, t.Lane), append(a.seqs, t.Seq), append(a.tokens, t.Fence)
	a.items = append(a.items, int32(item))
}

// part is a part of a settle: a transaction of its own with its own memory.
type part struct {
	number int
	acks   *acks
	steps  group
	lost   []int // items that changed nothing
	before bool  // it was answered before: this time nothing changed
	woken  []int32
}

func (p *part) readLost(r row) error {
	if p.before = r.bool(1); p.before {
		return nil
	}
	p.lost = append(p.lost, r.int4s(0)...)
	return nil
}

func (p *part) reset() { p.lost, p.woken, p.before = nil, nil, false }

// soloPart acks messages that are lanes of their own.
func (s *settler) soloPart(a *acks, batch []byte) *part {
	p := &part{number: partSolo, acks: a}
	fences := slices.Compact(slices.Sorted(slices.Values(a.tokens)))
	position := make(map[int64]int32, len(fences))
	for i, f := range fences {
		position[f] = int32(i + 1)
	}
	of := make([]int32, len(a.tokens))
	for i, f := range a.tokens {
		of[i] = position[f]
	}
	p.steps = group{read(ackSolo, p.readLost, int8Array(a.lanes), int4Array(of), int4Array(a.items), int8Array(fences),
		bytesValue(batch), s.skewValue())}
	return p
}

// keyedPart acks messages of runs. The first statement locks, in the order of lanes; later
// statements see every change of the lane until then.
func (s *settler) keyedPart(a *acks, batch []byte) *part {
	p := &part{number: partKeyed, acks: a}
	var lanes, tokens, last []int64
	for i, lane := range a.lanes {
		if n := len(lanes) - 1; n >= 0 && lanes[n] == lane && tokens[n] == a.tokens[i] {
			last[n] = a.seqs[i]
			continue
		}
		lanes, tokens, last = append(lanes, lane), append(tokens, a.tokens[i]), append(last, a.seqs[i])
	}
	p.steps = group{
		read(lockLanes, nil, int8Array(lanes), int8Array(tokens)),
		read(ackRuns, p.readLost, int8Array(a.lanes), int8Array(a.seqs), int8Array(a.tokens), int4Array(a.items),
			bytesValue(batch), s.skewValue()),
		read(endRuns, add(&p.woken, row.id), int8Array(lanes), int8Array(tokens), int8Array(last)),
	}
	return p
}

// noteAcks tells the tracker the messages that were acked: all except lost ones.
func (s *settler) noteAcks(a *acks, lost []int) {
	gone := make(map[int32]bool, len(lost))
	for _, i := range lost {
		gone[int32(i)] = true
	}
	for i := 0; i < len(a.items); {
		n, count := i, int32(0)
		for ; n < len(a.items) && a.tokens[n] == a.tokens[i] && (a.lanes[n] > 0 || a.lanes[n] == a.lanes[i]); n++ {
			if !gone[a.items[n]] {
				count++
			}
		}
		if a.lanes[i] > 0 {
			s.upkeep.tracker.ended(a.tokens[i], int(count))
		} else {
			s.upkeep.tracker.acked(a.tokens[i], a.lanes[i], count, false)
		}
		i = n
	}
}

// runParts sends parts together. A part that was answered before gives its first answer.
func (s *settler) runParts(ctx context.Context, batch []byte, parts []*part) error {
	var repeated []*part
	for len(parts) > 0 {
		failed := parts[:0:0]
		err := s.again(ctx, func() error {
			conn, err := acquire(ctx, s.back)
			if err != nil {
				return err
			}
			defer conn.Release()
			groups := make([]group, len(parts))
			for i, p := range parts {
				p.reset()
				groups[i] = s.hot(p.steps)
			}
			errs := s.send(ctx, conn.Conn().PgConn(), groups...)
			failed = parts[:0:0]
			for i, p := range parts {
				switch {
				case p.before || isRepeated(errs[i]):
					repeated = append(repeated, p)
				case errs[i] == nil:
					s.listener.wake(p.woken...)
				default:
					failed = append(failed, p)
					err = errs[i]
				}
			}
			parts = failed // what is done is done
			return err
		})
		if err != nil {
			return err
		}
	}
	for _, p := range repeated {
		if err := s.firstAnswer(ctx, batch, p); err != nil {
			return err
		}
	}
	return nil
}

// firstAnswer reads the outcome of a part from its first settlement.
func (s *settler) firstAnswer(ctx context.Context, batch []byte, p *part) error {
	p.reset()
	p.before = true
	return s.call(ctx, s.back, readOutcome(batch, p.number, func(r row) error {
		p.lost = r.int4s(1)
		return nil
	}))
}

// refuse makes refusals of lost items.
func refuse(refused []store.Refusal, lost []int) []store.Refusal {
	for _, i := range lost {
		refused = append(refused, store.Refusal{Index: i, Err: pawl.ErrLeaseLost})
	}
	return refused
}
