package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Why an operation ended before it was done.
var (
	ErrPaused    = errors.New("the operation was paused")
	ErrCancelled = errors.New("the operation was cancelled")
)

const (
	// chunk is how many dead letters are done in one transaction.
	chunk = 500
	// editChunk is that of letters that are edited, one by one, before.
	editChunk = 50
	// maxRefusals is how many may be refused in one run. With more it fails:
	// something is wrong with what was selected. Ids that are not there do not
	// count; they are remembered up to this number, the others all, so that a later
	// run does not try them again.
	maxRefusals = 2_000
)

// Runner carries out an operation, in this process. Each letter is done once, whatever
// happens: before a chunk is done its ids are stored as intent; after a crash the
// letters themselves show whether it was done.
type Runner struct {
	*Operations
	Who string
	// Progress, if not nil, is told how many are done.
	Progress func(n int64)
	// Refused is why ids were refused in this run.
	Refused map[string]error

	op     *Operation
	me     string
	edit   func(context.Context, []string) (map[string]error, error) // nil: none
	each   func(context.Context, []string) (map[string]error, error)
	bad    int       // how many were refused in this run though they are there
	put    time.Time // of the last put, by this process's clock
	at     time.Time // of the last put, by the store's clock
	began  time.Time
	active float64 // seconds of earlier runs
	skip   map[string]bool
	pace   pace
}

// Run takes an operation and carries it out to its end, or until the context ends, or
// it is asked to stop. The operation says how far it came, in any case. The errors are
// [ErrPaused], [ErrCancelled], [store.ErrConflict] if another process is running it,
// and those of the store.
func (r *Runner) Run(ctx context.Context, o *Operation) error {
	if err := r.Begin(ctx, o); err != nil {
		return err
	}
	return r.Finish(ctx)
}

// Begin is the first part of Run: when it returns, the operation is stored, and this process is the one that carries it
// out.
func (r *Runner) Begin(ctx context.Context, o *Operation) error {
	r.op, r.me = o, pawl.NewID()
	r.pace, r.Refused, r.bad = pace{perSecond: o.Rate}, map[string]error{}, 0
	return r.take(ctx)
}

// Finish is the rest.
func (r *Runner) Finish(ctx context.Context) error {
	keep := context.WithoutCancel(ctx)                 // what was begun is finished
	r.began, r.active = time.Now(), r.op.ActiveSeconds // what it waited before does not count
	err := r.work(ctx, keep)
	switch {
	case err == nil:
		r.op.Status = Done
	case errors.Is(err, ErrCancelled):
		r.op.Status = Cancelled
	case errors.Is(err, errTaken):
		return err
	case errors.Is(err, ErrPaused):
		r.op.Status = Paused
	case context.Cause(ctx) != nil && errors.Is(err, context.Cause(ctx)):
		r.op.Status, err = Paused, fmt.Errorf("%w: %w", ErrPaused, err)
	default:
		r.op.Status, r.op.Error = Failed, store.Text(err.Error())
	}
	if r.op.Ended() {
		r.op.EndedAt = new(r.storeTime().UTC())
	}
	return errors.Join(err, r.end(keep))
}

// errTaken: another process has taken over the operation.
var errTaken = &store.Error{Op: "operation", Code: store.ErrConflict, Err: errors.New("another process is running it")}

// take makes this process the one that carries the operation out.
func (r *Runner) take(ctx context.Context) error {
	o := r.op
	if o.Ended() {
		return &store.Error{Op: "operation " + o.ID, Code: store.ErrConflict, Err: fmt.Errorf("it is %s", o.Status),
			Hint: "plan a new one"}
	}
	if o.version > 0 {
		if err := r.wait(ctx); err != nil {
			return err
		}
	}
	now, err := r.State.Clock(ctx)
	if err != nil {
		return err
	}
	o.Status, o.Runner, o.Asked, o.Error, o.EndedAt = Running, r.me, "", "", nil
	o.Runs++
	r.put, r.at = time.Now(), now
	o.HeartbeatAt = now.UTC()
	if _, err := r.Operations.put(ctx, o, r.Who); errors.Is(err, store.ErrConflict) {
		return errTaken
	} else if err != nil {
		return err
	}
	if o.Runs > 1 {
		if err := putAudit(ctx, r.State, "", AuditEntry{Who: r.Who, Action: "operations resume", Target: o.ID,
			Count: o.Planned, Result: AuditResult{o.Done, o.Refused}}); err != nil {
			return err
		}
	}
	return r.audit(ctx, o)
}

