package pipe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/handler"
	"github.com/pawl-dev/pawl/handler/internal/process"
	"github.com/pawl-dev/pawl/internal/wire"
	"github.com/pawl-dev/pawl/policy"
)

// answer is a line that a child wrote.
type answer struct {
	verdict wire.Verdict
	err     error
	line    []byte // a bad one; part of the buffer
}

// listen reads verdicts until stdout ends, and returns why the child must be
// killed, if it must.
func (c *child) listen(stdout *os.File) error {
	buf := make([]byte, 64<<10)
	begin, end, scanned := 0, 0, 0
	var answers []answer
	for {
		n, err := stdout.Read(buf[end:])
		end += n
		answers = answers[:0]
		for {
			i := bytes.IndexByte(buf[scanned:end], '\n')
			if i < 0 {
				scanned = end
				break
			}
			line := buf[begin : scanned+i]
			begin, scanned = scanned+i+1, scanned+i+1
			answers = c.read(answers, line)
		}
		if len(answers) > 0 {
			c.take(answers)
		}
		if err != nil {
			c.lastWords(buf[begin:end])
			return nil
		}
		if begin > 0 {
			end, scanned = copy(buf, buf[begin:end]), end-begin
			begin = 0
		}
		if end == 0 && len(buf) > 1<<20 {
			buf = make([]byte, 64<<10)
		}
		if end == len(buf) {
			if end >= maxVerdict {
				return fmt.Errorf("it wrote %d MiB without the end of a line", maxVerdict>>20)
			}
			buf = append(buf, make([]byte, len(buf))...)
		}
	}
}

// lastWords takes what a program that has ended wrote without the end of a line: a
// verdict if it is a whole one, and nothing otherwise, because it may be the half of one.
func (c *child) lastWords(line []byte) {
	whole := slices.DeleteFunc(c.read(nil, line), func(a answer) bool { return a.err != nil })
	if len(whole) > 0 {
		c.take(whole)
	}
}

// read appends the answer that a line is, unless it is none: such a line is the program's log. So is what stands beside
// verdicts because an end of line is missing.
func (c *child) read(as []answer, line []byte) []answer {
	if line = trim(line); len(line) == 0 {
		return as
	}
	a := parse(line)
	if a.err == nil {
		return append(as, a)
	}
	found, beside := verdictsIn(line)
	if as = append(as, found...); len(found) > 0 {
		if line = trim(beside); len(line) == 0 {
			return as
		}
		a = parse(line)
	}
	if errors.Is(a.err, wire.ErrStray) {
		c.stray(a)
		return as
	}
	return append(as, a)
}

// trim cuts off what some systems begin each stream with, and what ends a line or a text in C.
func trim(line []byte) []byte {
	return bytes.Trim(bytes.TrimPrefix(line, []byte("\uFEFF")), " \t\r\n\x00")
}

// mostBegins bounds where in a line a verdict is looked for.
const mostBegins = 8

// verdictsIn returns the verdicts in a line that has something else, too, and that. One within another object is none.
func verdictsIn(line []byte) (found []answer, beside []byte) {
	for tries := 0; tries < mostBegins; {
		at := bytes.IndexByte(line, '{')
		if at < 0 {
			break
		}
		end, in := at+1, json.NewDecoder(bytes.NewReader(line[at:]))
		var object json.RawMessage
		if in.Decode(&object) == nil {
			end = at + int(in.InputOffset())
		}
		if a := parse(line[at:end]); a.err == nil {
			found, beside = append(found, a), append(beside, line[:at]...)
		} else {
			tries, beside = tries+1, append(beside, line[:end]...)
		}
		line = line[end:]
	}
	return found, append(beside, line...)
}

func parse(line []byte) answer {
	v, err := wire.ParseVerdict(line)
	return answer{v, err, line}
}

// beginning is what a log and a reason have of the line.
func (a *answer) beginning() string { return string(a.line[:min(len(a.line), 200)]) }

// stray treats a line as one that the program wrote to stderr.
func (c *child) stray(a answer) {
	p := c.pipe
	p.mu.Lock()
	p.stats.Stray++
	first := p.stats.Stray == 1
	p.mu.Unlock()
	if first {
		p.config.Logger.Warn("a line that a program wrote to stdout is not a verdict; such lines are taken for its log",
			"child", c.n, "line", a.beginning(), "error", a.err,
			"next", "write to stderr, or answer with one line of JSON that has id, token and verdict")
	}
	lines := process.Lines{Prefix: c.prefix(), Out: p.config.Stderr}
	for piece := range slices.Chunk(append(slices.Clip(a.line), '\n'), 32<<10) { // it breaks a long line
		_, _ = lines.Write(piece)
	}
}

