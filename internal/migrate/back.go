package migrate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/mirror"
)

const (
	carryCount = 500
	// fewLeft is how many messages may be left to carry when the topic is closed.
	fewLeft = 2_000
)

// RollBack puts the old store in charge again, with everything that is not done in the
// new one: carried back in the order of each key, under the same ids. It goes on from
// wherever an earlier one ended. Afterwards the topic is copied again.
func (t *Traffic) RollBack(ctx context.Context, topic string, m Moving) (*Moved, error) {
	p, done, finish, err := t.begin(ctx, topic)
	if err != nil {
		return nil, err
	}
	// First of all: while it is away nothing can be carried.
	s, err := figures(ctx, t.to, p.InMirrored())
	if err != nil {
		return finish(fmt.Errorf("the new store cannot be reached, and nothing was changed: %w", err))
	}
	if err := t.reopen(ctx, p, m.DryRun); err != nil {
		return finish(err)
	}
	if p.Stage == mirror.Dual || m.DryRun {
		if p.Stage != mirror.Dual {
			done.Carried, done.Letters = unfinished(s), s.Dead
		}
		return finish(nil) // the old store is in charge
	}
	end, err := t.attend(ctx, topic, store.AnyVersion)
	if err != nil {
		return finish(err)
	}
	if p.Stage != mirror.Returning {
		err = t.put(ctx, p, mirror.Returning)
	}
	if err == nil {
		err = t.bringBack(ctx, p, m, done)
		err = errors.Join(err, t.audit(ctx, "roll-back", p, done.Carried,
			fmt.Sprintf("dead letters=%d", done.Letters), m.Reason))
	}
	end(true) // after an error or an interrupt, the user decides what comes next
	return finish(err)
}

// bringBack carries everything that is not done back to the old store, and puts that in charge.
func (t *Traffic) bringBack(ctx context.Context, p *mirror.Plan, m Moving, done *Moved) error {
	err := t.handBack(ctx, p)
	if err == nil && store.Sleep(ctx, settleTime) != nil {
		err = context.Cause(ctx)
	}
	for closed := false; err == nil && !closed; {
		if err = t.carry(ctx, p, m, done, fewLeft, time.Time{}); err == nil {
			err = t.letters(ctx, p, done)
		}
		if err == nil {
			closed, err = t.comeBack(ctx, p, m, done)
		}
	}
	return err
}

// comeBack closes the topic, carries the rest, and puts the old store in charge; false
// if there was not enough time for that.
func (t *Traffic) comeBack(ctx context.Context, p *mirror.Plan, m Moving, done *Moved) (bool, error) {
	began, err := t.shut(ctx, p)
	if err != nil {
		return false, err
	}
	if err = t.carry(ctx, p, m, done, 0, began.Add(closedFor-openBefore)); err == nil {
		err = t.letters(ctx, p, done) // of what could not be carried just now
	}
	done.ClosedSeconds += time.Since(began).Seconds()
	switch {
	case errors.Is(err, errTooLate):
		t.tell("not all could be carried in time; appends go on, and it is tried again")
		return false, t.put(ctx, p, mirror.Returning)
	case err != nil:
		return false, t.giveUp(ctx, p, err)
	}
	if err = t.inTime(ctx, p); err == nil {
		err = t.put(ctx, p, mirror.Dual, func(p *mirror.Plan) { p.Position = nil })
	}
	return err == nil, err
}

// errTooLate says that a topic must not be closed for longer.
var errTooLate = errors.New("there was not enough time")

