package console

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// memo keeps answers that cost the store much. One is kept for so long that reading it takes at most a hundredth of
// the time, however many tabs are open; what somebody does here makes all of them old. It is read beside the page,
// which does without, or with an older one, if it takes too long.
type memo struct {
	mu    sync.Mutex
	known map[string]*remembered
	size  int // of all texts
}

type remembered struct {
	mu      sync.Mutex
	at      time.Time // when it was asked for
	until   time.Time
	header  http.Header
	text    json.RawMessage
	err     error
	reading chan struct{} // closed when it is read; nil: nobody reads it
}

// Bounds of a memo.
const (
	maxMemo     = 256
	maxSize     = 32 << 20
	memoFactor  = 100
	leastMemory = time.Second
	mostMemory  = time.Minute
	patience    = 100 * time.Millisecond // of a page, for all that it reads through a memo
)

// errPending says that an answer is still being read.
var errPending = errors.New("it is still being read")

func (m *memo) entry(key string) *remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known) >= maxMemo || m.size > maxSize {
		m.known, m.size = map[string]*remembered{}, 0
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
	m.known, m.size = nil, 0
}

func (m *memo) grow(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.size += n
}

// cached is list, from the memo of those who see the same topics if that is new enough.
func (v *view) cached(into any, query url.Values, path string) (http.Header, error) {
	e := v.site.memo.entry(v.who.Scope() + "\x00" + path + "?" + query.Encode())
	e.mu.Lock()
	if e.reading == nil && time.Now().After(e.until) {
		e.reading = make(chan struct{})
		v.k.wg.Go(func() { e.read(v, query, path) })
	}
	reading := e.reading
	e.mu.Unlock()
	if reading != nil {
		select {
		case <-reading:
		case <-time.After(time.Until(v.Now.Add(v.k.patience))):
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.err != nil:
		return e.header, e.err
	case e.text == nil:
		v.Soon = true
		return http.Header{}, errPending
	}
	if e.at.Before(v.AsOf) {
		v.AsOf = e.at
	}
	return e.header, json.Unmarshal(e.text, into)
}

func (e *remembered) read(v *view, query url.Values, path string) {
	var text json.RawMessage
	began := time.Now()
	header, err := v.listAs(v.k.ctx, &text, query, path)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.until = time.Now().Add(max(time.Since(began), leastMemory)) // what fails is asked for again sooner
	if e.header, e.err = header, err; err == nil {
		v.site.memo.grow(len(text) - len(e.text))
		e.text, e.at = text, began
		e.until = time.Now().Add(min(max(time.Since(began)*memoFactor, leastMemory), mostMemory))
	}
	close(e.reading)
	e.reading = nil
}
