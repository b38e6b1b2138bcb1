package cron

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
)

// Keys of the state of a store. A name has no slash, so that of a pause is no schedule's.
const (
	setPrefix  = "schedules/set/"
	runPrefix  = "schedules/run/"
	pastPrefix = "schedules/past/"
	leaderKey  = "schedules/leader"
	standbyKey = "schedules/standby" // the last sign of a process that would take over
	pauseEnd   = "/pause"
)

// Config is what a scheduler may be told.
type Config struct {
	Owner  string       // names this process; empty: made up
	Logger *slog.Logger // nil: nothing is logged
	// Booked is called with each row that this process writes while it fires, such as that a tick fired.
	Booked func(name string, r Run)
}

// Scheduler keeps schedules in a store, and fires them while it runs and is elected. Make one with [New].
type Scheduler struct {
	store   store.Store
	entries store.Shared
	looker  store.Inspector
	Config
	began   atomic.Int64 // since when this process is there, in Unix milliseconds by the store's clock; 0: not known
	pending atomic.Int64 // the first tick that could not be dealt with, in Unix milliseconds; 0: there is none
}

// Overdue is how old the first tick is since which a schedule stands still, although this process fires; else 0.
func (s *Scheduler) Overdue() time.Duration {
	if at := s.pending.Load(); at != 0 {
		return max(0, time.Since(time.UnixMilli(at)))
	}
	return 0
}

// New returns a scheduler over a store, which has to keep a state, unique keys, and messages by id.
func New(s store.Store, c Config) (*Scheduler, error) {
	for _, need := range []store.Capability{store.CanState, store.CanUnique, store.CanLookup} {
		if !store.Can(s, need) {
			return nil, &store.Error{Op: "schedules", Code: store.ErrUnsupported,
				Err: fmt.Errorf("the store lacks %s, without which a tick could fire twice", need),
				Hint: "keep schedules in a second store, SQLite or PostgreSQL, and let the handler of their topic send on " +
					"what they send: docs/schedules.md, Stores"}
		}
	}
	entries, _ := store.As[store.Shared](s)
	looker, _ := store.As[store.Inspector](s)
	if entries == nil || looker == nil {
		return nil, &store.Error{Op: "schedules", Code: store.ErrUnsupported}
	}
	c.Owner = cmp.Or(c.Owner, pawl.NewID())
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Scheduler{store: s, entries: entries, looker: looker, Config: c}, nil
}

// Put writes a schedule, or replaces the one of that name. The same schedule again changes nothing. Ticks of new
// times count from now on. One that a file states is [store.ErrConflict].
func (s *Scheduler) Put(ctx context.Context, schedule Schedule) error {
	if err := s.ours(ctx, schedule.Name); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	schedule.Origin = cmp.Or(schedule.Origin, "go")
	_, err := s.write(ctx, schedule, "")
	return err
}