// carry carries until no more than few messages are left in the new store.
func (t *Traffic) carry(ctx context.Context, p *mirror.Plan, m Moving, done *Moved, few int64, until time.Time) error {
	moved := time.Now()
	for {
		n, err := mirror.Carry(ctx, t.To, t.From, p.InMirrored(), p.Topic, carryCount, shadowOwner)
		done.Carried += int64(n)
		if n > 0 {
			moved = time.Now()
		}
		if err != nil && (!errors.Is(err, store.ErrUnavailable) || ctx.Err() != nil) {
			return err
		}
		s, err := figures(ctx, t.to, p.InMirrored())
		if err != nil {
			return err
		}
		left := unfinished(s)
		switch {
		case left <= few && (few == 0 || s.Delayed+s.Leased == 0):
			return nil
		case !until.IsZero() && time.Now().After(until):
			return errTooLate
		case m.Timeout > 0 && time.Since(moved) > m.Timeout:
			return unfinishedError(p,
				"%d messages are left in the new store, %d of them leased and %d delayed; they follow when they can be claimed",
				left, s.Leased, s.Delayed)
		}
		if n > 0 {
			continue
		}
		if store.Sleep(ctx, moveLook) != nil {
			return errors.Join(unfinishedError(p, "%d messages are left in the new store", left), context.Cause(ctx))
		}
	}
}

// letters moves the dead letters of the new store to the old one, but for those that it
// refuses: they stay where they are.
func (t *Traffic) letters(ctx context.Context, p *mirror.Plan, done *Moved) error {
	there, ok1 := store.As[store.DeadLetters](t.To)
	here, ok2 := store.As[store.DeadLetters](t.From)
	if !ok1 || !ok2 {
		return nil
	}
	for stay := map[string]bool{}; ; {
		done.Refused = int64(len(stay))
		letters, err := deadOf(ctx, there, p, stay)
		if err != nil || len(letters) == 0 {
			return err
		}
		refused, err := buryAll(ctx, here, letters)
		if err != nil {
			return err
		}
		var ids []string
		for i := range letters {
			id, why := letters[i].ID, refused[letters[i].ID]
			switch {
			case why == nil || errors.Is(why, store.ErrConflict) && t.arrived(ctx, id):
				ids = append(ids, id)
			case store.ForGood(why):
				t.tell("dead letter %s stays in the new store: %v", id, why)
				stay[id] = true
			default:
				err = errors.Join(err, fmt.Errorf("dead letter %s stays in the new store: %w", id, why))
			}
		}
		if len(ids) > 0 {
			if _, purging := there.Purge(ctx, ids...); purging != nil {
				return errors.Join(err, purging)
			}
		}
		done.Letters += int64(len(ids))
		if err != nil {
			return err
		}
	}
}

// deadOf reads dead letters of the new store, as many as one call takes, but for those
// that stay there.
func deadOf(ctx context.Context, there store.DeadLetters, p *mirror.Plan,
	stay map[string]bool) ([]store.Record, error) {
	var letters []store.Record
	size := 0
	for r, err := range there.Dead(ctx, store.DeadFilter{Topic: p.InMirrored(), Limit: carryCount + len(stay)}) {
		if err != nil {
			return nil, err
		}
		if stay[r.ID] {
			continue
		}
		if size += r.Size(); len(letters) > 0 && size > store.MaxBatchBytes {
			break
		}
		r.Topic = p.Topic
		letters = append(letters, r)
	}
	return letters, nil
}

// buryAll buries letters; where the store takes none because of one of them, one by one.
func buryAll(ctx context.Context, here store.DeadLetters, letters []store.Record) (map[string]error, error) {
	refused, err := here.Bury(ctx, letters...)
	if err == nil || !store.ForGood(err) {
		return refused, err
	}
	refused = map[string]error{}
	for i := range letters {
		one, err := here.Bury(ctx, letters[i])
		if err != nil && !store.ForGood(err) {
			return nil, err
		}
		if err = errors.Join(err, one[letters[i].ID]); err != nil {
			refused[letters[i].ID] = err
		}
	}
	return refused, nil
}

// arrived reports whether the old store has a message: an earlier attempt brought it, and
// did not come so far as to remove it from the new one.
func (t *Traffic) arrived(ctx context.Context, id string) bool {
	look, _ := store.As[store.Inspector](t.From)
	_, err := look.Get(ctx, id)
	return err == nil
}
