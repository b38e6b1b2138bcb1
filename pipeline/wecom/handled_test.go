package wecom

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// awayMarks fails to write while it is away, and counts calls.
type awayMarks struct {
	store.Shared
	away atomic.Bool
	puts atomic.Int64
}

func (m *awayMarks) PutMarks(ctx context.Context, marks ...pawl.Mark) ([]store.MarkReceipt, error) {
	m.puts.Add(1)
	if m.away.Load() {
		return nil, errors.New("the store is away")
	}
	return m.Shared.PutMarks(ctx, marks...)
}

func TestMessagesAreMarkedInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memory.New(memory.Config{})
		defer st.Close()
		marks := &awayMarks{Shared: st}
		h := newHandled(marks, "kefu.handled", slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		go h.run(ctx)

		marks.away.Store(true)
		for i := range handledWaiting {
			if err := h.add(t.Context(), fmt.Sprint(i)); err != nil {
				t.Fatalf("a message waits for its mark: %v", err)
			}
		}
		if err := h.add(t.Context(), "one more"); err == nil {
			t.Error("more messages are done than may wait for their mark")
		}
		if has, err := h.has(t.Context(), "7"); !has || err != nil {
			t.Errorf("a message that waits for its mark was not handled: %v", err)
		}
		marks.away.Store(false)
		before := marks.puts.Load()
		time.Sleep(2 * time.Second)
		if n := marks.puts.Load() - before; n != 1 {
			t.Errorf("%d marks were written by %d calls", handledWaiting, n)
		}
		cancel()
		synctest.Wait()

		if err := h.add(t.Context(), "last"); err != nil {
			t.Fatal(err)
		}
		h.close()
		again := newHandled(st, "kefu.handled", slog.New(slog.DiscardHandler))
		for _, id := range []string{"7", "last"} {
			if has, err := again.has(t.Context(), id); !has || err != nil {
				t.Errorf("another process asks the handler for message %q again: %v", id, err)
			}
		}
		if has, _ := again.has(t.Context(), "one more"); has {
			t.Error("a message that was not done has a mark")
		}
	})
}
