package sim

import (
	"fmt"
	"math"
	"time"
)

// The published limits: messages of a bot in a second, to one chat in a second, to one group in a minute.
const (
	allPerSecond   = 30
	chatPerSecond  = 1
	groupPerMinute = 20
)

// arrivals are the messages of the last minute, and the most that there were in any stretch.
type arrivals struct {
	all               stretch
	chats             map[int64][]time.Time
	perChat, perGroup int
}

// stretch are the arrivals of the last second.
type stretch struct {
	times []time.Time
	most  int
}

func since(times []time.Time, from time.Time) []time.Time {
	for len(times) > 0 && !times[0].After(from) {
		times = times[1:]
	}
	return times
}

func (a *arrivals) add(now time.Time, chat int64) {
	a.all.times = append(since(a.all.times, now.Add(-time.Second)), now)
	a.all.most = max(a.all.most, len(a.all.times))
	times := append(since(a.chats[chat], now.Add(-time.Minute)), now)
	a.chats[chat] = times
	a.perChat = max(a.perChat, len(since(times, now.Add(-time.Second))))
	if chat < 0 {
		a.perGroup = max(a.perGroup, len(times))
	}
}

// limit refuses n messages to a chat that would be beyond a limit. An album is let into an empty second as a whole.
func (s *Server) limit(chat int64, n int) *answer {
	if !s.config.Limits {
		return nil
	}
	now := time.Now()
	second := since(s.arrivals.all.times, now.Add(-time.Second))
	minute := since(s.arrivals.chats[chat], now.Add(-time.Minute))
	last := since(minute, now.Add(-time.Second))
	wait := time.Duration(0)
	if len(second)+n > allPerSecond {
		wait = second[0].Add(time.Second).Sub(now)
	}
	if len(last) >= chatPerSecond {
		wait = max(wait, last[0].Add(time.Second).Sub(now))
	}
	if chat < 0 && len(minute)+n > groupPerMinute {
		wait = max(wait, minute[0].Add(time.Minute).Sub(now))
	}
	if wait == 0 {
		return nil
	}
	s.truth.OverLimit += n
	return tooMany(wait)
}

func tooMany(wait time.Duration) *answer {
	seconds := int(math.Ceil(wait.Seconds()))
	no := refuse(429, fmt.Sprintf("Too Many Requests: retry after %d", seconds))
	no.parameters = map[string]any{"retry_after": seconds}
	return no
}
