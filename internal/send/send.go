package send

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/lines"
	"github.com/pawl-dev/pawl/internal/wire"
	"github.com/pawl-dev/pawl/store"
)

// Bounds of a batch of lines. Two are in memory at most: one that is appended,
// and one that is being read.
const (
	sendItems = 5_000
	sendBytes = 8 << 20
)

// repeatFor is for how long an append is repeated that the store does not answer.
const repeatFor = 5 * time.Minute

// Sent counts the results for lines.
type Sent struct {
	Appended   int64 `json:"appended"`
	Duplicates int64 `json:"duplicates"`
	Skipped    int64 `json:"skipped,omitempty"`
	// Through is the last line up to which everything is stored, or was skipped.
	Through int64 `json:"-"`
	// Refused are lines up to there that the store refused when it was given them with
	// others: they are not stored, and those around them are.
	Refused []int64 `json:"-"`
	// Doubt says that some of the lines after Through may be stored.
	Doubt bool `json:"-"`
}

// Lines appends messages that come as lines of JSON. It reads while it
// appends, in batches that become as large as the store is slow, and keeps the
// order of the lines.
type Lines struct {
	Store store.Store // nil: lines are checked only
	Topic string      // of lines that name none
	// Bad is called for every line that is not a message or is refused, and decides
	// whether to continue without it. nil never continues. It is called by one
	// goroutine at a time, and not after Run has returned.
	Bad   func(*lines.Error) bool
	badMu sync.Mutex // held while Bad is called, by the reader or the appender
	// Trouble, if not nil, is called for an append that is about to be repeated.
	Trouble func(error)
	// Progress, if not nil, is called after each batch.
	Progress func(Sent)
	// Receipt, if not nil, is called for every line as soon as its outcome is known; one that is bad has an Err. It is
	// called as Bad is, and before it.
	Receipt func(line int64, r store.Receipt)
}

// Run appends the lines of r, and returns what is stored, in any case. A
// [*lines.Error] says that nothing behind [Sent.Through] is; any other error that it is
// unfinished.
func (s *Lines) Run(ctx context.Context, r io.Reader) (Sent, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	b := &lineBatches{}
	b.more.L, b.less.L = &b.mu, &b.mu
	stopped := context.AfterFunc(ctx, b.abort)
	defer stopped()
	// A read from a terminal or pipe cannot be interrupted: who cancels does not
	// wait for it, but for a call of Bad that has begun.
	go s.parse(lines.NewReader(r), b)
	defer func() {
		s.badMu.Lock()
		defer s.badMu.Unlock()
		b.abort()
	}()
	var sent Sent
	for {
		batch, ok := b.take()
		if !ok {
			break
		}
		if err := s.append(ctx, batch, &sent); err != nil {
			return sent, err
		}
		if s.Progress != nil {
			s.Progress(sent)
		}
	}
	if err := context.Cause(ctx); err != nil {
		return sent, err
	}
	return sent, b.failure()
}

// lineBatches hands lines from the reader to the appender.
type lineBatches struct {
	mu         sync.Mutex
	more, less sync.Cond
	next       lineBatch
	ended      bool // nothing comes any more
	aborted    bool // nothing is wanted any more
	err        error
}

// lineBatch is lines that are appended together.
type lineBatch struct {
	drafts  []wire.Draft
	lines   []int64 // where they stood
	bytes   int
	skipped int64
	through int64
}

func (b *lineBatches) add(d wire.Draft, line int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := d.Size()
	for !b.aborted && len(b.next.drafts) > 0 && (len(b.next.drafts) >= sendItems || b.next.bytes+size > sendBytes) {
		b.less.Wait()
	}
	b.next.drafts = append(b.next.drafts, d)
	b.next.lines = append(b.next.lines, line)
	b.next.bytes += size
	b.next.through = line
	b.more.Signal()
	return !b.aborted
}

// skip counts a line that brings nothing; bad if it should have.
func (b *lineBatches) skip(line int64, bad bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next.through = line
	if bad {
		b.next.skipped++
	}
}

func (b *lineBatches) end(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended, b.err = true, err
	b.more.Signal()
}

func (b *lineBatches) abort() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.aborted = true
	b.more.Signal()
	b.less.Signal()
}

func (b *lineBatches) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.aborted
}

// take waits for lines and takes all that are there.
func (b *lineBatches) take() (lineBatch, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.next.drafts) == 0 && !b.ended && !b.aborted {
		b.more.Wait()
	}
	if b.aborted || len(b.next.drafts) == 0 && b.next.through == 0 {
		return lineBatch{}, false
	}
	taken := b.next
	b.next = lineBatch{}
	b.less.Signal()
	return taken, true
}

func (b *lineBatches) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// parse reads lines until the stream ends or one is bad.
func (s *Lines) parse(r *lines.Reader, b *lineBatches) {
	for {
		line, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			b.end(nil)
			return
		case err != nil && !errors.Is(err, lines.ErrTooLong):
			b.end(fmt.Errorf("read line %d: %w", r.N, err))
			return
		case err == nil && len(bytes.TrimSpace(line)) == 0:
			b.skip(r.N, false)
			continue
		}
		var d wire.Draft
		if err == nil {
			d, err = s.draft(line)
		}
		if err != nil {
			bad := &lines.Error{Line: r.N, Err: err}
			s.answer(r.N, store.Receipt{Err: err}, b.over)
			if !s.passes(bad, b.over) {
				b.end(bad)
				return
			}
			b.skip(r.N, true)
			continue
		}
		if !b.add(d, r.N) {
			return
		}
	}
}

