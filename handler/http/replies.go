package http

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
)

const (
	// maxVerdict bounds a reply that states a verdict, with what it emits: the largest
	// body there may be has room in it, however it is encoded.
	maxVerdict = 32 << 20
	// smallReply is what a reply may have without asking for room.
	smallReply = 64 << 10
	// firstRoom is what a larger one asks for that does not say how long it is.
	firstRoom = 1 << 20
	// defaultReplies is the room of all replies of a process together.
	defaultReplies = 64 << 20
)

// Replies bounds the total bytes of large replies: those being read, and those whose
// messages are not stored yet. Callers that find no room wait in turn. It is safe for
// concurrent use.
type Replies struct {
	mu      sync.Mutex
	free    int
	waiting []*asking
	kept    map[pawl.Token]*kept
}

// asking is a reply that waits for room.
type asking struct {
	bytes int
	got   chan struct{}
}

// kept is the room of messages that are about to be stored.
type kept struct {
	bytes int
	timer *time.Timer
}

// NewReplies makes room for the replies of a process.
func NewReplies() *Replies { return newReplies(defaultReplies) }

func newReplies(bytes int) *Replies { return &Replies{free: bytes, kept: map[pawl.Token]*kept{}} }

// take waits for room. The error is the cause of ctx.
func (r *Replies) take(ctx context.Context, bytes int) error {
	r.mu.Lock()
	if len(r.waiting) == 0 && bytes <= r.free {
		r.free -= bytes
		r.mu.Unlock()
		return nil
	}
	a := &asking{bytes, make(chan struct{})}
	r.waiting = append(r.waiting, a)
	r.mu.Unlock()
	select {
	case <-a.got:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.waiting, a); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
		r.give(0) // those behind it may have room
	} else {
		r.give(bytes) // it came at the same moment
	}
	return context.Cause(ctx)
}

// give gives room back, to those that wait for it. The caller holds mu.
func (r *Replies) give(bytes int) {
	r.free += bytes
	for len(r.waiting) > 0 && r.waiting[0].bytes <= r.free {
		r.free -= r.waiting[0].bytes
		close(r.waiting[0].got)
		r.waiting = r.waiting[1:]
	}
}

// leave ends the reading of a reply. What d emits keeps its room until [Replies.Settled]
// is told of it, or its lease is over: then nobody stores it any more.
func (r *Replies) leave(d *pawl.Delivery, bytes int) {
	emitted := 0
	for _, m := range d.Emitted() {
		emitted += m.Size()
	}
	emitted = min(emitted, bytes)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept[d.Token] != nil {
		emitted = 0
	}
	r.give(bytes - emitted)
	if emitted == 0 {
		return
	}
	token := d.Token
	r.kept[token] = &kept{emitted, time.AfterFunc(max(d.LeaseFor, time.Second), func() { r.Settled(token) })}
}

// Settled reports that the messages of deliveries have been stored, or never will be.
func (r *Replies) Settled(tokens ...pawl.Token) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, token := range tokens {
		if k := r.kept[token]; k != nil {
			k.timer.Stop()
			delete(r.kept, token)
			r.give(k.bytes)
		}
	}
}

// read reads a reply that states a verdict. take waits for room; room is what the reply
// has of r, to be given back by leave.
func (r *Replies) read(reply *http.Response, take func(bytes int) error) (text []byte, room int, err error) {
	if reply.ContentLength > maxVerdict {
		return nil, 0, errTooLong
	}
	text, err = io.ReadAll(io.LimitReader(reply.Body, smallReply))
	if err != nil || len(text) < smallReply {
		return text, 0, err
	}
	if reply.ContentLength < 0 {
		return r.grow(reply.Body, text, take)
	}
	room = int(reply.ContentLength)
	if err := take(room); err != nil {
		return nil, 0, err
	}
	text = append(make([]byte, 0, room), text...) // all at once: what grows needs more than it holds
	n, err := io.ReadFull(reply.Body, text[len(text):room])
	return text[:len(text)+n], room, err
}

// grow reads the rest of a reply that does not say how long it is.
func (r *Replies) grow(body io.Reader, text []byte, take func(bytes int) error) ([]byte, int, error) {
	room := firstRoom
	err := take(room)
	for err == nil {
		text = append(make([]byte, 0, room+1), text...) // one more tells that there is more
		for err == nil && len(text) <= room {
			var n int
			n, err = body.Read(text[len(text) : room+1])
			text = text[:len(text)+n]
		}
		switch {
		case len(text) <= room && err == io.EOF:
			return text, room, nil
		case len(text) <= room:
			return nil, room, err
		case room == maxVerdict:
			return nil, room, errTooLong
		}
		room, err = r.more(room, take)
	}
	return nil, 0, err
}

// more makes twice the room of what a reply has, if that is free at once. Otherwise it
// lets go of all of it, and waits for what the largest reply needs: who waits has no
// room, so that no two can wait for each other. What was read until then stays.
func (r *Replies) more(room int, take func(bytes int) error) (int, error) {
	step := min(room, maxVerdict-room)
	r.mu.Lock()
	free := len(r.waiting) == 0 && step <= r.free
	if free {
		r.free -= step
	} else {
		r.give(room)
	}
	r.mu.Unlock()
	if free {
		return room + step, nil
	}
	return maxVerdict, take(maxVerdict)
}

var errTooLong = fmt.Errorf("it has more than %d MiB", maxVerdict>>20)
