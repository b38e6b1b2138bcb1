//go:build linux

package crash

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/e2e/worker/journal"
)

// crew is the processes of a consumer group that work on one topic.
type crew struct {
	t     *testing.T
	plan  *plan
	rand  *rand.Rand
	book  *logbook
	names int
	at    []*member
	lives []*incarnation // of members that went, too

	counts map[string]int // of the lines that were read, by what they say
}

// member is one process, which is never started again.
type member struct {
	*node
	*incarnation
}

func newCrew(t *testing.T, p *plan) *crew {
	t.Helper()
	return &crew{t: t, plan: p, rand: seed(t), book: newLogbook(p.topic), counts: map[string]int{}}
}

// join starts a process.
func (c *crew) join() *member {
	c.names++
	n := &node{t: c.t, name: fmt.Sprintf("member%d", c.names), plan: c.plan, rand: c.rand}
	m := &member{n, n.rise()}
	c.at, c.lives = append(c.at, m), append(c.lives, m.incarnation)
	return m
}

// remove takes a member off the list of those who are there.
func (c *crew) remove(i int) *member {
	m := c.at[i]
	c.at = append(c.at[:i:i], c.at[i+1:]...)
	return m
}

// leave asks a member to end, and waits until it has.
func (c *crew) leave(i int) {
	m := c.remove(i)
	m.drain(m.incarnation, false)
}

// kill kills a member and its programs with kill -9.
func (c *crew) kill(i int) {
	m := c.remove(i)
	m.note(killed, true)
	m.killAll()
	<-m.exited
	m.ended = journal.Now()
}

// alive fails the test if a member ended by itself.
func (c *crew) alive() {
	c.t.Helper()
	for _, m := range c.at {
		if !m.alive() {
			c.t.Errorf("%s ended by itself: %v\n%s", m.incarnation.name, m.cmd.ProcessState, m.tail(2000))
		}
	}
}

// drained waits until everything is carried out.
func (c *crew) drained(limit time.Duration) {
	c.t.Helper()
	f := figures{}
	if !within(limit, func() bool {
		time.Sleep(300 * time.Millisecond)
		f = c.plan.site.topic(c.t, c.plan.topic)
		return f.open() == 0
	}) {
		c.t.Errorf("after %v there is still: %+v", patience(limit), f)
	}
}

// finish asks everybody to end, and judges.
func (c *crew) finish(how string) *findings {
	c.t.Helper()
	c.alive()
	for len(c.at) > 0 {
		c.leave(0)
	}
	for _, i := range c.lives {
		i.warned = strings.Contains(i.tail(1<<20), "could not be committed")
	}
	all := c.book.readLog(c.t, c.plan.site, c.lives)
	c.book.noteKills(all)
	found := judgeLog(all, c.book)
	found.report(c.t, how)
	if c.t.Failed() {
		c.t.Log(c.says())
	}
	return found
}

// says is what the members wrote last.
func (c *crew) says() string {
	var text strings.Builder
	for _, i := range c.lives {
		text.WriteString(i.name + " says: " + i.tail(1500) + "\n")
	}
	return text.String()
}

// works waits until a good many deliveries more than before have begun.
func (c *crew) works(limit time.Duration) (took time.Duration) {
	c.t.Helper()
	began, before := time.Now(), c.begun()
	if !within(limit, func() bool { time.Sleep(200 * time.Millisecond); return c.begun() > before+100 }) {
		c.t.Errorf("no work within %v", patience(limit))
	}
	return time.Since(began).Round(10 * time.Millisecond)
}

// begun is how many deliveries have begun.
func (c *crew) begun() int { return c.count(journal.Start) }

// ended is how many verdicts were given.
func (c *crew) ended() int { return c.count(journal.End) }

// count reads only what was written since it was last called: it is polled while the machine is to be busy with others.
func (c *crew) count(what string) int {
	c.t.Helper()
	for _, i := range c.lives {
		lines, err := i.journal.Next()
		if err != nil {
			c.t.Fatal(err)
		}
		for _, l := range lines {
			c.counts[l.What]++
		}
	}
	return c.counts[what]
}

// stream is a `pawl send --jsonl` that is fed for some time.
type stream struct {
	t    *testing.T
	send *family
	out  bytes.Buffer
	fed  chan error
	pace chan time.Duration // a new pause between two messages
	stop chan struct{}
	book *logbook
}

// feed begins to send messages of so many keys, with a pause after each, until
// they are stopped.
func (c *crew) feed(keys int, pause time.Duration) *stream {
	c.t.Helper()
	source, feed, err := os.Pipe()
	if err != nil {
		c.t.Fatal(err)
	}
	s := &stream{t: c.t, fed: make(chan error, 1), pace: make(chan time.Duration, 1), stop: make(chan struct{}),
		book: c.book}
	s.send = launch(c.t, c.plan.site.env(), source, &s.out, "send", c.plan.topic, "--jsonl")
	_ = source.Close() // the producer has it
	go func() {
		defer func() { _ = feed.Close() }()
		for tick := time.NewTicker(pause); ; {
			select {
			case <-s.stop:
				s.fed <- nil
				return
			case pause := <-s.pace:
				tick.Reset(pause)
			case <-tick.C:
				if _, err := feed.WriteString(c.book.line(keys, "")); err != nil {
					s.fed <- err
					return
				}
			}
		}
	}()
	return s
}

// end stops the stream. Everything that was fed must be reported as stored.
func (s *stream) end() {
	s.t.Helper()
	close(s.stop)
	if err := <-s.fed; err != nil {
		s.t.Error("feed the producer:", err)
	}
	if code := s.send.wait(s.t, time.Minute); code != 0 {
		s.t.Errorf("the producer ended with %d: %s", code, s.send.tail(2000))
	}
	if n, err := parseCounted(s.out.String()); err != nil || n.Appended != s.book.count {
		s.t.Errorf("the producer counted %q, want %d", s.out.String(), s.book.count)
	}
}
