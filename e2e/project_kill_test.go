//go:build unix

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// survivesKills has writers that roll back, commit late and change the same rows, an index that throttles,
// cuts answers and soon forgets deletions, and two daemons that are killed and frozen at random. In the end
// the index equals the table, versions included. Nothing that was rolled back was ever sent, and no document
// ever became older.
func survivesKills(s *shop) {
	lasts, forgets := 5*time.Second, "5s" // well after the longest delay on the way to the index
	if os.Getenv("PAWL_SOAK") != "" {
		lasts, forgets = time.Minute, "2s"
	}
	s.configure("max_processing_seconds: 4, batch_size: 20, gc_deletes: " + forgets)
	s.breaks(s.weather())
	daemons := []*exec.Cmd{s.up(), s.up()}
	ctx, cancel := context.WithTimeout(context.Background(), lasts)
	defer cancel()
	var writers, looker sync.WaitGroup
	for range 4 {
		writers.Go(func() { s.writes(ctx) })
	}
	done := make(chan struct{})
	looker.Go(func() { s.onlyNewer(done) })
	for ctx.Err() == nil {
		time.Sleep(time.Duration(300+rand.IntN(700)) * time.Millisecond)
		k := rand.IntN(2)
		if rand.IntN(2) == 0 {
			_ = daemons[k].Process.Kill()
			_ = daemons[k].Wait()
			daemons[k] = s.up()
			continue
		}
		_ = daemons[k].Process.Signal(syscall.SIGSTOP) // for longer than a lease, at times
		time.Sleep(time.Duration(rand.IntN(3000)) * time.Millisecond)
		_ = daemons[k].Process.Signal(syscall.SIGCONT)
	}
	writers.Wait()
	s.settled()
	s.breaks(nil)
	close(done)
	looker.Wait()
	s.equal()
	if n := s.one(`SELECT count(*) FROM dead_letter_outbox`); n != "0" {
		s.Errorf("%s dead letters: %s", n,
			s.one(`SELECT error_class || ' ' || error_message FROM dead_letter_outbox LIMIT 1`))
	}
	s.must("pawl project verify search")
}

// weather is a fault that comes and goes at random: whole requests and items are throttled, answers are cut,
// requests take long, and some fail.
func (s *shop) weather() fail {
	return func(w http.ResponseWriter, r *http.Request, body []byte) bool {
		if r.URL.Path != "/_bulk" {
			return false
		}
		switch rand.IntN(20) {
		case 0:
			w.WriteHeader(http.StatusTooManyRequests)
		case 1:
			refuse(w, body, http.StatusTooManyRequests, "rejected_execution_exception")
		case 2:
			return s.cut(w, r, body)
		case 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		case 4:
			time.Sleep(time.Duration(rand.IntN(1000)) * time.Millisecond)
			return false
		default:
			return false
		}
		return true
	}
}

const goods = 40

// writes changes products until ctx ends.
func (s *shop) writes(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		tx, err := s.db.Begin()
		if err != nil {
			s.Error(err)
			return
		}
		back := rand.IntN(5) == 0
		name := fmt.Sprintf("name %d", n)
		if back {
			name = "rolled back"
		}
		from := rand.IntN(goods)
		// upwards, or two writers wait for each other
		for id := from; id < min(from+1+rand.IntN(3), goods) && err == nil; id++ {
			err = s.change(tx, id, name, rand.IntN(4) == 0)
		}
		if err == nil && s.pg && rand.IntN(10) == 0 {
			time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
		}
		if back || err != nil {
			_ = tx.Rollback()
		} else {
			err = tx.Commit()
		}
		if err != nil && !strings.Contains(err.Error(), "locked") {
			s.Error(err)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// onlyNewer looks at the documents again and again: a version never becomes lower.
func (s *shop) onlyNewer(done <-chan struct{}) {
	highest := make([]int64, goods)
	for {
		select {
		case <-done:
			return
		case <-time.After(20 * time.Millisecond):
		}
		got, err := s.entries(many(goods))
		if err != nil || len(got) != goods {
			continue // the index was not made yet
		}
		for id, e := range got {
			if e.Found && e.Version < highest[id] {
				s.Errorf("document %d went from version %d back to %d", id, highest[id], e.Version)
			}
			if e.Found {
				highest[id] = max(highest[id], e.Version)
			}
		}
	}
}
