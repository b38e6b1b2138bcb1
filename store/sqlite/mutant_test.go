package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/storetest"
)

// mutant is a statement that is wrong in one place, and who must notice:
// sentences of the contract, or checks of this package.
type mutant struct {
	name      string
	statement string
	from, to  string
	sentences []string
	check     func(*Store, func(time.Duration)) error
}

var mutants = []mutant{
	{"a single ack is not fenced", ackLease, "fence = ?", "? IS NOT NULL", nil, staleAmongLive},
	{"a span of lanes of keys is not fenced", leasesOfSpan, "fence = ?", "? IS NOT NULL", nil, staleAmongLive},
	{"a span of lanes of their own is not fenced", countSpan, "fence = ?", "? IS NOT NULL", nil, staleNeighbours},
	{"traces are left behind", dropTried, "BETWEEN ? AND ?", "BETWEEN ? AND -1 * ?", nil, noTraces},
	{"an extend is not fenced", extendLease, "fence = ?2", "?2 IS NOT NULL",
		[]string{"ExtendOfALostLeaseChangesNothing"}, nil},
	{"an extend passes the deadline", extendLease, "min(hard, ?3)", "?3", []string{"ExtendStopsAtTheDeadline"}, nil},
	{"an extend shortens", extendLease, "max(until, min(hard, ?3))", "min(hard, ?3)", nil, extendKeeps},
	{"a span strands what is behind", openSpan, "f.lane = busy.lane", "f.lane = -busy.lane", nil, spansGoOn},
	{"a lane strands what is behind", openLane, "m.lane < 0", "m.lane > 0",
		[]string{"LaneGoesOn", "RetryAtOnce", "LeaseEndsForTheWholeRun"}, nil},
	{"a lane of its own is never opened", openOwn, "m.seq = ?", "m.seq = -?",
		[]string{"LeaseEnds", "DelayPutsOff"}, nil},
	{"a closed lane is given up", takeLane, "AND NOT EXISTS (SELECT 1 FROM pawl_closed c WHERE c.lane = pawl_key.lane)",
		"", []string{"HoldClosesTheLane"}, nil},
	{"a lane with messages is given up", takeLane, "m.lane < 0", "m.lane > 0", []string{"LaneIsHeldOnce"}, nil},
	{"a delayed message keeps its place", joinLane, "seq = ?, lane", "seq = seq + 0 * ?, lane",
		[]string{"DelayedJoinsTheTail"}, nil},
	{"rank is ignored", selectHeads, "ORDER BY s.rank, s.seq", "ORDER BY s.seq", []string{"PriorityGoesFirst"}, nil},
	{"the last one claimed has no lease", leaseHeads, "<= (?3, ?4)", "< (?3, ?4)",
		[]string{"AckIsFinal", "LeaseEnds"}, nil},
	{"the last one claimed keeps its ticket", takeSlots, "<= (?3, ?4)", "< (?3, ?4)", []string{"OneLiveLease"}, nil},
	{"a run is as long as its first message", setLease, "last = ?", "last = last + 0 * ?",
		[]string{"RunIsAckedPieceByPiece", "RunIsTheHeadOfTheLane"}, nil},
	{"a run takes what is behind it", dropSpan, "AND ?", "AND ? + 1", nil, spansGoOn},
	{"rescues are not counted", addRescue, "rescues = rescues + 1", "rescues = rescues",
		[]string{"RescueIsNoAttempt"}, nil},
	{"every rescue is lonely", addRescue, "lonely = lonely + ?3", "lonely = lonely + 1 + 0 * ?3",
		[]string{"LonelyRescuesAddUp"}, nil},
	{"a suspect is none", openOwn, suspicionOf, "0", []string{"SuspectsAreWeighedAcrossTopics"}, nil},
	{"the last unique key wins", takeUnique, "WHERE until > 0 AND until <= ?4", "WHERE ?4 IS NOT NULL",
		[]string{"UniqueFirstWins"}, nil},
	{"outcomes are of this hour only", selectOutcome, "(?1, ?1 - 1, ?1 + 1)", "(?1)",
		[]string{"BatchIsRememberedForAnHour"}, nil},
	{"replayed messages are parked again", selectFollow, "replays = 0", "1", []string{"ReplayedMessagesPass"}, nil},
	{"leases are swept once", firstOver, "coalesce(min(until), 0x7fffffffffffffff)", "0x7fffffffffffffff", nil,
		allLeasesEnd},
	{"closed lanes are swept once", firstDue, "SELECT at", "SELECT 0x7fffffffffffffff", nil, allClosedOpen},
	{"attempts are not counted", addAttempt, "attempts = attempts + 1", "attempts = attempts",
		[]string{"AttemptIsASettledFailure"}, nil},
	{"the dead do not hold their id", deleteDead, "seq = ?", "seq = -?", []string{"ParkEndsWithTheLastDeadLetter"}, nil},
}