// take settles what answers are about, and gives the child more.
func (c *child) take(answers []answer) {
	p := c.pipe
	p.mu.Lock()
	defer p.mu.Unlock()
	now, held := time.Now(), len(c.held)
	for i := range answers {
		a := &answers[i]
		k := c.held[a.verdict.Token]
		switch {
		case a.err != nil:
			c.bad(a)
		case k == nil || k.d.ID != a.verdict.ID:
			p.stats.Stale++
			p.complain(p.stats.Stale, "verdict for a delivery that the program does not hold; it is ignored", c, "id",
				a.verdict.ID)
		default:
			if name := a.verdict.Unknown; name != "" {
				if p.stats.Unknown++; p.stats.Unknown == 1 {
					p.config.Logger.Warn("a verdict has a member that is unknown; it is left out", "child", c.n,
						"member", name, "id", a.verdict.ID, "next", "correct it; a verdict has: "+wire.Members)
				}
			}
			p.answered, p.unready, p.failing = true, 0, nil
			c.answers++
			c.window.answered(now.Sub(k.at), held, c.overtook(k), now)
			c.drop(k)
			k.finish(outcome{verdict: new(a.verdict)})
		}
	}
	c.feed()
}

// overtook reports whether the child answered k and still holds what it got before.
// That is looked at only where it matters.
func (c *child) overtook(k *call) bool {
	if !c.window.trying {
		return false
	}
	for _, other := range c.held {
		if other.begin < k.begin {
			return true
		}
	}
	return false
}

// drop takes k out of what the child holds.
func (c *child) drop(k *call) {
	delete(c.held, k.token)
	c.bytes -= len(k.line)
	k.child = nil
}

// bad lays a verdict that cannot be read to the delivery that it is about. If that
// cannot be told, the child is killed, and what it held given again one by one.
func (c *child) bad(a *answer) {
	p := c.pipe
	p.stats.Bad++
	p.complain(p.stats.Bad, "line that is not a verdict", c, "line", a.beginning(), "error", a.err)
	err := fmt.Errorf("the program wrote a line that is not a verdict: %w: %s", a.err, a.beginning())
	var about *call
	for token, k := range c.held {
		if k.d.ID == a.verdict.ID || len(c.held) == 1 && a.verdict.ID == "" {
			about = k
		}
		if bytes.Contains(a.line, []byte(token)) { // it is in no other
			about = k
			break
		}
	}
	switch {
	case about != nil:
		c.drop(about)
		about.finish(outcome{err: pawl.OfKind(policy.KindCommand, err)})
	case len(c.held) > 0 && a.verdict.ID == "":
		c.kill(err)
	}
}

// complain warns the first time, the second, the fourth …
func (p *Pipe) complain(n int, what string, c *child, args ...any) {
	if bits.OnesCount(uint(n)) == 1 {
		p.config.Logger.Warn(what, append([]any{"child", c.n, "times", n}, args...)...)
	}
}

// watch looks after deliveries whose time passes.
func (p *Pipe) watch() {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case now := <-tick.C:
			p.inspect(now)
		}
	}
}

var errWaited = errors.New("no program was free")

// inspect kills a child that holds several deliveries and one of them for half of
// its time, and far longer than others took: should it be stuck, the others must
// not miss their deadlines with it. What still waits when three quarters of its
// time are over is given back.
func (p *Pipe) inspect(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.children {
		for _, k := range c.held {
			if len(c.held) > 1 && now.After(k.after(1, 2)) && now.Sub(k.at) > 4*c.window.mean && k.regiven == 0 {
				c.kill(errStalled)
			}
		}
		if c.useless(now) {
			c.kill(errDeaf)
		}
		c.suspects = p.dismiss(c.suspects, now)
	}
	p.queue = p.dismiss(p.queue, now)
}

// after is the point in time when so much of the call's time is over.
func (k *call) after(part, of int) time.Time {
	return k.born.Add(k.until.Sub(k.born) * time.Duration(part) / time.Duration(of))
}

// dismiss gives back what waited for too long.
func (p *Pipe) dismiss(ks []*call, now time.Time) []*call {
	kept := ks[:0]
	for _, k := range ks {
		if now.After(k.after(3, 4)) {
			k.finish(outcome{err: handler.HandBack(errWaited.Error())})
		} else {
			kept = append(kept, k)
		}
	}
	clear(ks[len(kept):])
	return kept
}
