package spill

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// away is a shared store that takes no messages either while it is gone.
type away struct{ *shared }

func (a away) Append(ctx context.Context, batch store.Batch[pawl.Message]) ([]store.Receipt, error) {
	if err := a.unavailable(); err != nil {
		return nil, err
	}
	return a.shared.Append(ctx, batch)
}

// TestFiguresWithoutTheFallbackStore: while both stores are away messages are lost, and
// the figures say so.
func TestFiguresWithoutTheFallbackStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		primary, fallback := newLog(), away{&shared{Store: memory.New(memory.Config{})}}
		s := open(t, primary, fallback, Config{})
		<-s.loaded
		primary.setDown(true)
		fallback.gone.Store(true)
		for n := range 3 {
			if _, err := s.Append(t.Context(), store.NewBatch(msg("", n))); !errors.Is(err, store.ErrUnavailable) {
				t.Fatal(err)
			}
		}
		st, err := s.Stats(t.Context())
		if !errors.Is(err, store.ErrUnavailable) || len(st.Topics) != 1 || st.Topics[0].Lost != 3 ||
			!st.Topics[0].Down || !errors.Is(st.Topics[0].Why, errNoBroker) {
			t.Errorf("%+v, %v", st, err)
		}
		primary.setDown(false)
		fallback.gone.Store(false)
		for n := 3; len(primary.all()) == 0; n++ {
			send(t, s, msg("", n))
			time.Sleep(time.Second)
		}
		if _, now := stats(t, s); now.Lost != 3 || now.Down {
			t.Errorf("%+v", now)
		}
	})
}