// TestMutants shows that wrong statements are noticed.
func TestMutants(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			wrong := strings.Replace(m.statement, m.from, m.to, 1)
			if wrong == m.statement {
				t.Fatalf("%q is not in the statement", m.from)
			}
			rewrite := func(query string) string {
				if query == m.statement {
					return wrong
				}
				return query
			}
			if len(m.sentences) > 0 {
				storetest.Rejects(t, mutated(rewrite), m.sentences...)
			}
			if m.check == nil {
				return
			}
			var ahead atomic.Int64
			s := openMutant(t, &ahead, rewrite)
			if err := m.check(s, func(d time.Duration) { ahead.Add(int64(d)) }); err == nil {
				t.Error("the check does not notice")
			} else {
				t.Log(err)
			}
		})
	}
}

// mutated opens stores whose statements are rewritten.
func mutated(rewrite func(string) string) storetest.Harness {
	return storetest.Harness{Open: func(t testing.TB) *storetest.Instance {
		var ahead atomic.Int64
		s := openMutant(t, &ahead, rewrite)
		same := func(testing.TB) store.Store { return s }
		return &storetest.Instance{
			Store: s, Advance: func(d time.Duration) { ahead.Add(int64(d)) }, TxStalls: "left out",
			Peer: same, Reopen: same, // declared, and not called by the sentences that are named
			Tx: func(testing.TB, func(func(store.Batch[pawl.Message]) ([]store.Receipt, error)) bool) {},
		}
	}}
}

func openMutant(t testing.TB, ahead *atomic.Int64, rewrite func(string) string) *Store {
	s := open(t, Config{
		Path: filepath.Join(t.TempDir(), "pawl.db"),
		Now:  func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) },
	})
	c := s.writer.conn
	for query, stmt := range c.stmts {
		must(t, stmt.Close())
		delete(c.stmts, query)
	}
	c.c = rewriting{c.c, rewrite}
	return s
}

// rewriting is a connection that prepares other statements than it is given.
type rewriting struct {
	driver.Conn
	rewrite func(string) string
}

func (r rewriting) Prepare(query string) (driver.Stmt, error) {
	return r.Conn.Prepare(r.rewrite(query))
}

func (r rewriting) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return r.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

// TestChecks shows that the store stands the checks that mutants must not.
func TestChecks(t *testing.T) {
	for name, check := range map[string]func(*Store, func(time.Duration)) error{
		"stale among live": staleAmongLive, "stale neighbours": staleNeighbours, "no traces": noTraces,
		"extend keeps": extendKeeps, "spans go on": spansGoOn,
		"all leases end": allLeasesEnd, "all closed open": allClosedOpen,
	} {
		t.Run(name, func(t *testing.T) {
			var ahead atomic.Int64
			s := openMutant(t, &ahead, func(query string) string { return query })
			if err := check(s, func(d time.Duration) { ahead.Add(int64(d)) }); err != nil {
				t.Error(err)
			}
			intact(t, s.cfg.Path)
		})
	}
}

// hands claims and settles for the checks.
type hands struct{ *Store }

func (h hands) append(msgs ...pawl.Message) error {
	_, err := h.Append(context.Background(), store.NewBatch(msgs...))
	return err
}

func (h hands) claim(limit int, length time.Duration) ([]pawl.Delivery, error) {
	return h.Claim(context.Background(), []store.Want{{Topic: "t", Limit: limit, Run: 1}}, store.Lease{For: length})
}

