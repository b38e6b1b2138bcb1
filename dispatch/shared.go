package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/internal/limit"
	"github.com/pawl-dev/pawl/store"
)

// sharedRate is a rate by key for all processes over a store; a rate for all has the one
// key "". In one call it asks the store for the permits of all keys that messages wait for.
// It takes those for calls that may begin soon, and leaves later ones to other processes.
type sharedRate struct {
	store store.Shared
	name  string
	keyed bool
	moved func() // something may begin that could not

	mu      sync.Mutex
	rate    float64
	burst   int
	keys    map[string]*sharedKey
	asked   map[string]bool          // keys to ask for
	holds   map[string]time.Duration // holds to tell
	asking  bool                     // the store is asked, or about to be
	sweepAt int
}

// sharedKey is the state of a key, as far as it is known.
type sharedKey struct {
	left        int
	from, until time.Time // when the permits that are left begin and cease to count
	again       time.Time // when to ask the store again
}

const (
	share     = 100 * time.Millisecond // how much of a rate a process takes at once
	keepShare = time.Second            // how long it may use that
	fetchTime = 5 * time.Second        // of a call of the store, at most
	maxHold   = time.Hour              // for which a downstream may close its key by what it answers
	keySweep  = 1024                   // how many keys there may be before idle ones are looked for
)

func newSharedRate(c *LimitConfig, moved func()) *sharedRate {
	s := &sharedRate{
		store: c.Shared, name: c.Name, keyed: c.By != nil, moved: moved,
		asked: map[string]bool{}, holds: map[string]time.Duration{}, sweepAt: keySweep,
	}
	s.set(c.Rate, c.Burst)
	return s
}

// set changes the rate. One for all is spent in portions: its burst is one of them at least.
func (s *sharedRate) set(rate float64, burst int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rate, s.burst, s.keys = rate, burst, map[string]*sharedKey{}
	if burst == 0 || !s.keyed {
		s.burst = max(burst, s.portion())
	}
}

// checkShared refuses rates that no store can keep.
func checkShared(rate float64, burst int) error {
	if rate == 0 {
		return errors.New("shared by all processes, but there is no rate")
	}
	if float64(max(burst, 1))/rate > pawl.MaxDelay.Seconds()/2 {
		return fmt.Errorf("a burst of %d at %v a second takes too long", burst, rate)
	}
	return nil
}

// portion is how many permits a process takes at once. The caller holds mu.
func (s *sharedRate) portion() int { return max(int(s.rate*share.Seconds()), 1) }

// at is the state of a key. The caller holds mu.
func (s *sharedRate) at(key string, now time.Time) *sharedKey {
	k := s.keys[key]
	if k != nil {
		return k
	}
	if len(s.keys) >= s.sweepAt {
		maps.DeleteFunc(s.keys, func(of string, k *sharedKey) bool {
			return !s.asked[of] && now.After(k.again) && !k.has(now)
		})
		s.sweepAt = max(2*len(s.keys), keySweep)
	}
	k = &sharedKey{}
	s.keys[key] = k
	return k
}

// has reports whether permits are left.
func (k *sharedKey) has(now time.Time) bool { return k.left > 0 && now.Before(k.until) }

// take takes a permit; otherwise wait is how long until it is worth asking again, 0 for
// when the store has answered. It does no I/O.
func (s *sharedRate) take(key string) (wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	k := s.at(key, now)
	if k.has(now) {
		if early := k.from.Sub(now); early > 0 {
			return early, false
		}
		k.left--
		return 0, true
	}
	if early := k.again.Sub(now); early > 0 {
		return early, false
	}
	s.asked[key] = true
	s.ask()
	return 0, false
}

// giveBack takes a take back.
func (s *sharedRate) giveBack(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at(key, time.Now()).left++
}

// room is how many permits of a rate for all there will be within a while, as far as one
// can tell; and if there are none, how long until there may be.
func (s *sharedRate) room(while time.Duration) (n int, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	k := s.at("", now)
	n, wait = s.portion(), k.again.Sub(now)
	if k.has(now) {
		n, wait = k.left, k.from.Sub(now)
	}
	if wait > while {
		return 0, wait
	}
	return n, 0
}

// hold lets nothing of a key begin for a while.
func (s *sharedRate) hold(key string, length time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	k := s.at(key, now)
	k.left, k.again = 0, limit.Later(k.again, now.Add(length))
	s.holds[key] = max(s.holds[key], length)
	s.ask()
}

