package mirror_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
	"github.com/pawl-dev/pawl/store/mirror"
)

// hesitant is a primary that takes its time for the first that a process says of its
// copying.
type hesitant struct {
	*memory.Store
	said atomic.Int64
}

func (h *hesitant) PutState(ctx context.Context, key string, value []byte, version int64,
	who string) (store.Entry, error) {
	if strings.HasPrefix(key, "traffic/writer/") && h.said.Add(1) == 1 {
		time.Sleep(time.Second)
	}
	return h.Store.PutState(ctx, key, value, version, who)
}

// TestNewerFiguresStay: what a process said earlier does not replace what it says now,
// however long it takes to be written.
func TestNewerFiguresStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := &hesitant{Store: memory.New(memory.Config{})}
		s, err := mirror.New(old, memory.New(memory.Config{}), mirror.Config{All: true, Name: "producer", Shards: 64})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		plans, err := mirror.OpenPlans(old)
		if err != nil {
			t.Fatal(err)
		}
		appendAll(t, s, mail("ann", 1))
		synctest.Wait() // its queue tells of it, slowly
		post := mail("bob", 1)
		post.Topic = "post"
		appendAll(t, s, post)
		time.Sleep(1100 * time.Millisecond)
		synctest.Wait()
		ws, err := plans.Writers(t.Context())
		if w := ws["producer"]; err != nil || w.Topics["mail"] == nil || w.Topics["post"] == nil {
			t.Errorf("it says %+v, %v", w.Topics, err)
		}
	})
}
