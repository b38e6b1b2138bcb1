package dispatch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch/internal/limit"
	"github.com/pawl-dev/pawl/store"
)

// pacedRate is a rate by key for all processes over a store. It asks the store for what
// may begin soon, all keys that are waited for in one call, and leaves to others what
// would have to wait for longer.
type pacedRate struct {
	pacer store.Shared
	name  string
	moved func() // something may begin that could not

	mu      sync.Mutex
	rate    float64
	burst   int
	keys    map[string]*pacedKey
	asked   map[string]bool          // keys to ask for
	holds   map[string]time.Duration // holds to tell
	asking  bool                     // the store is asked, or about to be
	sweepAt int
}

// pacedKey is what is known of a key.
type pacedKey struct {
	left        int
	from, until time.Time // when the permits that are left begin and cease to count
	again       time.Time // when to ask the store again
}

// maxHold is for how long a downstream may close its key by what it answers.
const maxHold = time.Hour

// pacedSweep is how many keys there may be before idle ones are looked for.
const pacedSweep = 1024

func newPacedRate(pacer store.Shared, name string, rate float64, burst int, moved func()) *pacedRate {
	p := &pacedRate{
		pacer: pacer, name: name, moved: moved, asked: map[string]bool{}, holds: map[string]time.Duration{},
		sweepAt: pacedSweep,
	}
	p.set(rate, burst)
	return p
}

func (p *pacedRate) set(rate float64, burst int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate, p.keys = rate, map[string]*pacedKey{}
	if p.burst = burst; burst == 0 {
		p.burst = max(int(rate*share.Seconds()), 1)
	}
}

// checkPaced refuses rates that no store can keep.
func checkPaced(rate float64, burst int) error {
	if rate == 0 {
		return errors.New("shared by all processes, but there is no rate")
	}
	if float64(max(burst, 1))/rate > pawl.MaxDelay.Seconds()/2 {
		return fmt.Errorf("a burst of %d at %v a second takes too long", burst, rate)
	}
	return nil
}

// at is the state of a key. The caller holds mu.
func (p *pacedRate) at(key string, now time.Time) *pacedKey {
	k := p.keys[key]
	if k != nil {
		return k
	}
	if len(p.keys) >= p.sweepAt {
		maps.DeleteFunc(p.keys, func(of string, k *pacedKey) bool {
			return !p.asked[of] && now.After(k.again) && (k.left == 0 || now.After(k.until))
		})
		p.sweepAt = max(2*len(p.keys), pacedSweep)
	}
	k = &pacedKey{}
	p.keys[key] = k
	return k
}

// take takes a permit; otherwise wait is how long until it is worth asking again, 0 for
// when the store has answered. It does no I/O.
func (p *pacedRate) take(key string) (wait time.Duration, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	k := p.at(key, now)
	if k.left > 0 && now.Before(k.until) {
		if early := k.from.Sub(now); early > 0 {
			return early, false
		}
		k.left--
		return 0, true
	}
	if early := k.again.Sub(now); early > 0 {
		return early, false
	}
	p.asked[key] = true
	p.ask()
	return 0, false
}

// giveBack takes a take back.
func (p *pacedRate) giveBack(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at(key, time.Now()).left++
}

// hold lets nothing of a key begin for a while.
func (p *pacedRate) hold(key string, length time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	k := p.at(key, now)
	k.left, k.again = 0, limit.Later(k.again, now.Add(length))
	p.holds[key] = max(p.holds[key], length)
	p.ask()
}

// ask sees to it that the store is asked. The caller holds mu.
func (p *pacedRate) ask() {
	if !p.asking {
		p.asking = true
		go p.fetch()
	}
}

// fetch asks the store until there is nothing to ask.
func (p *pacedRate) fetch() {
	for {
		keys, paces := p.next()
		if len(keys) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), fetchTime)
		answers, err := p.pacer.Reserve(ctx, paces...)
		cancel()
		p.answered(keys, paces, answers, err)
		p.moved()
	}
}

// next returns the paces of one call: holds first, because they affect the permits.
func (p *pacedRate) next() (keys []string, paces []store.Pace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	every := time.Duration(math.Ceil(1e6/p.rate)) * time.Microsecond
	n := min(max(int(p.rate*share.Seconds()), 1), p.burst)
	for key, length := range p.holds {
		keys = append(keys, key)
		paces = append(paces, store.Pace{Key: p.stored(key), Every: every, Burst: p.burst, Hold: length})
	}
	clear(p.holds)
	if len(keys) == 0 {
		keys = slices.Collect(maps.Keys(p.asked))
		for _, key := range keys {
			paces = append(paces, store.Pace{Key: p.stored(key), Every: every, Burst: p.burst, N: n, Within: heldFor})
		}
	}
	if len(keys) > store.MaxBatch { // the others when they ask again
		keys, paces = keys[:store.MaxBatch], paces[:store.MaxBatch]
	}
	p.asking = len(keys) > 0
	return keys, paces
}

// stored is the name of a key in the store.
func (p *pacedRate) stored(key string) string {
	if name := p.name + "/" + key; len(name) <= pawl.MaxKey {
		return name
	}
	sum := sha256.Sum256([]byte(key))
	return p.name + "/" + hex.EncodeToString(sum[:])
}

// answered takes in what the store said. While it can't be asked nothing begins.
func (p *pacedRate) answered(keys []string, paces []store.Pace, answers []store.Paced, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for i, key := range keys {
		k := p.at(key, now)
		if paces[i].N > 0 {
			delete(p.asked, key)
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
