package operate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// The kinds of operations.
const (
	KindReplay  = "replay"
	KindDiscard = "discard"
	KindResolve = "resolve"
	KindReopen  = "reopen"
)

// The states of an operation.
const (
	Running   = "running"
	Paused    = "paused"
	Cancelled = "cancelled"
	Done      = "done"
	Failed    = "failed"
)

// OperationStatuses are those that an operation can have.
func OperationStatuses() []string { return []string{Running, Paused, Cancelled, Done, Failed} }

const (
	operationPrefix = "operation/"
	// An operation fits into one value of the state.
	maxGiven = store.MaxStateValue / 4 // bytes of ids
	maxWhy   = 160
	maxFrom  = 10 // topics that it names
	// beatEvery is how often the process that runs an operation reports that it is
	// alive, and checks whether it was asked to stop.
	beatEvery = time.Second
	// deadAfter is how long after its last report another process may take over.
	deadAfter = 5 * time.Second
)

// Operation is a planned change of many dead letters. It is kept in the state of
// the store, as JSON, so that it can be followed, stopped and resumed from any
// process. Everything that another process must know to go on is in it.
type Operation struct {
	ID        string     `json:"id"`
	Kind      string     `json:"kind"`
	Status    string     `json:"status"`
	Who       string     `json:"who"`
	Via       string     `json:"via,omitempty"` // as in the audit
	CreatedAt time.Time  `json:"created_at"`
	EndedAt   *time.Time `json:"ended_at"`
	Filter    Filter     `json:"filter"`
	To        string     `json:"to,omitempty"`
	From      []string   `json:"from,omitempty"` // the topics of what was planned, if they are few
	Rate      float64    `json:"rate_per_second,omitempty"`
	Edit      string     `json:"edit,omitempty"`
	Reason    string     `json:"reason,omitempty"`
	// KeepAttempts: a replay counts on from the attempts that there were.
	KeepAttempts bool  `json:"keep_attempts,omitempty"`
	Planned      int64 `json:"planned"`
	// Before bounds what it touches: what dies then or later is left alone, so
	// that nothing is replayed twice.
	Before  time.Time `json:"before"`
	Done    int64     `json:"done"`
	Refused int64     `json:"refused"`
	Refusal []Refusal `json:"refusals"`
	Error   string    `json:"error,omitempty"` // why it failed
	// ActiveSeconds is how long it was carried out, pauses left out.
	ActiveSeconds float64 `json:"active_seconds"`
	Runs          int     `json:"runs"`
	// Intent is the ids that are being done: after a crash those of them that are
	// still dead were not.
	Intent []string `json:"intent,omitempty"`
	// Next is how many of the ids that were given have been in an intent; those of
	// them that were not done then are in Again, and come first.
	Next  int      `json:"next,omitempty"`
	Again []string `json:"again,omitempty"`
	// Asked is a request to the process that runs it: pause or cancel.
	Asked       string    `json:"asked,omitempty"`
	Runner      string    `json:"runner,omitempty"`
	HeartbeatAt time.Time `json:"heartbeat_at"`

	version int64
}

// Refusal is an id that was refused, as JSON.
type Refusal struct {
	ID  string `json:"id"`
	Why string `json:"why"`
}

// refusal remembers why an id was refused, in short.
func refusal(id string, why error) Refusal {
	text := why.Error()
	if len(text) > maxWhy {
		text = strings.ToValidUTF8(text[:maxWhy], "") + "…"
	}
	return Refusal{id, text}
}

// Ended reports whether there is nothing to resume.
func (o *Operation) Ended() bool { return o.Status == Done || o.Status == Cancelled }

// Live reports whether some process carries it out, at a time of the store's clock.
func (o *Operation) Live(now time.Time) bool {
	return o.Status == Running && now.Sub(o.HeartbeatAt) < deadAfter
}

// Operations keeps operations in a store.
type Operations struct {
	Store   store.Store
	State   store.Shared
	Letters store.DeadLetters
	Look    store.Inspector
}

