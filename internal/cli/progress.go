package cli

import (
	"fmt"
	"time"
)

// progress tells on a terminal how far something came, a few times a second.
type progress struct {
	s       *session
	what    string
	began   time.Time
	shown   time.Time
	visible bool
}

func (s *session) progress(what string) *progress {
	return &progress{s: s, what: what, began: time.Now(), shown: time.Now(), visible: s.ErrTerminal && !s.quiet}
}

// at says that n are done.
func (p *progress) at(n int64) {
	now := time.Now()
	if !p.visible || now.Sub(p.shown) < 200*time.Millisecond {
		return
	}
	p.shown = now
	_, _ = fmt.Fprintf(p.s.Err, "\r\x1b[K%d %s, %.0f a second", n, p.what, float64(n)/now.Sub(p.began).Seconds())
}

// end removes the line.
func (p *progress) end() {
	if p.visible && p.shown != p.began {
		_, _ = fmt.Fprint(p.s.Err, "\r\x1b[K")
	}
}
