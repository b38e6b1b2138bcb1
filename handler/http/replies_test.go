package http

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
)

func token(n int64) pawl.Token { return pawl.Token{Fence: n} }

// emitting is a delivery that emits so many bytes.
func emitting(n int64, bytes int) *pawl.Delivery {
	d := &pawl.Delivery{Token: token(n), LeaseFor: time.Minute}
	d.Emit(pawl.Message{Body: make([]byte, bytes)})
	return d
}

func TestRepliesWaitForRoomInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReplies(100)
		var mu sync.Mutex
		var order []int64
		begin := func(ctx context.Context, n int64, bytes int) {
			go func() {
				err := r.take(ctx, bytes)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					order = append(order, n)
				}
			}()
			synctest.Wait()
		}
		impatient, cancel := context.WithCancel(t.Context())
		begin(t.Context(), 1, 70)
		begin(impatient, 2, 80)
		begin(t.Context(), 3, 60)
		begin(t.Context(), 4, 10) // has room, but not before the others
		if fmt.Sprint(order) != "[1]" {
			t.Fatalf("got room: %v, want 1 only", order)
		}
		r.leave(emitting(1, 50), 70) // 20 are free again
		synctest.Wait()
		if len(order) != 1 {
			t.Fatalf("got room: %v, and what 1 emits is not stored", order)
		}
		cancel()
		synctest.Wait()
		if len(order) != 1 {
			t.Fatalf("got room: %v, and 3 needs more than there is", order)
		}
		r.Settled(token(9), token(1), token(1))
		synctest.Wait()
		if fmt.Sprint(order) != "[1 3 4]" && fmt.Sprint(order) != "[1 4 3]" {
			t.Fatalf("got room: %v, want 3 and 4, too", order)
		}
		r.leave(emitting(3, 90), 60)
		r.leave(&pawl.Delivery{Token: token(4)}, 10)
		time.Sleep(time.Minute + time.Second) // the lease of 3 is over, and nobody settles it
		synctest.Wait()
		if r.free != 100 || len(r.kept) != 0 || len(r.waiting) != 0 {
			t.Errorf("at the end %d are free, %v is kept, %d wait", r.free, r.kept, len(r.waiting))
		}
	})
}

// TestLargeRepliesShareTheirRoom: a second large verdict is not read before what the
// first one emits is stored.
func TestLargeRepliesShareTheirRoom(t *testing.T) {
	for _, length := range []string{"known", "unknown"} {
		room := newReplies(maxVerdict + 1000)
		body := strings.Repeat("x", smallReply)
		h := hook(t, Config{Replies: room}, func(w http.ResponseWriter, _ *http.Request) {
			text := `{"verdict":"ack","emit":[{"topic":"t","body":"` + body + `"}]}`
			w.Header().Set("Content-Type", ContentVerdict)
			if length == "known" {
				w.Header().Set("Content-Length", fmt.Sprint(len(text)))
			}
			_, _ = io.WriteString(w, text)
		})
		room.free = smallReply + 100 // one has room, if its length is known
		if length == "unknown" {
			room.free = firstRoom
		}
		first, second := delivery(), delivery()
		first.LeaseFor, second.LeaseFor, second.Token = time.Hour, time.Hour, token(7)
		if err := h.Handle(t.Context(), first); err != nil || len(first.Emitted()) != 1 {
			t.Fatalf("%s: %v", length, err)
		}
		done := make(chan error, 1)
		go func() { done <- h.Handle(t.Context(), second) }()
		for waits := 0; waits == 0; time.Sleep(time.Millisecond) {
			select {
			case err := <-done:
				t.Fatalf("%s: the second reply was read beside the first: %v", length, err)
			default:
			}
			room.mu.Lock()
			waits = len(room.waiting)
			room.mu.Unlock()
		}
		room.Settled(first.Token)
		if err := <-done; err != nil || len(second.Emitted()) != 1 {
			t.Errorf("%s: %v", length, err)
		}
		room.Settled(second.Token)
	}
}

func TestAReplyHasABound(t *testing.T) {
	for _, known := range []bool{true, false} {
		h := hook(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", ContentVerdict)
			if known {
				w.Header().Set("Content-Length", fmt.Sprint(maxVerdict+1))
			}
			_, _ = io.WriteString(w, `{"verdict":"ack","reason":"`)
			filling := strings.Repeat("x", 1<<20)
			for range maxVerdict >> 20 {
				if _, err := io.WriteString(w, filling); err != nil {
					return
				}
			}
			_, _ = io.WriteString(w, `"}`)
		})
		if err := h.Handle(t.Context(), delivery()); err == nil || !strings.Contains(err.Error(), "more than 32 MiB") {
			t.Errorf("length known: %v: %v", known, err)
		}
		if h.config.Replies.free != defaultReplies {
			t.Errorf("%d are free again, want all", h.config.Replies.free)
		}
	}
}

func TestAManyTimesEmittedNothing(t *testing.T) {
	h := hook(t, Config{}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", ContentVerdict)
		_, _ = io.WriteString(w, `{"verdict":"ack","emit":[`+strings.Repeat("{},", 50_000)+`{}]}`)
	})
	d := delivery()
	if err := h.Handle(t.Context(), d); err != nil || len(d.Emitted()) != 10_001 {
		t.Errorf("it emits %d, %v; want one too many", len(d.Emitted()), err)
	}
}
