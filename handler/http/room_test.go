package http

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/policy"
)

// sent is a chunked reply that comes bit by bit.
type sent struct {
	bits chan int // closed at its end
	bit  int      // what is left of the last one
	got  chan error
	has  int // what was read of it
	of   int // its room
}

// sending reads a chunked reply.
func (r *Replies) sending(ctx context.Context) *sent {
	s := &sent{bits: make(chan int, 100), got: make(chan error, 1)}
	go func() {
		reply := &http.Response{Body: io.NopCloser(s), ContentLength: -1}
		text, room, err := r.read(reply, func(bytes int) error { return r.take(ctx, bytes) })
		s.has, s.of = len(text), room
		s.got <- err
	}()
	return s
}

// send goes on with a reply, which is read unless it waits for room.
func (s *sent) send(bytes int) {
	s.bits <- bytes
	synctest.Wait()
}

func (s *sent) Read(p []byte) (int, error) {
	if s.bit == 0 {
		s.bit = <-s.bits
	}
	if s.bit == 0 {
		return 0, io.EOF
	}
	n := min(s.bit, len(p))
	s.bit -= n
	return n, nil
}

// TestChunkedRepliesLeaveRoom: one that says nothing of its length does not take the room
// of the largest there may be.
func TestChunkedRepliesLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplies(defaultReplies)
		var all []*sent
		for range defaultReplies / firstRoom {
			s := r.sending(t.Context())
			s.send(2 * smallReply)
			all = append(all, s)
		}
		if len(r.waiting) != 0 || r.free != 0 {
			t.Errorf("%d wait, %d are free", len(r.waiting), r.free)
		}
		for _, s := range all {
			close(s.bits)
			if err := <-s.got; err != nil || s.has != 2*smallReply || s.of != firstRoom {
				t.Fatalf("read %d in a room of %d: %v", s.has, s.of, err)
			}
			r.leave(&pawl.Delivery{}, s.of)
		}
		if r.free != defaultReplies {
			t.Errorf("%d are free again, want all", r.free)
		}
	})
}

// TestWhoWaitsHasNoRoom: of two that grow, one waits for the other, which needs all there
// is.
func TestWhoWaitsHasNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplies(maxVerdict)
		one, two := r.sending(t.Context()), r.sending(t.Context())
		for range 20 {
			one.send(firstRoom)
			two.send(firstRoom)
		}
		close(one.bits)
		close(two.bits)
		synctest.Wait()
		first, second := one, two
		if len(first.got) == 0 {
			first, second = second, first
		}
		if len(first.got) != 1 || len(second.got) != 0 || len(r.waiting) != 1 || r.free != 0 {
			t.Fatalf("%d and %d are read, %d wait, %d are free; want one that has it all, and one that waits",
				len(first.got), len(second.got), len(r.waiting), r.free)
		}
		for _, s := range []*sent{first, second} {
			if err := <-s.got; err != nil || s.of != maxVerdict || s.has != 20*firstRoom {
				t.Fatalf("read %d in a room of %d: %v", s.has, s.of, err)
			}
			r.leave(&pawl.Delivery{}, s.of)
			synctest.Wait()
		}
		if r.free != maxVerdict {
			t.Errorf("%d are free again, want all", r.free)
		}
	})
}

// tripper answers a request itself.
type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// bounded is a body that ends with its request, as those of a connection do.
type bounded struct {
	io.Reader
	ctx context.Context
}

func (b bounded) Read(p []byte) (int, error) {
	if b.ctx.Err() != nil {
		return 0, b.ctx.Err()
	}
	return b.Reader.Read(p)
}

func (b bounded) Close() error { return nil }

// stalled is a body that says nothing until its request ends.
type stalled struct{ ctx context.Context }

func (s stalled) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// crowded is a hook whose service answers within half its time with a verdict that finds no
// room, for a minute by now, and may say more then. What Handle returns comes through got.
func crowded(t *testing.T, ctx context.Context, length int, rest func(context.Context) io.Reader) (r *Replies,
	got chan error) {
	r, got = newReplies(maxVerdict), make(chan error, 1)
	h, err := New(Config{URL: "http://service", Timeout: time.Second, Replies: r})
	if err != nil {
		t.Fatal(err)
	}
	text := `{"verdict":"ack"}` + strings.Repeat(" ", 2*smallReply)
	h.client.Transport = tripper(func(q *http.Request) (*http.Response, error) {
		time.Sleep(time.Second / 2)
		body := bounded{io.MultiReader(bytes.NewReader([]byte(text)), rest(q.Context())), q.Context()}
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {ContentVerdict}},
			ContentLength: int64(length), Body: body}, nil
	})
	if err := r.take(ctx, maxVerdict); err != nil {
		t.Fatal(err)
	}
	go func() { got <- h.Handle(ctx, delivery()) }()
	time.Sleep(time.Minute)
	synctest.Wait()
	if len(r.waiting) != 1 {
		t.Fatalf("%d wait for room", len(r.waiting))
	}
	return r, got
}

func nothing(context.Context) io.Reader { return strings.NewReader("") }

// TestRoomIsNoMatterOfTheService: what a reply waits for room is not part of its timeout,
// and if the room does not come the delivery is given back.
func TestRoomIsNoMatterOfTheService(t *testing.T) {
	for _, length := range []int{-1, 2*smallReply + len(`{"verdict":"ack"}`)} {
		synctest.Test(t, func(t *testing.T) {
			r, got := crowded(t, t.Context(), length, nothing)
			r.leave(&pawl.Delivery{}, maxVerdict)
			if err := <-got; err != nil {
				t.Errorf("there was room: %v", err)
			}
		})
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			r, got := crowded(t, ctx, length, nothing)
			cancel(pawl.ErrDeadline)
			err := <-got
			ours, _ := errors.AsType[interface {
				error
				HandBack() bool
			}](err)
			if ours == nil || !ours.HandBack() {
				t.Errorf("there was none: %v", err)
			}
			if r.free != 0 || len(r.waiting) != 0 {
				t.Errorf("%d are free, %d wait", r.free, len(r.waiting))
			}
		})
	}
}

// TestTheClockGoesOn when there is room, from where it stood.
func TestTheClockGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, got := crowded(t, t.Context(), -1, func(ctx context.Context) io.Reader { return stalled{ctx} })
		began := time.Now()
		r.leave(&pawl.Delivery{}, maxVerdict)
		err := <-got
		if policy.FactsOf(err) != policy.Timeout || pawl.Describe(err).Kind != policy.KindService ||
			!strings.Contains(err.Error(), "no reply within 1s") {
			t.Errorf("it ends with %v", err)
		}
		if took := time.Since(began); took != time.Second/2 {
			t.Errorf("it took %v more, of half a second that was left", took)
		}
		if r.free != maxVerdict {
			t.Errorf("%d are free again, want all", r.free)
		}
	})
}