// passes reports whether to go on without a line. Nobody is asked about one that was read when nothing is wanted any
// more: Run may have returned.
func (s *Lines) passes(bad *lines.Error, over func() bool) bool {
	s.badMu.Lock()
	defer s.badMu.Unlock()
	return s.Bad != nil && (over == nil || !over()) && s.Bad(bad)
}

// draft reads a line as far as the store would, so that none is refused later.
func (s *Lines) draft(line []byte) (wire.Draft, error) {
	d, err := wire.ParseMessage(line)
	if err != nil {
		return d, err
	}
	if d.Topic == "" {
		d.Topic = s.Topic
	}
	m := d.At(time.Now())
	if s.Store == nil {
		return d, m.Validate()
	}
	return d, store.Fit(s.Store, &m)
}

// append appends a batch, under one id for as long as its outcome is unknown.
func (s *Lines) append(ctx context.Context, b lineBatch, sent *Sent) error {
	now := time.Now()
	items := make([]pawl.Message, len(b.drafts))
	for i := range b.drafts {
		items[i] = b.drafts[i].At(now)
	}
	receipts := make([]store.Receipt, len(items))
	if s.Store != nil && len(items) > 0 {
		var err error
		if receipts, err = s.appendWaiting(ctx, items); err != nil {
			s.broken(b, receipts, err, sent)
			return err
		}
	}
	sent.Skipped += b.skipped
	sent.Through = b.through
	return s.count(b, receipts, sent)
}

// count counts what became of a batch. What was refused of it although [store.Fit] did
// not know is told of like any other bad line, only that those behind it are stored.
func (s *Lines) count(b lineBatch, receipts []store.Receipt, sent *Sent) error {
	var stop error
	for i, r := range receipts {
		s.answer(b.lines[i], r, nil)
		switch {
		case r.Err != nil:
			bad := &lines.Error{Line: b.lines[i], Err: r.Err}
			if s.passes(bad, nil) {
				sent.Skipped++
				continue
			}
			sent.Refused = append(sent.Refused, bad.Line)
			if stop == nil {
				stop = bad
			}
		case r.DuplicateOf != "":
			sent.Duplicates++
		default:
			sent.Appended++
		}
	}
	return stop
}

// answer tells of a line; see passes.
func (s *Lines) answer(line int64, r store.Receipt, over func() bool) {
	s.badMu.Lock()
	defer s.badMu.Unlock()
	if s.Receipt != nil && (over == nil || !over()) {
		s.Receipt(line, r)
	}
}

// broken counts what is stored of a batch that failed: as much as the receipts say, if
// there are any.
func (s *Lines) broken(b lineBatch, receipts []store.Receipt, err error, sent *Sent) {
	whole := true
	for i, r := range store.Answers(len(b.lines), receipts, err) {
		s.answer(b.lines[i], r, nil)
		switch r.Outcome() {
		case store.Unknown:
			sent.Doubt, whole = true, false
		case store.Duplicate:
			sent.Duplicates++
		case store.Stored:
			sent.Appended++
		default:
			whole = false
		}
		if whole {
			sent.Through = b.lines[i]
		} else if r.Err == nil {
			sent.Doubt = true // it is stored, behind one that is not
		}
	}
}

// appendWaiting appends, and waits where a topic is full: what was refused as too much is
// sent again, in its order, for as long as an append is repeated that the store does not
// answer. The error says that the topic is still full.
func (s *Lines) appendWaiting(ctx context.Context, items []pawl.Message) ([]store.Receipt, error) {
	receipts, err := Append(ctx, s.Store, store.NewBatch(items...), s.Trouble)
	for until := time.Now().Add(repeatFor); err == nil; {
		again, wait := store.TooMuch(items, receipts)
		if len(again) == 0 {
			return receipts, nil
		}
		at := slices.IndexFunc(receipts, func(r store.Receipt) bool { return store.IsTopicFull(r.Err) })
		full := receipts[at].Err
		if time.Now().After(until) {
			return receipts, full
		}
		if s.Trouble != nil {
			s.Trouble(full)
		}
		if store.Sleep(ctx, wait) != nil {
			return receipts, errors.Join(context.Cause(ctx), full)
		}
		var more []store.Receipt
		if more, err = Append(ctx, s.Store, store.NewBatch(again...), s.Trouble); len(more) == len(again) {
			if merge(receipts, more) {
				until = time.Now().Add(repeatFor)
			}
		} else if err != nil {
			merge(receipts, store.Answers(len(again), nil, err))
		}
	}
	return receipts, err
}

// merge puts the receipts of what was sent again in their places, and reports whether some
// of it is stored now.
func merge(receipts, more []store.Receipt) (stored bool) {
	for i := range receipts {
		if len(more) > 0 && store.IsTopicFull(receipts[i].Err) {
			receipts[i], more = more[0], more[1:]
			stored = stored || receipts[i].Err == nil
		}
	}
	return stored
}

// Append appends, and repeats it with the same batch id while the store
// cannot be reached, so that nothing is stored twice.
func Append(ctx context.Context, s store.Store, b store.Batch[pawl.Message],
	trouble func(error)) ([]store.Receipt, error) {
	// A batch in flight is waited for even after an interrupt, so that the count is
	// correct.
	return Again(ctx, trouble, func() ([]store.Receipt, error) { return s.Append(context.WithoutCancel(ctx), b) })
}

// Again does something until it succeeds, or fails with another error than that the store does not answer; for five
// minutes at most. trouble, if not nil, is called before each repetition.
func Again[T any](ctx context.Context, trouble func(error), do func() (T, error)) (T, error) {
	until := time.Now().Add(repeatFor)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		done, err := do()
		if !errors.Is(err, store.ErrUnavailable) || time.Now().After(until) {
			return done, err
		}
		if trouble != nil {
			trouble(err)
		}
		select {
		case <-ctx.Done():
			var none T
			return none, errors.Join(context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}