// OpenOperations finds what operations need of a store.
func OpenOperations(s store.Store) (*Operations, error) {
	o := &Operations{Store: s}
	var state, letters, look bool
	o.State, state = store.As[store.Shared](s)
	o.Letters, letters = store.As[store.DeadLetters](s)
	o.Look, look = store.As[store.Inspector](s)
	if !state || !letters || !look {
		return nil, &store.Error{Op: "operations", Code: store.ErrUnsupported,
			Err: fmt.Errorf("they need %s, %s and %s", store.CanState, store.CanDeadLetters, store.CanLookup)}
	}
	return o, nil
}

// Plan makes an operation of a plan. It is stored when it is first carried out.
func (os *Operations) Plan(ctx context.Context, kind, who string, sel Selection, p *Plan) (*Operation, error) {
	now, err := os.State.Clock(ctx)
	if err != nil {
		return nil, err
	}
	given := 0
	for _, id := range sel.IDs {
		given += len(id) + 3
	}
	if given > maxGiven {
		return nil, &store.Error{Op: "plan", Code: store.ErrTooLarge,
			Err:  fmt.Errorf("%d ids are too many for one operation", len(sel.IDs)),
			Hint: "select by flags, or split the ids"}
	}
	missing := p.missing
	if p.Count > 0 { // more than it remembers are refused when it gets there
		missing = missing[:min(len(missing), maxRefusals)]
	}
	o := &Operation{ID: pawl.NewID(), Kind: kind, Status: Paused, Who: who, Via: via(ctx), CreatedAt: now.UTC(),
		Filter:  formFilter(sel),
		Planned: p.Count + int64(len(p.missing)), Before: now.UTC(), Refused: int64(len(missing)), Refusal: []Refusal{}}
	for i := 0; i < len(p.Topics) && len(p.Topics) <= maxFrom; i++ {
		o.From = append(o.From, p.Topics[i].Topic)
	}
	for _, id := range missing {
		o.Refusal = append(o.Refusal, refusal(id, MissingLetter(id)))
	}
	if p.Count > 0 {
		o.Before = p.latest.Add(time.Microsecond).UTC()
	}
	return o, nil
}

// MissingLetter is the error of an id that is no dead letter's.
func MissingLetter(id string) error {
	return &store.Error{Op: "dead letter " + id, Code: store.ErrNotFound}
}

// Get returns an operation, [store.ErrNotFound] if there is none.
func (os *Operations) Get(ctx context.Context, id string) (*Operation, error) {
	e, err := os.State.GetState(ctx, operationPrefix+id)
	if errors.Is(err, store.ErrNotFound) {
		err = &store.Error{Op: "operation " + id, Code: store.ErrNotFound, Hint: "look with `pawl operations ls`"}
	}
	if err != nil {
		return nil, err
	}
	return readOperation(&e)
}

func readOperation(e *store.Entry) (*Operation, error) {
	o, err := read[Operation](e)
	if err != nil {
		return nil, err
	}
	o.version, o.ID = e.Version, cmp.Or(o.ID, strings.TrimPrefix(e.Key, operationPrefix))
	return o, nil
}

