package kafka

import (
	"sync"
	"time"

	"github.com/pawl-dev/pawl/store"
)

// Leases, retries and holds end at a moment of this process's clock, and pauses at one of the
// clock of the process that paused. When a clock is set back, a wait of a second would last
// until the clock has caught up.

// leastStep is the smallest step back that counts; a smaller one is waited out.
const leastStep = time.Second

// steadyClock goes on when another clock is set back. It compares that clock with the monotonic
// one.
type steadyClock struct {
	wall func() time.Time

	mu   sync.Mutex
	last time.Time // of wall
	at   time.Time // when that was
	back time.Duration
}

func (c *steadyClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	wall, at := c.wall().Round(0), time.Now()
	if step := c.last.Add(at.Sub(c.at)).Sub(wall); !c.last.IsZero() && step >= leastStep {
		c.back += step
	}
	c.last, c.at = wall, at
	return wall.Add(c.back)
}

// pauseEnds are the ends of pauses by the clock of the engine. A process notes the end when it first reads of a pause,
// no later than the length of the pause from then on.
type pauseEnds struct {
	mu sync.Mutex
	of map[string]pauseEnd
}

type pauseEnd struct {
	version int64
	at      time.Time
}

// note returns the end of a pause of a topic that was read at that version.
func (e *pauseEnds) note(topic string, version int64, p *store.Pause, wall, now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	end := e.of[topic]
	if end.version != version {
		end = pauseEnd{version, now.Add(min(p.Until.Sub(wall), p.Until.Sub(p.Since)))}
		if e.of == nil {
			e.of = map[string]pauseEnd{}
		}
		e.of[topic] = end
	}
	return end.at
}
