package console

import (
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// memo keeps answers that cost the store much. One is kept for so long that reading it takes at most a hundredth of
// the time, however many tabs are open; what somebody does here makes all of them old.
type memo struct {
	mu    sync.Mutex
	known map[string]*remembered
}

type remembered struct {
	mu     sync.Mutex // held while it is read
	until  time.Time
	header http.Header
	text   []byte
}

// Bounds of a memo.
const (
	maxMemo     = 256
	memoFactor  = 100
	leastMemory = time.Second
	mostMemory  = time.Minute
)

func (m *memo) entry(key string) *remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= maxMemo {
		m.known = map[string]*remembered{}
	}
	e := m.known[key]
	if e == nil {
		e = &remembered{}
		m.known[key] = e
	}
	return e
}

func (m *memo) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.known = nil
}

// cached is list, from the memo of the person if that is new enough.
func (v *view) cached(into any, query url.Values, path string) (http.Header, error) {
	e := v.shop.memo.entry(v.who.Name() + "\x00" + path + "?" + query.Encode())
	e.mu.Lock()
	defer e.mu.Unlock()
	if now := time.Now(); now.After(e.until) {
		var text json.RawMessage
		header, err := v.list(&text, query, path)
		if err != nil {
			return header, err
		}
		cost := time.Since(now)
		e.header, e.text = header, text
		e.until = time.Now().Add(min(max(cost*memoFactor, leastMemory), mostMemory))
	}
	return e.header, json.Unmarshal(e.text, into)
}