// List returns a part of the operations that are to be taken, the latest first, without what only
// Get is asked for, and the time by the store's clock.
func (os *Operations) List(ctx context.Context, part Part, take func(*Operation) bool) (Page[*Operation], time.Time,
	error) {
	part.Newest = true
	found, err := PageOf(ctx, os.State, operationPrefix, part, func(e *store.Entry) (*Operation, bool, error) {
		o, err := readOperation(e)
		if err != nil || !take(o) {
			return nil, false, err
		}
		o.Intent, o.Refusal, o.Filter.IDs = nil, nil, nil
		return o, true, nil
	})
	if err != nil {
		return found, time.Time{}, err
	}
	slices.SortFunc(found.Items, func(a, b *Operation) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	now, err := os.State.Clock(ctx)
	return found, now, err
}

// put stores o if nobody has changed it.
func (os *Operations) put(ctx context.Context, o *Operation, who string) (store.Entry, error) {
	b, err := json.Marshal(o)
	if err != nil {
		return store.Entry{}, err
	}
	e, err := os.State.PutState(ctx, operationPrefix+o.ID, b, o.version, who)
	if err == nil {
		o.version = e.Version
	}
	return e, err
}

// Ask asks the process that runs an operation to pause or cancel it, and waits for
// that. If no process runs it, it is paused or cancelled at once.
func (os *Operations) Ask(ctx context.Context, id, to, who string) (*Operation, error) {
	for began := time.Now(); ; {
		o, err := os.Get(ctx, id)
		if err != nil {
			return nil, err
		}
		now, err := os.State.Clock(ctx)
		if err != nil {
			return nil, err
		}
		switch {
		case o.Status == to:
			return o, nil
		case o.Ended():
			return nil, &store.Error{Op: "operation " + id, Code: store.ErrConflict,
				Err: fmt.Errorf("it is %s", o.Status), Hint: "it has ended: there is nothing to stop"}
		case !o.Live(now):
			o.Status, o.Asked = to, ""
			if to == Cancelled {
				o.EndedAt = new(now.UTC())
			}
			if _, err = os.put(ctx, o, who); err == nil {
				return o, nil
			}
		case o.Asked != to:
			o.Asked = to
			_, err = os.put(ctx, o, who)
		}
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return nil, err
		}
		if time.Since(began) > 4*deadAfter {
			return nil, &store.Error{Op: "operation " + id, Code: store.ErrUnavailable,
				Err: errors.New("the process that runs it has been told, but has not answered yet")}
		}
		if err := store.Sleep(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// beating calls do, which may take long, and meanwhile reports that the operation is
// being carried out. The context of do ends when another process has taken the
// operation. Do only reads the operation.
func (r *Runner) beating(keep context.Context, do func(context.Context) error) error {
	ctx, stop := context.WithCancelCause(keep)
	defer stop(nil)
	ended, lost := make(chan struct{}), make(chan error, 1)
	go func() {
		err := r.beat(keep, ended)
		stop(err)
		lost <- err
	}()
	err := do(ctx)
	close(ended)
	if taken := <-lost; taken != nil {
		return taken
	}
	return err
}

// beat sends these reports until ended is closed; its error is that another process has
// the operation. Other errors, and requests to stop, are left to the next save, which
// precedes any replay.
func (r *Runner) beat(keep context.Context, ended <-chan struct{}) error {
	for left := beatEvery - time.Since(r.put); ; left = beatEvery {
		timer := time.NewTimer(left)
		select {
		case <-ended:
			timer.Stop()
			return nil
		case <-timer.C:
		}
		if err := r.save(keep); errors.Is(err, errTaken) {
			return err
		}
	}
}

// pace spreads work evenly. What was missed is made up for within a quarter of a
// second, and no more: there are no bursts.
type pace struct {
	perSecond float64
	due       time.Time
}

// next is when n more may be done.
func (p *pace) next(now time.Time, n int) time.Time {
	if p.perSecond <= 0 {
		return now
	}
	if p.due.IsZero() {
		p.due = now
	} else if floor := now.Add(-time.Second / 4); p.due.Before(floor) {
		p.due = floor
	}
	p.due = p.due.Add(time.Duration(float64(n) / p.perSecond * float64(time.Second)))
	return p.due
}

// prepareTriage is prepare of what only some stores can do.
func (r *Runner) prepareTriage() error {
	o := r.op
	if err := store.Need(r.Store, store.CanResolve, "operation "+o.ID); err != nil {
		return err
	}
	t, _ := store.As[store.DeadLetters](r.Store)
	r.each = func(ctx context.Context, ids []string) (map[string]error, error) {
		switch o.Kind {
		case KindResolve:
			return t.Resolve(ctx, o.Who, o.Reason, ids...)
		case KindReopen:
			return t.Reopen(ctx, ids...)
		default:
			return t.ReplayKeeping(ctx, o.To, ids...)
		}
	}
	return nil
}

// marked reports whether a letter has got the mark that an operation gives, or lost the
// one that it takes away.
func marked(kind string, r *store.Record) bool {
	return kind == KindResolve && r.Resolved != nil || kind == KindReopen && r.Resolved == nil
}
