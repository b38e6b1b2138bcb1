//go:build linux

// Command worker is a program for `pawl work --pipe` in tests: it keeps a journal
// of what it does, and misbehaves as its flags and the messages tell it.
//
// What it does with a delivery follows from the seed and the delivery's token, so
// that it does not depend on who carries it out; which messages are slow, from
// their ids, so that they are slow again when somebody else takes over. A body may be a JSON object with
// "do": "kill-parent" (kill -9 of Pawl itself), "sleep" with "seconds", "fail",
// "dead" or "crash"; everything else in it is for the journal's reader.
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/e2e/worker/journal"
)

// delivery is what a line on stdin holds.
type delivery struct {
	ID, Topic, Token, Key string
	Attempt               int
	Body                  string
	BodyBase64            []byte `json:"body_base64"`
}

// plain is the body as the journal has it: itself where it is a short text in a
// line, else its length and hash.
func (d *delivery) plain() string {
	body := d.Body
	if d.BodyBase64 != nil {
		body = string(d.BodyBase64)
	}
	odd := func(r rune) bool { return r < ' ' || r > '~' }
	if d.BodyBase64 == nil && len(body) <= 512 && strings.IndexFunc(body, odd) < 0 {
		return body
	}
	return fmt.Sprintf("%d:%x", len(body), sha256.Sum256([]byte(body)))
}

// orders are what a body asks for.
type orders struct {
	Do      string
	Seconds float64
}

// verdict is a line on stdout.
type verdict struct {
	ID      string  `json:"id"`
	Token   string  `json:"token"`
	Verdict string  `json:"verdict"`
	Reason  string  `json:"reason,omitempty"`
	After   float64 `json:"after_seconds,omitempty"`
}

// worker is the program.
type worker struct {
	journal  *journal.Writer
	seed     uint64
	work     time.Duration
	slow     time.Duration
	odds     odds
	parallel int

	mu  sync.Mutex
	out *json.Encoder
}

// odds are how many deliveries of 10,000 go a way other than the straight one.
type odds struct{ slow, retry, release, dead, crash uint64 }

func main() {
	w := &worker{out: json.NewEncoder(os.Stdout)}
	folder := flag.String("journal", "", "folder of the journal")
	flag.Uint64Var(&w.seed, "seed", 1, "of what goes wrong")
	flag.DurationVar(&w.work, "work", 0, "how long a delivery takes, on average")
	flag.DurationVar(&w.slow, "slow", 300*time.Millisecond, "how long a slow delivery takes")
	flag.IntVar(&w.parallel, "parallel", 1, "deliveries carried out at once")
	for name, odd := range map[string]*uint64{
		"odds-slow": &w.odds.slow, "odds-retry": &w.odds.retry, "odds-release": &w.odds.release,
		"odds-dead": &w.odds.dead, "odds-crash": &w.odds.crash,
	} {
		flag.Uint64Var(odd, name, 0, "of 10,000 deliveries")
	}
	flag.Parse()
	if err := w.run(*folder); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// run carries out deliveries until stdin ends.
func (w *worker) run(folder string) (err error) {
	if w.journal, err = journal.Create(folder); err != nil {
		return err
	}
	if err := w.journal.Write(journal.Line{What: journal.Up, ID: strconv.Itoa(os.Getpid()),
		Verdict: strconv.Itoa(os.Getppid())}); err != nil {
		return err
	}
	slots := make(chan struct{}, w.parallel)
	var running sync.WaitGroup
	defer running.Wait()
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		var d delivery
		if err := json.Unmarshal(line, &d); err != nil {
			return fmt.Errorf("delivery %q: %w", line, err)
		}
		if w.parallel == 1 {
			w.carryOut(&d)
			continue
		}
		slots <- struct{}{}
		running.Go(func() { w.carryOut(&d); <-slots })
	}
}

// carryOut does what d asks for, then what the odds say.
func (w *worker) carryOut(d *delivery) {
	at := journal.Line{ID: d.ID, Token: d.Token, Attempt: d.Attempt, Key: d.Key}
	start := at
	start.What, start.Body = journal.Start, d.plain()
	w.note(start)
	var o orders
	_ = json.Unmarshal([]byte(d.Body), &o) // a body need not hold orders
	v := w.choose(d, &o, at)
	end := at
	end.What, end.Verdict = journal.End, v.Verdict
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note(end) // before Pawl can know: a verdict that took effect is in the journal
	if err := w.out.Encode(v); err != nil {
		os.Exit(1) // Pawl is gone
	}
}

// choose takes the time that the work takes and finds the verdict.
func (w *worker) choose(d *delivery, o *orders, at journal.Line) verdict {
	r := rand.New(rand.NewPCG(w.seed, hash(d.Token)))
	v := verdict{ID: d.ID, Token: d.Token, Verdict: "ack"}
	switch o.Do {
	case "kill-parent":
		w.die(at, os.Getppid())
	case "crash":
		w.die(at, os.Getpid())
	case "sleep":
		time.Sleep(time.Duration(o.Seconds * float64(time.Second)))
		return v
	case "fail":
		v.Verdict, v.Reason = "retry", "the body says so"
		return v
	case "dead":
		v.Verdict, v.Reason = "dead", "the body says so"
		return v
	}
	if w.work > 0 {
		time.Sleep(time.Duration(r.ExpFloat64() * float64(w.work)))
	}
	if hash(d.ID)%10_000 < w.odds.slow {
		time.Sleep(w.slow/2 + time.Duration(r.Float64()*float64(w.slow)))
	}
	n := r.Uint64N(10_000)
	hit := func(odds uint64) bool {
		yes := n < odds
		n -= odds // when it was less, it is huge now, and hits nothing more
		return yes
	}
	switch {
	case hit(w.odds.retry):
		v.Verdict, v.Reason, v.After = "retry", "an unlucky one", r.Float64()/4
	case hit(w.odds.release):
		v.Verdict, v.Reason, v.After = "release", "not now", r.Float64()/4
	case hit(w.odds.dead):
		v.Verdict, v.Reason = "dead", "hopeless"
	case hit(w.odds.crash):
		w.die(at, os.Getpid())
	}
	return v
}

func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, s) // a hash never fails
	return h.Sum64()
}

// die kills a process with kill -9, and waits to be ended with it. Verdicts that
// are in the journal have been given by then.
func (w *worker) die(at journal.Line, pid int) {
	w.mu.Lock()
	at.What = journal.Dying
	w.note(at)
	_ = syscall.Kill(pid, syscall.SIGKILL)
	time.Sleep(time.Hour)
}

func (w *worker) note(l journal.Line) {
	if err := w.journal.Write(l); err != nil {
		fmt.Fprintln(os.Stderr, "worker: journal:", err)
		os.Exit(1)
	}
}
