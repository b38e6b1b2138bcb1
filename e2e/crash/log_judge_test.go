//go:build linux

package crash

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// logbook is what a test over Kafka knows of its messages: ids in the order in
// which they were sent, by key. A producer wrote all of them, so that the log has
// their first copies in that order. Further copies follow where brokers were harmed:
// the producer repeats a batch when no broker says in time whether it is stored.
type logbook struct {
	topic string
	keys  map[string][]string
	count int
	dead  map[string]bool // those that became dead letters
	kills map[string]bool // those that kill whoever carries them out
	// brokers: they were harmed. Then a process may lose a partition and find it
	// again, and repeat what it could not commit.
	brokers bool
	slack   time.Duration // beyond the commit interval, see [commitSlack]
}

func newLogbook(topic string) *logbook {
	slack := busySlack
	if strict() {
		slack = commitSlack
	}
	return &logbook{topic: topic, keys: map[string][]string{}, dead: map[string]bool{}, kills: map[string]bool{},
		slack: slack}
}

// line adds the next message, of key n modulo keys, and renders it for `send --jsonl`.
func (b *logbook) line(keys int, do string) string {
	n := b.count
	b.count++
	key, id := fmt.Sprintf("k%d", n%keys), fmt.Sprintf("m%06d", n)
	b.keys[key] = append(b.keys[key], id)
	b.kills[id] = do == "kill-parent"
	return fmt.Sprintf(`{"id":%q,"key":%q,"body":{"seq":%d,"do":%q}}`+"\n", id, key, n, do)
}

// The kinds of faults of a log, besides [lost].
const (
	early     = "begun before the one before it was finished"
	inverted  = "out of order within a process"
	misplaced = "stored behind a later message of its key"
	repeated  = "finished work repeated, and no kill explains it"
)

// commitInterval is the store's default, within which finished work is committed.
const commitInterval = time.Second

// commitSlack is what may come on top, between a line in a worker's journal and
// the commit: the verdict goes through a pipe and waits for its batch, and then the
// commit before it may be on its way to the broker still, and its own has to get
// there. Each of the four takes milliseconds; that machine does other things, too.
const commitSlack = 500 * time.Millisecond

// busySlack is the same where a machine may be as busy as it likes, and figures are
// no bars.
const busySlack = 3 * time.Second

// judgeLog reads a complete history. It holds against it
//
//   - a message that has no final verdict and is no dead letter;
//   - one that began, anywhere, before the one before it of its key had ended;
//   - one whose first copy is in the log behind that of a later message of its key;
//   - two of a key that one process carried out at once, or against the order of the
//     log while it had their partition;
//   - finished work that was carried out again, unless whoever finished it was
//     killed, with kill -9, no later than a commit may take. What was finished by
//     those who left when they were asked to is not repeated, unless they said that
//     they could not commit it: brokers take no commits while a rebalance waits for
//     a leader that was killed.
//
// It counts what is right to happen after a kill, or when no broker answers:
// explained repeats, and keys that went back in their order because another process
// had got further, or the same one before it lost the partition, or because the log has
// a batch twice.
func judgeLog(all []*delivery, book *logbook) *findings {
	f := &findings{faults: map[string][]string{}, counts: map[string]int{"deliveries": len(all),
		"messages": book.count}}
	messages, keys := map[string][]*delivery{}, map[string][]*delivery{}
	for _, d := range all {
		messages[d.id] = append(messages[d.id], d)
		keys[d.key] = append(keys[d.key], d)
	}
	for _, key := range slices.Sorted(maps.Keys(book.keys)) {
		var before string
		for _, id := range book.keys[key] {
			f.ended(id, messages[id], book.dead[id])
			if before != "" {
				f.follows(messages[id], messages[before])
				f.placed(messages[id], messages[before])
			}
			f.repeats(messages[id], book)
			before = id
		}
		f.backwards(keys[key])
	}
	return f
}

// ended looks whether a message came to its end.
func (f *findings) ended(id string, ds []*delivery, dead bool) {
	switch {
	case slices.ContainsFunc(ds, (*delivery).final):
	case dead:
		f.counts["dead without a verdict"]++
	default:
		f.fault(lost, "%s, carried out %d times\n    %s", id, len(ds), list(ds))
	}
}

// follows looks whether a message began before the one before it in its key can
// have ended: by a verdict, or by killing its process for the last time.
func (f *findings) follows(ds, before []*delivery) {
	end := time.Duration(0)
	for _, d := range before {
		switch {
		case d.final() && (end == 0 || d.end < end):
			end = d.end
		case d.final():
		case !slices.ContainsFunc(before, (*delivery).final):
			end = max(end, d.dying)
		}
	}
	if len(ds) > 0 && end > 0 && ds[0].start < end {
		f.fault(early, "%v\n    while\n    %s", ds[0], list(before))
	}
}

