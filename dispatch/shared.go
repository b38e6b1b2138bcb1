package dispatch

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/dispatch/internal/limit"
	"github.com/pawl-dev/pawl/store"
)

// sharedRate is a rate for all processes over a store. Its entry in the state of the
// store is the theoretical arrival time of the generic cell rate algorithm (ITU-T
// I.371), by the store's clock. A process moves it ahead by the permits of a tenth of a
// second, and hands those out when their time has come. Each reservation takes the next
// place, so processes take turns.
type sharedRate struct {
	entries store.Shared
	key     string

	mu       sync.Mutex
	rate     float64
	burst    int
	grants   []grant   // one in use, and one to follow
	fetching time.Time // since when the store is asked; zero: it is not
	again    time.Time // when to ask it again
}

// grant is permits of one reservation.
type grant struct {
	left        int
	from, until time.Time // until is when they expire: unused permits are lost
}

const (
	share     = 100 * time.Millisecond // how much of a rate a process takes at once
	keepShare = time.Second            // how long it may use that
	inFront   = 10                     // reservations that may lie in front of one's own
	fetchTime = 5 * time.Second        // of a call of the store, at most
)

// take takes a permit; otherwise wait is how long until it is worth asking again.
// It does no I/O: what is missing is fetched in the background.
func (s *sharedRate) take() (wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	g := s.current(now)
	if g == nil {
		s.ask(now)
		if s.fetching.IsZero() {
			return max(s.again.Sub(now), time.Millisecond), false
		}
		return max(now.Sub(s.fetching)/4, time.Millisecond), false
	}
	if early := g.from.Sub(now); early > 0 {
		return early, false
	}
	if g.left--; g.left <= s.portion()/2 && len(s.grants) < 2 {
		s.ask(now)
	}
	return 0, true
}

// current is the grant in use, or nil.
func (s *sharedRate) current(now time.Time) *grant {
	for len(s.grants) > 0 {
		if g := &s.grants[0]; g.left > 0 && now.Before(g.until) {
			return g
		}
		s.grants = s.grants[1:]
	}
	return nil
}

// ask asks the store for permits, unless it is being asked.
func (s *sharedRate) ask(now time.Time) {
	if s.fetching.IsZero() && !now.Before(s.again) {
		s.fetching = now
		go s.fetch(s.rate, s.burst, s.portion())
	}
}

// giveBack takes a take back.
func (s *sharedRate) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.grants) > 0 {
		s.grants[0].left++
	}
}

// room is how many permits there will be within a while, as far as one can tell;
// and if there are none, how long until there may be.
func (s *sharedRate) room(while time.Duration) (n int, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	opens := s.again.Sub(now)
	if g := s.current(now); g != nil {
		if opens = g.from.Sub(now); opens <= while {
			return g.left, 0
		}
	}
	if opens > while {
		return 0, opens
	}
	return s.portion(), 0
}

func (s *sharedRate) set(rate float64, burst int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rate, s.burst, s.again, s.grants = rate, burst, time.Time{}, nil
}

func (s *sharedRate) perSecond() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rate
}

// portion is how many permits a process takes at once.
func (s *sharedRate) portion() int { return max(int(s.rate*share.Seconds()), 1) }

// fetch asks the store for n permits. While it can't be asked there are none.
func (s *sharedRate) fetch(rate float64, burst, n int) {
	ctx, cancel := context.WithTimeout(context.Background(), fetchTime)
	defer cancel()
	from, err := s.reserve(ctx, n, rate, max(burst, n))
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetching = time.Time{}
	switch {
	case s.rate != rate: // the rate was changed meanwhile
	case errors.Is(err, store.ErrConflict): // another process was quicker
		s.again = now.Add(time.Duration(rand.Float64() * float64(share) / 10))
	case err != nil:
		s.again = now.Add(keepShare)
	case from.IsZero(): // too many are in front
		s.again = now.Add(share)
	default:
		until := limit.Later(now, from).Add(max(keepShare, time.Duration(float64(time.Second)/rate)))
		s.grants = append(s.grants, grant{n, from, until})
	}
}

// reserve moves the entry ahead by n permits and returns when they begin to count;
// zero if they would too late.
func (s *sharedRate) reserve(ctx context.Context, n int, rate float64, burst int) (from time.Time, err error) {
	e, err := s.entries.GetState(ctx, s.key)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return from, err
	}
	now, err := s.entries.Clock(ctx)
	if err != nil {
		return from, err
	}
	here := time.Now()
	each := func(n int) time.Duration { return time.Duration(math.Ceil(float64(n) * float64(time.Second) / rate)) }
	most := inFront * max(share, each(n))
	next := now.Add(-each(burst))
	// A time that is further ahead than places can be is of another rate, or from
	// before the store's clock was set back.
	if at, err := strconv.ParseInt(string(e.Value), 10, 64); err == nil {
		if t := time.UnixMicro(at); t.After(next) && !t.After(now.Add(most+each(n))) {
			next = t
		}
	}
	// A permit counts from its place in the sequence on, and burst earlier.
	next = next.Add(each(n))
	early := max(next.Sub(now), 0)
	if early > most {
		return from, nil
	}
	_, err = s.entries.PutState(ctx, s.key, []byte(strconv.FormatInt(next.UnixMicro(), 10)), e.Version, "limit")
	return here.Add(early), err
}
