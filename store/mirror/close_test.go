package mirror_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/mirror"
)

// lateWaker is a store whose Listen takes its time, and does not mind that the store is
// closed.
type lateWaker struct {
	*memory.Store
	answer chan struct{}
}

func (w *lateWaker) Listen(context.Context, ...string) (<-chan struct{}, error) {
	<-w.answer
	return make(chan struct{}), nil
}

// TestListenBesideClose: a Listen that is under way when the store is closed starts
// nothing any more.
func TestListenBesideClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := &lateWaker{memory.New(memory.Config{}), make(chan struct{})}
		s, err := mirror.New(primary, memory.New(memory.Config{}), mirror.Config{})
		if err != nil {
			t.Fatal(err)
		}
		wakes, _ := store.As[store.Waker](s)
		heard := make(chan error, 1)
		go func() { _, err := wakes.Listen(t.Context(), "mail"); heard <- err }()
		synctest.Wait() // it is with the primary
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		close(primary.answer)
		if err := <-heard; !errors.Is(err, store.ErrClosed) {
			t.Errorf("got %v, want store.ErrClosed", err)
		}
	})
}

// lastCall is a store that takes one more message while it is closed.
type lastCall struct {
	*memory.Store
	call func()
}

func (s *lastCall) Close() error {
	s.call()
	return s.Store.Close()
}

// TestCloseCountsToTheLast: what the primary takes while it is closed has no copy, and
// Close says so.
func TestCloseCountsToTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary := &lastCall{Store: memory.New(memory.Config{})}
		s, err := mirror.New(primary, memory.New(memory.Config{}), mirror.Config{All: true})
		if err != nil {
			t.Fatal(err)
		}
		primary.call = func() { appendAll(t, s, mail("ann", 1)) }
		if err := s.Close(); !errors.Is(err, store.ErrUnavailable) || s.Stats()["mail"].Missed != 1 {
			t.Errorf("a message has no copy, and Close says %v; stats are %+v", err, s.Stats()["mail"])
		}
	})
}
