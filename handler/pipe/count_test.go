package pipe

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// Which ends make a pipe failing that was answered before.
func TestPipeCountsStartsThatCameToNothing(t *testing.T) {
	for what, c := range map[string]struct {
		end     ending
		failing bool
	}{
		"it breaks when it has nothing to do": {ending{unread: true}, true},
		"it breaks with deliveries":           {ending{unread: true, held: 2}, true},
		"it leaves deliveries unread":         {ending{unread: true, held: 2, voluntary: true}, true},
		"it leaves with nothing to do":        {ending{unread: true, voluntary: true}, false},
		"it has read something":               {ending{held: 1}, false},
		"it was killed":                       {ending{unread: true, held: 1, cause: errCancelled}, false},
		"it was killed without stdin":         {ending{unread: true, cause: errDeaf}, true},
	} {
		p := &Pipe{config: Config{Logger: slog.New(slog.DiscardHandler)}, broken: make(chan struct{}), answered: true}
		for n := 1; n <= startsToGiveUp; n++ {
			if err := p.Failing(); err != nil {
				t.Fatalf("%s: failing after %d: %v", what, n-1, err)
			}
			if !p.restarts(&child{n: n, pipe: p}, c.end, 0) {
				t.Fatalf("%s: given up after %d", what, n)
			}
		}
		if err := p.Failing(); errors.Is(err, ErrNeverReady) != c.failing || p.Err() != nil {
			t.Errorf("%s: failing: %v, given up: %v", what, err, p.Err())
		}
	}
}

// A program that lasts is well, though there is nothing that it could answer.
func TestPipeIsWellWhenAProgramLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Pipe{config: Config{Logger: slog.New(slog.DiscardHandler)}, broken: make(chan struct{}), answered: true}
		c := &child{n: 1, pipe: p}
		p.children = []*child{c}
		for range startsToGiveUp {
			p.restarts(c, ending{unread: true}, 0)
		}
		c.up, c.began = true, time.Now()
		time.Sleep(maxPause)
		if p.Failing() == nil {
			t.Error("well before it has lasted")
		}
		time.Sleep(time.Millisecond)
		if err := p.Failing(); err != nil {
			t.Errorf("still failing: %v", err)
		}
		c.up = false
		p.restarts(c, ending{unread: true}, 0)
		if err := p.Failing(); err != nil {
			t.Errorf("failing after one end: %v", err)
		}
	})
}
