package app

import (
	"context"
	"errors"
	"testing"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// closer tells that it was closed.
type closer struct {
	*memory.Store
	closed bool
}

func (c *closer) Close() error {
	c.closed = true
	return c.Store.Close()
}

// A mirrored store that is closed while it is being opened does not stay open.
func TestCloseWhileTheMirroredStoreIsOpened(t *testing.T) {
	opens, goOn := make(chan struct{}), make(chan struct{})
	opened := &closer{Store: memory.New(memory.Config{})}
	l := newLazy(OpenConfig{})
	l.open = func(context.Context) (store.Store, error) {
		close(opens)
		<-goOn
		return opened, nil
	}
	got := make(chan error)
	go func() {
		_, err := l.get(t.Context())
		got <- err
	}()
	<-opens
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	close(goOn)
	if err := <-got; !errors.Is(err, store.ErrClosed) {
		t.Errorf("got %v, want store.ErrClosed", err)
	}
	if !opened.closed {
		t.Error("it was opened, and stays open")
	}
}
