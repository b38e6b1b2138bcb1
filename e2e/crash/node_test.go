//go:build linux

package crash

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/e2e/worker/journal"
)

// harm is what was done to an incarnation.
type harm string

// The harms. To be stopped or killed ends what can be said from outside about its
// leases; to be asked to drain does not.
const (
	killed    harm = "killed"    // kill -9 of Pawl, alone or with its programs
	stopped   harm = "stopped"   // SIGSTOP
	continued harm = "continued" // SIGCONT
	drained   harm = "drained"   // SIGTERM
	hurried   harm = "hurried"   // the second SIGTERM
)

// event is a harm with its time, taken before the signal was sent.
type event struct {
	harm harm
	at   time.Duration
	all  bool // programs too, not Pawl alone
}

// incarnation is one life of a node: a process from its start to its end.
type incarnation struct {
	*family
	name    string
	folder  string        // of its workers' journals
	journal *journal.Tail // read while it lives
	events  []event
	began   time.Duration
	ended   time.Duration
	code    int
	warned  bool // it said that what it had finished could not be committed
}

func (i *incarnation) note(h harm, all bool) {
	i.events = append(i.events, event{h, journal.Now(), all})
}

// node is `pawl work`, started again whenever it ended. It has a goroutine of its
// own; others look at it after that has returned.
type node struct {
	t     *testing.T
	name  string
	plan  *plan
	rand  *rand.Rand
	flags []string // of `work`, besides the plan's
	lives []*incarnation
}

// live starts the node and harms it again and again until ctx ends; then it drains.
func (n *node) live(ctx context.Context) {
	i := n.rise()
	for {
		pause := time.Duration(min(n.rand.ExpFloat64(), 3) * float64(n.plan.calm))
		select {
		case <-ctx.Done():
			n.drain(i, false)
			return
		case <-i.exited:
			n.t.Errorf("%s ended by itself, %v after its start: %v\n%s", i.name, journal.Now()-i.began,
				i.cmd.ProcessState, i.tail(2000))
			i = n.rise()
		case <-time.After(pause):
			i = n.harm(i)
		}
	}
}

// rise starts the next incarnation.
func (n *node) rise() *incarnation {
	i := &incarnation{name: fmt.Sprintf("%s.%d", n.name, len(n.lives)+1)}
	i.folder, i.began = filepath.Join(n.plan.dir, i.name), journal.Now()
	i.journal = journal.Follow(i.folder)
	if err := os.Mkdir(i.folder, 0o700); err != nil {
		n.t.Error(err)
	}
	i.family = launch(n.t, n.plan.site.env(), nil, nil, append(n.plan.workArgs(i.folder, n.rand), n.flags...)...)
	n.lives = append(n.lives, i)
	return i
}

// harm does one harm and returns who lives after it.
func (n *node) harm(i *incarnation) *incarnation {
	// Half of the stops end when others are taking over, half long after.
	past := time.Duration((0.8 + 0.5*n.rand.Float64()) * float64(n.plan.lease))
	if n.rand.IntN(2) == 0 {
		past += n.plan.lease / 2
	}
	switch p := n.rand.IntN(100); {
	case p < 25:
		i.note(killed, false)
		i.signal(syscall.SIGKILL)
	case p < 40:
		i.note(killed, true)
		i.killAll()
	case p < 52:
		n.stop(i, past, false)
		return i
	case p < 62:
		n.stop(i, past, true)
		return i
	case p < 70:
		n.stop(i, n.plan.lease/4, p < 66)
		return i
	case p < 94:
		n.drain(i, false)
		return n.rise()
	default:
		n.drain(i, true)
		return n.rise()
	}
	<-i.exited
	i.ended = journal.Now()
	return n.rise()
}

// stop stops an incarnation for a while, with its programs or without. The programs
// go on first, so that they give their stale verdicts before Pawl can end them.
func (n *node) stop(i *incarnation, d time.Duration, all bool) {
	i.note(stopped, all)
	i.signal(syscall.SIGSTOP)
	if all {
		i.signalAll(syscall.SIGSTOP)
	}
	time.Sleep(d) // the harm itself
	i.note(continued, all)
	if all {
		i.signalOthers(syscall.SIGCONT)
		time.Sleep(time.Duration(n.rand.IntN(50)) * time.Millisecond)
	}
	i.signal(syscall.SIGCONT)
}

// drainLimit is how long a node may take to drain: its handlers take less than a
// second, and what it settles waits for a store that is under fire, too.
const drainLimit = 20 * time.Second

// drain asks an incarnation to end; hurry asks it twice.
func (n *node) drain(i *incarnation, hurry bool) {
	i.note(drained, false)
	i.signal(syscall.SIGTERM)
	want := "0"
	if hurry {
		time.Sleep(time.Duration(n.rand.IntN(50)) * time.Millisecond)
		i.note(hurried, false)
		i.signal(syscall.SIGTERM)
		want = "0 or 130"
	}
	select {
	case <-i.exited:
	case <-time.After(patience(drainLimit)):
		n.t.Errorf("%s did not end within %v of a SIGTERM; stderr ends:\n%s", i.name, patience(drainLimit), i.tail(2000))
		i.killAll()
		<-i.exited
	}
	i.ended = journal.Now()
	// Before it listens for signals, and while it opens the store, it has nothing to
	// drain.
	ran := i.events[len(i.events)-1].at - i.began
	for n, e := range i.events[1:] {
		if before := i.events[n]; before.harm == stopped && e.harm == continued {
			ran -= e.at - before.at
		}
	}
	young := ran < time.Second
	i.code = i.cmd.ProcessState.ExitCode()
	if i.code != 0 && !(i.code == 130 && (hurry || young)) && !(i.code == -1 && young) {
		n.t.Errorf("%s, from %v to %v, with %v: %v, want exit code %s; stderr ends:\n%s", i.name, i.began, i.ended,
			i.events, i.cmd.ProcessState, want, i.tail(2000))
	}
	if left := members(envMark, i.mark); len(left) > 0 && !within(2*time.Second,
		func() bool { return len(members(envMark, i.mark)) == 0 }) {
		n.t.Errorf("%s ended, its programs did not: %s", i.name, describe(left))
	}
}

// workArgs are the arguments of `pawl work` with a worker that errs at times. Some
// workers carry out several deliveries at once.
func (p *plan) workArgs(folder string, r *rand.Rand) []string {
	parallel, odds := cmp.Or(p.parallel, []int{1, 1, 4}[r.IntN(3)]), p.odds
	if odds == nil {
		odds = []string{"-odds-slow", "200", "-odds-retry", "200", "-odds-release", "50", "-odds-dead", "20",
			"-odds-crash", "5"}
	}
	worker := pipeCommand(folder, append([]string{"-seed", strconv.FormatUint(r.Uint64N(1<<32), 10),
		"-parallel", strconv.Itoa(parallel), "-work", p.work.String()}, odds...)...)
	return []string{"work", p.topic, "--pipe", worker, "--order", "key", "--lease", p.lease.String(),
		"--concurrency", strconv.Itoa(p.concurrency)}
}