// ask sees to it that the store is asked. The caller holds mu.
func (s *sharedRate) ask() {
	if !s.asking {
		s.asking = true
		go s.fetch()
	}
}

// fetch asks the store until there is nothing to ask.
func (s *sharedRate) fetch() {
	for {
		keys, paces := s.next()
		if len(keys) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), fetchTime)
		answers, err := s.store.Reserve(ctx, paces...)
		if errors.Is(err, store.ErrUnsupported) {
			answers, err = reserveByEntries(ctx, s.store, paces)
		}
		cancel()
		s.answered(keys, paces, answers, err)
		s.moved()
	}
}

// next returns the paces of one call: holds first, because they affect the permits.
func (s *sharedRate) next() (keys []string, paces []store.Pace) {
	s.mu.Lock()
	defer s.mu.Unlock()
	every := time.Duration(math.Ceil(1e6/s.rate)) * time.Microsecond
	n := min(s.portion(), s.burst)
	for key, length := range s.holds {
		keys = append(keys, key)
		paces = append(paces, store.Pace{Key: s.stored(key), Every: every, Burst: s.burst, Hold: length})
	}
	clear(s.holds)
	if len(keys) == 0 {
		keys = slices.Collect(maps.Keys(s.asked))
		for _, key := range keys {
			paces = append(paces, store.Pace{Key: s.stored(key), Every: every, Burst: s.burst, N: n, Within: heldFor})
		}
	}
	if len(keys) > store.MaxBatch { // the others when they ask again
		keys, paces = keys[:store.MaxBatch], paces[:store.MaxBatch]
	}
	s.asking = len(keys) > 0
	return keys, paces
}

// stored is the name of a key in the store. A rate for all has one for each rate, so that a
// new rate counts at once.
func (s *sharedRate) stored(key string) string {
	if !s.keyed {
		key = strconv.FormatFloat(s.rate, 'g', -1, 64)
	}
	if name := s.name + "/" + key; len(entryPrefix+name) <= store.MaxStateKey {
		return name
	}
	sum := sha256.Sum256([]byte(key))
	return s.name + "/" + hex.EncodeToString(sum[:])
}

// answered takes in the answer of the store. While the store does not answer, nothing begins.
func (s *sharedRate) answered(keys []string, paces []store.Pace, answers []store.Paced, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for i, key := range keys {
		k := s.at(key, now)
		if paces[i].N > 0 {
			delete(s.asked, key)
		}
		switch {
		case err != nil:
			k.again = limit.Later(k.again, now.Add(keepShare))
		case answers[i].Taken && paces[i].N > 0:
			if k.again.After(now) {
				continue // held meanwhile
			}
			k.left, k.from = paces[i].N, now.Add(answers[i].Wait)
			k.until = k.from.Add(keepShare)
		default:
			k.again = limit.Later(k.again, now.Add(answers[i].Wait))
		}
	}
}

// entryPrefix begins the names of the entries of rates.
const entryPrefix = "limit/"

// reserveByEntries is Reserve over a store that has entries, but no paces: the time of a
// key is in an entry, and of several processes the quickest has its turn.
func reserveByEntries(ctx context.Context, s store.Shared, paces []store.Pace) ([]store.Paced, error) {
	answers := make([]store.Paced, len(paces))
	for i := range paces {
		p := &paces[i]
		e, err := s.GetState(ctx, entryPrefix+p.Key)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		now, err := s.Clock(ctx)
		if err != nil {
			return nil, err
		}
		at, _ := strconv.ParseInt(string(e.Value), 10, 64)
		seen := limit.Later(now, e.At) // an entry of later was written before the clock was set back
		ahead, answer := p.Advance(max(time.UnixMicro(at).Sub(seen), 0))
		if answer.Taken {
			next := strconv.FormatInt(now.Add(ahead).UnixMicro(), 10)
			_, err = s.PutState(ctx, entryPrefix+p.Key, []byte(next), e.Version, "limit")
		}
		if errors.Is(err, store.ErrConflict) {
			answer, err = store.Paced{Wait: time.Duration(rand.Float64() * float64(share) / 10)}, nil
		}
		if answers[i] = answer; err != nil {
			return nil, err
		}
	}
	return answers, nil
}