func (h hands) ack(ds ...pawl.Delivery) ([]store.Refusal, error) {
	var items []store.Settlement
	for i := range ds {
		items = append(items, store.Settlement{Token: ds[i].Token, ID: ds[i].ID, Verdict: store.Ack})
	}
	return h.Settle(context.Background(), store.NewBatch(items...))
}

// staleAmongLive: of two lanes of a claim one loses its lease. Its first message
// is to blame and is acked; the second is claimed anew and bears no trace of it.
// Then the first claim settles what it had.
func staleAmongLive(s *Store, advance func(time.Duration)) error {
	h := hands{s}
	err := h.append(pawl.Message{Topic: "t", Key: []byte("a")}, pawl.Message{Topic: "t", Key: []byte("b")},
		pawl.Message{Topic: "t", Key: []byte("b")})
	if err != nil {
		return err
	}
	old, err := s.Claim(context.Background(), []store.Want{{Topic: "t", Limit: 3}}, store.Lease{For: time.Minute})
	if err != nil || len(old) != 3 {
		return fmt.Errorf("claimed %d: %w", len(old), err)
	}
	if lost, err := s.Extend(context.Background(), 4*time.Minute, old[0].Token); err != nil || len(lost) > 0 {
		return fmt.Errorf("extend: %v, %w", lost, err)
	}
	advance(2 * time.Minute)
	for range 2 {
		again, err := h.claim(1, 2*time.Minute)
		if err != nil || len(again) != 1 {
			return fmt.Errorf("claimed %d again: %w", len(again), err)
		}
		if again[0].ID == old[2].ID {
			refused, err := h.ack(old[0], old[2])
			if err != nil || len(refused) != 1 || refused[0].Index != 1 {
				return fmt.Errorf("refused %v, %w; want the stale one", refused, err)
			}
		}
		if refused, err := h.ack(again[0]); err != nil || len(refused) > 0 {
			return fmt.Errorf("who holds the lease is refused: %v, %w", refused, err)
		}
	}
	return nil
}

// staleNeighbours: of a claim, all but the first lose their lease and are claimed
// anew; then the first claim settles what it had.
func staleNeighbours(s *Store, advance func(time.Duration)) error {
	h := hands{s}
	if err := h.append(make3()...); err != nil {
		return err
	}
	old, err := h.claim(3, time.Minute)
	if err != nil || len(old) != 3 {
		return fmt.Errorf("claimed %d: %w", len(old), err)
	}
	if lost, err := s.Extend(context.Background(), 4*time.Minute, old[0].Token); err != nil || len(lost) > 0 {
		return fmt.Errorf("extend: %v, %w", lost, err)
	}
	advance(2 * time.Minute)
	if again, err := h.claim(3, 2*time.Minute); err != nil || len(again) != 2 {
		return fmt.Errorf("claimed %d again: %w", len(again), err)
	}
	refused, err := h.ack(old...)
	if err != nil || len(refused) != 2 || refused[0].Index != 1 {
		return fmt.Errorf("refused %v, %w; want the last two", refused, err)
	}
	return nil
}

// noTraces: messages that were given back leave nothing when they are acked, one
// by one or together.
func noTraces(s *Store, _ func(time.Duration)) error {
	h := hands{s}
	if err := h.append(append(make3(), make3()...)...); err != nil {
		return err
	}
	ds, err := h.claim(6, time.Minute)
	if err != nil {
		return err
	}
	var items []store.Settlement
	for i := range ds {
		items = append(items, store.Settlement{Token: ds[i].Token, Verdict: store.Release})
	}
	if refused, err := s.Settle(context.Background(), store.NewBatch(items...)); err != nil || len(refused) > 0 {
		return fmt.Errorf("refused %v, %w", refused, err)
	}
	for _, n := range []int{1, 5} {
		ds, err := h.claim(n, time.Minute)
		if err != nil || len(ds) != n {
			return fmt.Errorf("claimed %d, %w", len(ds), err)
		}
		if refused, err := h.ack(ds...); err != nil || len(refused) > 0 {
			return fmt.Errorf("refused %v, %w", refused, err)
		}
	}
	var left int
	if err := s.readers.QueryRow("SELECT count(*) FROM pawl_tried").Scan(&left); err != nil || left > 0 {
		return fmt.Errorf("%d traces, %w", left, err)
	}
	return nil
}