// write stores a schedule, and reports whether that changed anything.
func (s *Scheduler) write(ctx context.Context, schedule Schedule, file string) (changed bool, err error) {
	now, err := s.present(ctx)
	if err == nil {
		err = schedule.Validate(now)
	}
	if err != nil {
		return false, err
	}
	e, err := s.entries.GetState(ctx, setPrefix+schedule.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	next := stored{schedule, file, now.UnixMilli()}
	var there stored
	if len(e.Value) > 0 && json.Unmarshal(e.Value, &there) == nil {
		next.Created = there.Created
	}
	text, err := json.Marshal(next)
	if err != nil || bytes.Equal(e.Value, text) {
		return false, err
	}
	_, err = s.entries.PutState(ctx, setPrefix+schedule.Name, text, store.AnyVersion, s.Owner)
	there.File, next.File = "", ""
	was, _ := json.Marshal(there) // both have been JSON
	text, _ = json.Marshal(next)
	return err == nil && !bytes.Equal(was, text), err
}

// present is the store's time. The first one is when this process began: what is due since then is late, not missed.
func (s *Scheduler) present(ctx context.Context) (time.Time, error) {
	now, err := s.entries.Clock(ctx)
	if err == nil {
		s.began.CompareAndSwap(0, now.UnixMilli())
	}
	return now, err
}

// stored is the entry of a schedule. One that was removed and written again is another one.
type stored struct {
	Schedule
	File    string `json:"file,omitempty"` // that states it
	Created int64  `json:"created"`
}

// Remove removes a schedule; its history stays. [store.ErrNotFound] if there is none, [store.ErrConflict] if a file
// states it.
func (s *Scheduler) Remove(ctx context.Context, name string) error {
	err := s.ours(ctx, name)
	if err == nil {
		_, err = s.entries.PutState(ctx, setPrefix+name, nil, store.AnyVersion, s.Owner)
	}
	return err
}

// ours refuses a schedule that a file states.
func (s *Scheduler) ours(ctx context.Context, name string) error {
	l, err := s.get(ctx, name)
	if err == nil && l.def.Origin == OriginFile {
		err = &store.Error{Op: "schedule " + name, Code: store.ErrConflict,
			Err:  fmt.Errorf("the file %s states it", l.def.File),
			Hint: "change it there; `pawl schedules pause` and `pawl schedules run` work all the same"}
	}
	return err
}

// Change is what a declaration did to a schedule.
type Change struct {
	Name    string
	Removed bool // because it left the file; else it was written
}

// Declare makes the schedules of a file those of the store, and removes others that the same file stated before. It
// returns what changed, also together with an error.
func (s *Scheduler) Declare(ctx context.Context, file string, schedules []Schedule) ([]Change, error) {
	var changes []Change
	stated := map[string]bool{}
	for i := range schedules {
		next := schedules[i]
		next.Origin, stated[next.Name] = OriginFile, true
		changed, err := s.write(ctx, next, file)
		if err != nil {
			return changes, fmt.Errorf("schedule %s: %w", next.Name, err)
		}
		if changed {
			changes = append(changes, Change{Name: next.Name})
		}
	}
	all := map[string]*live{}
	if _, err := s.refresh(ctx, all, nil, 0); err != nil {
		return changes, err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if l := all[name]; l.times == nil || l.def.Origin != OriginFile || l.def.File != file || stated[name] {
			continue
		}
		if _, err := s.entries.PutState(ctx, setPrefix+name, nil, store.AnyVersion, s.Owner); err != nil {
			return changes, err
		}
		changes = append(changes, Change{name, true})
	}
	return changes, nil
}

// pause is the record of a pause from outside.
type pause struct {
	Paused bool  `json:"paused"`
	At     int64 `json:"at"` // when it began or ended
}

// Pause stops a schedule until [Scheduler.Resume], whatever becomes of it meanwhile. Its ticks are not missed.
func (s *Scheduler) Pause(ctx context.Context, name string) error { return s.setPause(ctx, name, true) }

// Resume ends a pause, also one that the schedule was written with; [store.ErrConflict] if that is what a file states.
func (s *Scheduler) Resume(ctx context.Context, name string) error {
	l, err := s.get(ctx, name)
	if err == nil && l.def.Paused {
		if err = s.ours(ctx, name); err == nil {
			l.def.Paused = false
			_, err = s.write(ctx, l.def.Schedule, "")
		}
	}
	if err != nil {
		return err
	}
	return s.setPause(ctx, name, false)
}

func (s *Scheduler) setPause(ctx context.Context, name string, paused bool) error {
	if _, err := s.get(ctx, name); err != nil {
		return err
	}
	now, err := s.entries.Clock(ctx)
	if err != nil {
		return err
	}
	text, err := json.Marshal(pause{paused, now.Unix()})
	if err == nil {
		_, err = s.entries.PutState(ctx, setPrefix+name+pauseEnd, text, store.AnyVersion, s.Owner)
	}
	return err
}

// RunNow sends a message with its tick now, and returns its id. It moves no schedule, and does not mind a pause.
func (s *Scheduler) RunNow(ctx context.Context, name string) (id string, err error) {
	return s.RunAt(ctx, name, time.Time{})
}

// RunAt is RunNow with another tick, in whole seconds. The message waits for one that is to come.
func (s *Scheduler) RunAt(ctx context.Context, name string, tick time.Time) (id string, err error) {
	l, err := s.get(ctx, name)
	if err != nil {
		return "", err
	}
	now, err := s.entries.Clock(ctx)
	if err != nil {
		return "", err
	}
	if tick.IsZero() {
		tick = now
	}
	tick = tick.Truncate(time.Second)
	m := l.def.message(l.times, tick.In(l.times.zone))
	m.ID, m.Unique, m.Delay = pawl.NewID(), pawl.Unique{}, max(0, tick.Sub(now)) // each run is a message
	if m.Delay > pawl.MaxDelay {
		return "", pawl.Invalid("at", "is further ahead than a message can be delayed, which is %v", pawl.MaxDelay)
	}
	if _, err := s.append(ctx, m); err != nil {
		return "", err
	}
	return m.ID, s.addRows(ctx, name, row{Tick: tick.Unix(), At: now.UnixMilli(), Action: ActionManual, ID: m.ID})
}

// addRows adds rows to a record that the scheduler that fires writes, too.
func (s *Scheduler) addRows(ctx context.Context, name string, rows ...row) error {
	for {
		l, err := s.get(ctx, name)
		if err != nil {
			return err
		}
		for _, w := range rows {
			l.record.add(w)
		}
		if err = s.save(ctx, l); !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
}

// append stores the message of a tick, and reports whether it was there already, which is as good.
func (s *Scheduler) append(ctx context.Context, m pawl.Message) (there bool, err error) {
	receipts, err := s.store.Append(ctx, store.NewBatch(m))
	if err == nil {
		err = receipts[0].Err
	}
	if err != nil {
		return false, err
	}
	if of := receipts[0].DuplicateOf; of != "" && of != m.ID {
		s.Logger.Warn("schedules: the message of a tick was sent under another id", "id", m.ID, "duplicate_of", of)
	}
	return receipts[0].DuplicateOf != "", nil
}

// List returns the schedules by name, with pauses from outside as Paused.
func (s *Scheduler) List(ctx context.Context) ([]Schedule, error) {
	all := map[string]*live{}
	if _, err := s.refresh(ctx, all, nil, 0); err != nil {
		return nil, err
	}
	list := []Schedule{}
	for _, l := range all {
		if l.times != nil {
			l.def.Paused = l.paused()
			list = append(list, l.def.Schedule)
		}
	}
	slices.SortFunc(list, func(a, b Schedule) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// get reads a schedule and its record.
func (s *Scheduler) get(ctx context.Context, name string) (*live, error) {
	l := &live{}
	if err := pawl.ValidTopic(name); err != nil {
		return nil, &store.Error{Op: "schedule " + name, Code: store.ErrNotFound}
	}
	e, err := s.entries.GetState(ctx, setPrefix+name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if l.take(e); l.times == nil {
		return nil, &store.Error{Op: "schedule " + name, Code: store.ErrNotFound, Hint: "list them: `pawl schedules ls`"}
	}
	e, err = s.entries.GetState(ctx, setPrefix+name+pauseEnd)
	if err == nil {
		l.takePause(e)
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	return l, s.load(ctx, l)
}

// load reads the record of a schedule.
func (s *Scheduler) load(ctx context.Context, l *live) error {
	e, err := s.entries.GetState(ctx, runPrefix+l.def.Name)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	l.takeRecord(e)
	return nil
}

// refresh takes what was written after a version into all, and returns the newest. What before has of the same version
// is taken from there.
func (s *Scheduler) refresh(ctx context.Context, all, before map[string]*live, after int64) (int64, error) {
	for e, err := range s.entries.ListState(ctx, setPrefix, after) {
		if err != nil {
			return after, err
		}
		name, isPause := strings.CutSuffix(strings.TrimPrefix(e.Key, setPrefix), pauseEnd)
		l := all[name]
		if l == nil {
			if l = before[name]; l == nil {
				l = &live{}
			}
			all[name] = l
		}
		if isPause {
			l.takePause(e)
		} else {
			l.take(e)
		}
		after = max(after, e.Version)
	}
	return after, nil
}

// Status is a schedule and where it stands.
type Status struct {
	Schedule
	Next     time.Time // the next tick; zero while it is paused
	LastTick time.Time // zero: there was none
	LastAt   time.Time
	// LastID is the message of the last tick; empty: it had none.
	LastID string
	Missed int64 // ticks that were missed and not made up
	// Overdue is how long ago the first tick was due that no process has dealt with; 0: there is none.
	Overdue time.Duration
}

// Status returns a schedule, with a pause from outside as Paused.
func (s *Scheduler) Status(ctx context.Context, name string) (Status, error) {
	l, err := s.get(ctx, name)
	if err != nil {
		return Status{}, err
	}
	now, err := s.entries.Clock(ctx)
	return l.status(now), err
}

// Statuses returns all schedules by name, as Status does each.
func (s *Scheduler) Statuses(ctx context.Context) ([]Status, error) {
	all := map[string]*live{}
	_, err := s.refresh(ctx, all, nil, 0)
	if err == nil {
		err = s.readRecords(ctx, all)
	}
	if err != nil {
		return nil, err
	}
	now, err := s.entries.Clock(ctx)
	list := []Status{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name].times != nil {
			list = append(list, all[name].status(now))
		}
	}
	return list, err
}

// readRecords reads the records of all schedules at once.
func (s *Scheduler) readRecords(ctx context.Context, all map[string]*live) error {
	for e, err := range s.entries.ListState(ctx, runPrefix, 0) {
		if err != nil {
			return err
		}
		if l := all[e.Key[len(runPrefix):]]; l != nil {
			l.takeRecord(e)
		}
	}
	return nil
}
