package serve

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/internal/operate"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// TestToolsSeeAProgram with the library as they see the daemon: here one with two dispatchers of one owner.
func TestToolsSeeAProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New(memory.Config{})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		held := make(chan struct{})
		for _, topic := range []string{"mail", "ship"} {
			d, err := dispatch.New(s, dispatch.Config{Owner: "shop", Logger: slog.New(slog.DiscardHandler),
				Topics: []dispatch.Topic{{
					Name: topic, Concurrency: 1,
					Handler: pawl.HandlerFunc(func(context.Context, *pawl.Delivery) error { <-held; return nil }),
				}}})
			if err != nil {
				t.Fatal(err)
			}
			go func() { _ = d.Run(ctx) }()
		}
		time.Sleep(time.Minute)
		workers, err := operate.Workers(ctx, s)
		if err != nil || len(workers) != 1 || workers[0].Alive == nil || !*workers[0].Alive {
			t.Fatalf("%+v, %v", workers, err)
		}
		var topics []string
		for _, topic := range workers[0].Topics {
			topics = append(topics, topic.Topic)
		}
		slices.Sort(topics)
		if got := strings.Join(topics, " "); got != "mail ship" || workers[0].Owner != "shop" {
			t.Errorf("%s serves %s", workers[0].Owner, got)
		}
		// While its only slot is taken, a message waits for it, and not for somebody to start a worker.
		if err := store.Send(ctx, s, pawl.Message{Topic: "mail"}, pawl.Message{Topic: "mail"},
			pawl.Message{Topic: "mail", ID: "x"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		x, err := operate.Explain(ctx, s, s, s, "x")
		if err != nil || strings.Contains(x.Why+x.Next.Action, "no worker") ||
			strings.Contains(x.Next.Action, "start a worker") {
			t.Errorf("%+v, %v", x, err)
		}
		close(held)
	})
}