// extendKeeps: a lease that is extended by less than it has left ends when it
// would have.
func extendKeeps(s *Store, advance func(time.Duration)) error {
	h := hands{s}
	if err := h.append(make3()...); err != nil {
		return err
	}
	short, err := h.claim(1, time.Minute)
	if err != nil || len(short) != 1 {
		return fmt.Errorf("claimed %d: %w", len(short), err)
	}
	long, err := h.claim(1, 4*time.Minute)
	if err != nil || len(long) != 1 {
		return fmt.Errorf("claimed %d: %w", len(long), err)
	}
	if lost, err := s.Extend(context.Background(), time.Second, long[0].Token); err != nil || len(lost) > 0 {
		return fmt.Errorf("extend: %v, %w", lost, err)
	}
	advance(2 * time.Minute)
	if _, err := h.claim(1, time.Minute); err != nil { // the end of the short one is noticed
		return err
	}
	if refused, err := h.ack(long[0]); err != nil || len(refused) > 0 {
		return fmt.Errorf("refused %v, %w", refused, err)
	}
	return nil
}

// spansGoOn: many lanes are settled at once, and each goes on.
func spansGoOn(s *Store, _ func(time.Duration)) error {
	h := hands{s}
	for range 3 {
		msgs := make([]pawl.Message, 5)
		for i := range msgs {
			msgs[i] = pawl.Message{Topic: "t", Key: []byte{byte(i)}}
		}
		if err := h.append(msgs...); err != nil {
			return err
		}
	}
	for round := range 3 {
		ds, err := h.claim(5, time.Minute)
		if err != nil || len(ds) != 5 {
			return fmt.Errorf("round %d: claimed %d, %w", round, len(ds), err)
		}
		if refused, err := h.ack(ds...); err != nil || len(refused) > 0 {
			return fmt.Errorf("round %d: refused %v, %w", round, refused, err)
		}
	}
	return runsGoOn(h)
}

// runsGoOn: a part of a run is settled at once, and what is behind is left.
func runsGoOn(h hands) error {
	key := []byte("run")
	if err := h.append(pawl.Message{Topic: "t", Key: key}, pawl.Message{Topic: "t", Key: key},
		pawl.Message{Topic: "t", Key: key}); err != nil {
		return err
	}
	for _, length := range []int{2, 1} {
		ds, err := h.Claim(context.Background(), []store.Want{{Topic: "t", Limit: length, Run: length}},
			store.Lease{For: time.Minute})
		if err != nil || len(ds) != length {
			return fmt.Errorf("claimed %d of a run of %d, %w", len(ds), length, err)
		}
		if refused, err := h.ack(ds...); err != nil || len(refused) > 0 {
			return fmt.Errorf("run of %d: refused %v, %w", length, refused, err)
		}
	}
	return nil
}

// allLeasesEnd: leases of different lengths end one after the other.
func allLeasesEnd(s *Store, advance func(time.Duration)) error {
	h := hands{s}
	if err := h.append(make3()...); err != nil {
		return err
	}
	for i := range 3 {
		if ds, err := h.claim(1, time.Duration(i+1)*time.Minute); err != nil || len(ds) != 1 {
			return fmt.Errorf("claimed %d, %w", len(ds), err)
		}
	}
	return oneByOne(h, advance)
}

// allClosedOpen: delays of different lengths end one after the other.
func allClosedOpen(s *Store, advance func(time.Duration)) error {
	h := hands{s}
	msgs := make3()
	for i := range msgs {
		msgs[i].Delay = time.Duration(i+1) * time.Minute
	}
	if err := h.append(msgs...); err != nil {
		return err
	}
	return oneByOne(h, advance)
}

func make3() []pawl.Message { return []pawl.Message{{Topic: "t"}, {Topic: "t"}, {Topic: "t"}} }

// oneByOne claims something every minute.
func oneByOne(h hands, advance func(time.Duration)) error {
	advance(10 * time.Second)
	for minute := range 3 {
		advance(time.Minute)
		if ds, err := h.claim(3, time.Hour); err != nil || len(ds) != 1 {
			return fmt.Errorf("minute %d: claimed %d, %w", minute+1, len(ds), err)
		}
	}
	return nil
}