// placed looks whether the log has a message behind the one before it in its key: the
// first copy of it behind the first copy of that.
func (f *findings) placed(ds, before []*delivery) {
	if len(ds) == 0 || len(before) == 0 {
		return
	}
	byOffset := func(a, b *delivery) int { return cmp.Compare(a.offset(), b.offset()) }
	first, second := slices.MinFunc(before, byOffset), slices.MinFunc(ds, byOffset)
	if second.offset() < first.offset() {
		f.fault(misplaced, "%v\n    behind %v", first, second)
	}
}

// repeats looks for finished work that was begun again, and for the reason.
func (f *findings) repeats(ds []*delivery, book *logbook) {
	for n, d := range ds {
		again, why, told := false, true, false
		for _, first := range ds[:n] {
			if !first.final() || first.end > d.start {
				continue
			}
			again, told = true, told || first.by.warned
			age, killed := first.beforeKill()
			if why = why && killed && age <= commitInterval+book.slack; why {
				f.oldest = max(f.oldest, age)
			}
		}
		switch {
		case again && why:
			f.counts["repeated after a kill"]++
		case again && told:
			f.counts["repeated, as was said"]++
		case again && book.brokers:
			f.counts["repeated"]++
		case again:
			f.fault(repeated, "%s", list(ds[:n+1]))
		}
	}
}

// beforeKill is how long after the verdict of d its process was killed; false if
// it was not.
func (d *delivery) beforeKill() (time.Duration, bool) {
	for _, e := range d.by.events {
		if e.harm == killed {
			return max(0, e.at-d.end), true
		}
	}
	return 0, false
}

// tenure is which of a process's assignments of partitions a delivery belongs to:
// the token has its number in the upper half of its second part.
func (d *delivery) tenure() tenure {
	parts := strings.Split(d.token, ".")
	if len(parts) != 3 {
		return tenure{d.by, -1}
	}
	lane, _ := strconv.ParseInt(parts[1], 36, 64)
	return tenure{d.by, lane >> 32}
}

type tenure struct {
	by     *incarnation
	number int64
}

// offset is the place in the log of what was delivered: the last part of the token. Histories
// told by hand have none, and are in the log as they were sent.
func (d *delivery) offset() int64 {
	parts := strings.Split(d.token, ".")
	if len(parts) != 3 {
		return int64(d.Seq)
	}
	offset, _ := strconv.ParseInt(parts[2], 36, 64)
	return offset
}

// backwards looks at the deliveries of a key for those that go back in the log, and counts
// those that go back in the order of sending.
func (f *findings) backwards(ds []*delivery) {
	latest, highest := map[tenure]*delivery{}, (*delivery)(nil)
	for _, d := range ds {
		at := d.tenure()
		if last := latest[at]; last != nil {
			running := last.end == 0 && last.dying == 0 && !last.orphan || last.end > d.start
			if d.offset() < last.offset() || running {
				f.fault(inverted, "%v\n    after %v", d, last)
			}
		}
		latest[at] = d
		switch {
		case highest == nil || d.Seq >= highest.Seq:
			highest = d
		case at == highest.tenure():
			f.counts["back, as the log has it twice"]++
		case d.by != highest.by:
			f.counts["back, in another process"]++
		default:
			f.counts["back, in the same process later"]++
		}
	}
}

// noteKills takes note of the processes that messages killed, by what their workers
// wrote down before they did it.
func (b *logbook) noteKills(all []*delivery) {
	for _, d := range all {
		if d.dying > 0 && b.kills[d.id] {
			d.by.events = append(d.by.events, event{killed, d.dying, true})
		}
	}
}

// report fails the test for every kind of fault, and shows how it went.
func (f *findings) report(t *testing.T, how string) {
	t.Helper()
	for _, kind := range slices.Sorted(maps.Keys(f.faults)) {
		all := f.faults[kind]
		t.Errorf("%d times: %s. The first:\n  %s", len(all), kind, strings.Join(all[:min(3, len(all))], "\n  "))
	}
	t.Logf("%d messages over Kafka, %s: lost %d, out of order within a process %d, begun too early %d; "+
		"back in a key's order in another process %d, in the same when the partition came back %d, as the log has it "+
		"twice %d; finished and repeated %d after a kill (finished at most %v before it), %d as their process had "+
		"said, %d otherwise",
		f.counts["messages"], how, len(f.faults[lost]), len(f.faults[inverted]), len(f.faults[early]),
		f.counts["back, in another process"],
		f.counts["back, in the same process later"], f.counts["back, as the log has it twice"],
		f.counts["repeated after a kill"],
		f.oldest.Round(time.Millisecond), f.counts["repeated, as was said"],
		f.counts["repeated"]+len(f.faults[repeated]))
}

// readLog is the history of lives, and the dead letters.
func (b *logbook) readLog(t *testing.T, s *site, lives []*incarnation) []*delivery {
	t.Helper()
	all, err := readHistory([]*node{{lives: lives}})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range s.dead(t, b.topic) {
		b.dead[d.ID] = true
	}
	return all
}
