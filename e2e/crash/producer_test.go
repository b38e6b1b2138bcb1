//go:build linux

package crash

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"
)

// order is what a message says of itself in its body, for the judge: who sent it
// in which chunk, in which repetition of the chunk, and as its how manieth message.
//
// A chunk is what one `pawl send --jsonl` appends. When it is killed, the chunk is
// sent again as a whole; what was stored already is a duplicate, unless it was
// acked meanwhile: then it is a new message, with another Send.
type order struct {
	Producer int `json:"p"`
	Chunk    int `json:"chunk"`
	Send     int `json:"send"`
	Seq      int `json:"seq"`
}

// producer sends chunks and is killed at times. It has a goroutine of its own.
type producer struct {
	t      *testing.T
	plan   *plan
	number int
	rand   *rand.Rand
	unique bool // messages have unique keys, so that none is stored again after its ack

	sends, killed        int
	appended, duplicates int // of completed sends
	again                int // at most so many were stored again
	usual                time.Duration
	failures             int
}

// live sends all chunks, spread over the plan's time.
func (p *producer) live(ctx context.Context) {
	began := time.Now()
	chunks := p.plan.chunks()
	for chunk := range chunks {
		due := began.Add(p.plan.duration / time.Duration(chunks) * time.Duration(chunk))
		select {
		case <-ctx.Done():
			p.t.Errorf("producer %d is late: %d of %d chunks sent", p.number, chunk, chunks)
			return
		case <-time.After(time.Until(due)):
		}
		for send := 1; !p.send(ctx, chunk, send); send++ {
			if p.failures > 5 {
				return
			}
		}
	}
}

// send sends a chunk once and reports whether that is confirmed.
func (p *producer) send(ctx context.Context, chunk, send int) bool {
	lines := p.lines(chunk, send)
	var out bytes.Buffer
	began := time.Now()
	f := launch(p.t, p.plan.site.env(), strings.NewReader(lines), &out, "send", p.plan.topic, "--jsonl")
	p.sends++
	if p.rand.IntN(100) < 35 {
		select {
		case <-f.exited:
		case <-time.After(time.Duration(p.rand.Float64() * 1.2 * float64(p.usual))):
			f.signal(syscall.SIGKILL)
		}
	}
	select {
	case <-f.exited:
	case <-ctx.Done():
		f.killAll()
		<-f.exited
		return false
	}
	if state := f.cmd.ProcessState; state.Sys().(syscall.WaitStatus).Signaled() {
		p.killed++
		if !p.unique {
			p.again += p.plan.chunk
		}
		return false
	} else if state.ExitCode() != 0 {
		p.failures++
		p.t.Errorf("producer %d, chunk %d: exit code %d: %s", p.number, chunk, state.ExitCode(), f.tail(1000))
		return false
	}
	p.usual = time.Since(began)
	c, err := parseCounted(out.String())
	if err != nil || c.Appended+c.Duplicates != p.plan.chunk {
		p.failures++
		p.t.Errorf("producer %d, chunk %d of %d messages: counted %q (%v)", p.number, chunk, p.plan.chunk,
			out.String(), err)
		return false
	}
	if send == 1 && c.Duplicates > 0 {
		p.t.Errorf("producer %d, chunk %d: %d duplicates in what was sent once", p.number, chunk, c.Duplicates)
	}
	p.appended += c.Appended
	p.duplicates += c.Duplicates
	return true
}

// lines renders a chunk: the same ids and keys every time, another Send. All have
// one priority, because a rescue waits for its rank like everything else.
func (p *producer) lines(chunk, send int) string {
	var b strings.Builder
	r := rand.New(rand.NewPCG(uint64(p.number), uint64(chunk)))
	for n := range p.plan.chunk {
		seq := chunk*p.plan.chunk + n
		id := p.id(seq)
		fmt.Fprintf(&b, `{"id":%q,"key":"p%d-k%d"`, id, p.number, p.key(r))
		if p.unique {
			fmt.Fprintf(&b, `,"unique_key":%q,"unique_for_seconds":86400`, id)
		}
		fmt.Fprintf(&b, `,"body":{"p":%d,"chunk":%d,"send":%d,"seq":%d}}`+"\n", p.number, chunk, send, seq)
	}
	return b.String()
}

func (p *producer) id(seq int) string { return fmt.Sprintf("p%d-%06d", p.number, seq) }

// key is one of the producer's: half of the messages go to few of them, so that
// lanes with several messages come to be.
func (p *producer) key(r *rand.Rand) int {
	keys := p.plan.keys / p.plan.producers
	if r.IntN(2) == 0 {
		return r.IntN(max(1, keys/25))
	}
	return r.IntN(keys)
}