// wait checks whether the process that last carried the operation out is still alive.
func (r *Runner) wait(ctx context.Context) error {
	first := r.op.HeartbeatAt
	for {
		now, err := r.State.Clock(ctx)
		if err != nil {
			return err
		}
		o, err := r.Get(ctx, r.op.ID)
		if err != nil {
			return err
		}
		*r.op = *o
		switch {
		case o.Ended():
			return &store.Error{Op: "operation " + o.ID, Code: store.ErrConflict, Err: fmt.Errorf("it is %s", o.Status),
				Hint: "plan a new one"}
		case !o.Live(now):
			return nil
		case !o.HeartbeatAt.Equal(first):
			return errTaken
		}
		if err := store.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// storeTime is the time by the store's clock, as far as this process knows.
func (r *Runner) storeTime() time.Time { return r.at.Add(time.Since(r.put)) }

// save stores how far it came. It learns whether somebody asked to stop.
func (r *Runner) save(ctx context.Context) error {
	o := r.op
	o.ActiveSeconds = r.active + time.Since(r.began).Seconds()
	for {
		o.HeartbeatAt = r.storeTime().UTC()
		e, err := r.Operations.put(ctx, o, r.Who)
		if err == nil {
			r.put, r.at = time.Now(), e.At
			return asked(o.Asked)
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
		now, err := r.Get(ctx, o.ID)
		if err != nil {
			return err
		}
		if now.Runner != r.me || now.Status != Running {
			return errTaken
		}
		o.version, o.Asked = now.version, now.Asked
	}
}

func asked(what string) error {
	switch what {
	case Paused:
		return ErrPaused
	case Cancelled:
		return ErrCancelled
	}
	return nil
}

// isAsked reports whether an error is one of asked.
func isAsked(err error) bool { return errors.Is(err, ErrPaused) || errors.Is(err, ErrCancelled) }

// end stores the last state.
func (r *Runner) end(ctx context.Context) error {
	r.op.Asked = ""
	err := r.save(ctx)
	if isAsked(err) { // at the last moment
		r.op.Asked = ""
		err = r.save(ctx)
	}
	return errors.Join(err, r.audit(ctx, r.op))
}

func (r *Runner) work(ctx, keep context.Context) error {
	if err := r.prepare(); err != nil {
		return err
	}
	var again []string
	done := int64(0)
	err := r.beating(keep, func(ctx context.Context) (err error) {
		again, done, err = r.settle(ctx)
		return err
	})
	if err != nil {
		return err
	}
	r.op.Intent, r.op.Done = nil, r.op.Done+done
	if len(r.op.Filter.IDs) > 0 {
		r.op.Again = slices.Concat(again, r.op.Again) // others are listed again
		return r.givenIDs(ctx, keep)
	}
	return r.selected(ctx, keep)
}

// prepare makes of the operation what is done to a chunk.
func (r *Runner) prepare() error {
	o := r.op
	r.skip = map[string]bool{}
	for _, no := range o.Refusal {
		r.skip[no.ID] = true
	}
	if o.Edit != "" {
		patch, err := ParsePatch(o.Edit)
		if err != nil {
			return fmt.Errorf("the patch %q: %w", o.Edit, err)
		}
		r.edit = (&editor{r.Operations, o, r.Who, patch}).before
	}
	switch o.Kind {
	case KindReplay:
		r.each = func(ctx context.Context, ids []string) (map[string]error, error) {
			return r.Letters.Replay(ctx, o.To, ids...)
		}
		if o.KeepAttempts {
			return r.prepareTriage()
		}
	case KindDiscard:
		r.each = func(ctx context.Context, ids []string) (map[string]error, error) {
			return r.Letters.Purge(ctx, ids...)
		}
	case KindResolve, KindReopen:
		return r.prepareTriage()
	default:
		return &store.Error{Op: "operation " + o.ID, Code: store.ErrUnsupported,
			Err: fmt.Errorf("its kind is %q", o.Kind), Hint: "use a newer version of this program"}
	}
	return nil
}

// settle finds out what became of the chunk that was being done when the last
// run ended: what is still dead since then was not done.
func (r *Runner) settle(ctx context.Context) (again []string, done int64, err error) {
	for _, id := range r.op.Intent {
		rec, err := r.Look.Get(ctx, id)
		switch {
		case err == nil && rec.State == store.IsDead && rec.DeadAt.Before(r.op.Before) && !marked(r.op.Kind, &rec):
			again = append(again, id)
		case err == nil || errors.Is(err, store.ErrNotFound):
			done++
		default:
			return nil, 0, err
		}
	}
	return again, done, nil
}

func (r *Runner) size() int {
	most := chunk
	if r.edit != nil {
		most = editChunk
	}
	if r.op.Rate > 0 {
		return max(1, min(most, int(r.op.Rate/4)))
	}
	return most
}

// piece is a chunk, and where the ids that were given stand when it is in an
// intent.
type piece struct {
	ids, again []string
	next       int
}

// givenIDs does ids that were named one by one.
func (r *Runner) givenIDs(ctx, keep context.Context) error {
	o := r.op
	for len(o.Again) > 0 || o.Next < len(o.Filter.IDs) {
		p := piece{again: o.Again, next: o.Next}
		if n := min(len(o.Again), r.size()); n > 0 {
			p.ids, p.again = o.Again[:n], o.Again[n:]
		} else {
			p.next = min(o.Next+r.size(), len(o.Filter.IDs))
			p.ids = o.Filter.IDs[o.Next:p.next]
		}
		p.ids = slices.DeleteFunc(slices.Clone(p.ids), func(id string) bool { return r.skip[id] })
		if len(p.ids) == 0 {
			o.Again, o.Next = p.again, p.next
		} else if err := r.do(ctx, keep, p); err != nil {
			return err
		}
	}
	return nil
}

// selected does what the filter selects, in the order in which it died. What
// dies meanwhile is not touched, so that a replay ends even if all fails again.
func (r *Runner) selected(ctx, keep context.Context) error {
	f, err := r.op.Filter.filter()
	if err != nil {
		return err
	}
	if f.Until.IsZero() || r.op.Before.Before(f.Until) {
		f.Until = r.op.Before
	}
	f.Brief, f.Limit = true, 0
	next, stop := iter.Pull2(r.Letters.Dead(keep, f))
	defer stop()
	for {
		var p piece
		err := r.beating(keep, func(ctx context.Context) (err error) {
			p.ids, err = r.list(ctx, next)
			return err
		})
		if err != nil || len(p.ids) == 0 {
			return err
		}
		if err := r.do(ctx, keep, p); err != nil {
			return err
		}
	}
}

// list collects a chunk of what is listed.
func (r *Runner) list(ctx context.Context, next func() (store.Record, error, bool)) (ids []string, err error) {
	most := min(int64(r.size()), r.op.Planned-r.op.Done-r.op.Refused)
	for int64(len(ids)) < most {
		rec, err, more := next()
		if err = cmp.Or(err, context.Cause(ctx)); err != nil || !more {
			return ids, err
		}
		if !r.skip[rec.ID] {
			ids = append(ids, rec.ID)
		}
	}
	return ids, nil
}

// awaitRate waits until n more may be done.
func (r *Runner) awaitRate(ctx, keep context.Context, n int) error {
	for due := r.pace.next(time.Now(), n); ; {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if time.Since(r.put) > beatEvery {
			if err := r.save(keep); err != nil {
				return err
			}
		}
		left := time.Until(due)
		if left <= 0 {
			return nil
		}
		if err := store.Sleep(ctx, min(left, beatEvery/4)); err != nil {
			return err
		}
	}
}

// do does one chunk. What was given counts as taken from the very moment at which
// the intent has it: whatever ends the wait before leaves it to the next run.
func (r *Runner) do(ctx, keep context.Context, p piece) error {
	if err := r.awaitRate(ctx, keep, len(p.ids)); err != nil {
		return err
	}
	o := r.op
	was := piece{again: o.Again, next: o.Next}
	o.Intent, o.Again, o.Next = p.ids, p.again, p.next
	// Storing the intent, right before something is done, tells whether it may be done.
	if err := r.save(keep); err != nil {
		r.takeBack(was)
		return err
	}
	refused, left := map[string]error{}, p.ids
	if r.edit != nil {
		if err := r.beating(keep, collect(r.edit, left, refused)); err != nil {
			return err
		}
		// Whoever asks for a pause or an end now gets it after this chunk: letters that
		// are edited, and not replayed, would be edited again.
		if err := r.save(keep); err != nil && !isAsked(err) {
			r.takeBack(was)
			return err
		}
		left = slices.DeleteFunc(slices.Clone(left), func(id string) bool { return refused[id] != nil })
	}
	if err := r.beating(keep, collect(r.each, left, refused)); err != nil {
		return err // the intent stays: it is not known what became of it
	}
	return r.count(p.ids, refused)
}

func (r *Runner) takeBack(was piece) {
	r.op.Intent, r.op.Again, r.op.Next = nil, was.again, was.next
}

// collect makes a call of do that adds to what is refused.
func collect(do func(context.Context, []string) (map[string]error, error), ids []string,
	refused map[string]error) func(context.Context) error {
	return func(ctx context.Context) error {
		no, err := do(ctx, ids)
		maps.Copy(refused, no)
		return err
	}
}

// count notes what became of a chunk.
func (r *Runner) count(ids []string, refused map[string]error) error {
	o := r.op
	o.Intent = nil
	o.Done += int64(len(ids) - len(refused))
	o.Refused += int64(len(refused))
	for _, id := range ids {
		why := refused[id]
		if why == nil {
			continue
		}
		r.Refused[id] = why
		gone := errors.Is(why, store.ErrNotFound)
		if !gone {
			r.bad++
		}
		switch many := len(o.Refusal) >= maxRefusals; {
		case !many:
			o.Refusal = append(o.Refusal, refusal(id, why))
		case !gone: // an operation has to fit into a value
			o.Refusal = append(o.Refusal, Refusal{id, "…"})
		}
	}
	if r.Progress != nil {
		r.Progress(o.Done + o.Refused)
	}
	if r.bad > maxRefusals {
		return fmt.Errorf("%d were refused; find out why before you continue", r.bad)
	}
	return nil
}
