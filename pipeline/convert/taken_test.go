package convert

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/pipeline"
	"github.com/pawl-dev/pawl/pipeline/convert/chaos"
	"github.com/pawl-dev/pawl/store"
)

// TestMessagesTakenOutOfARun: a run whose messages are cancelled and skipped ends, and says of which files.
func TestMessagesTakenOutOfARun(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"a.md", "b.md", "c.md", "d.md", "e.md"} {
		r.write(name, name+"\n")
	}
	s := r.store.(interface {
		store.Inspector
		store.DeadLetters
	})
	model, asked := chaos.New(chaos.Config{Seed: 1}), sync.Once{}
	take := func() {
		var waiting []string
		for end := time.Now().Add(10 * time.Second); len(waiting) < 2 && time.Now().Before(end); {
			waiting = nil
			for m, err := range s.List(t.Context(), store.Filter{State: store.Waiting}) {
				if err != nil {
					t.Error(err)
				}
				waiting = append(waiting, m.ID)
			}
		}
		if len(waiting) < 2 {
			t.Errorf("%d messages wait", len(waiting))
			return
		}
		if refused, err := s.Cancel(t.Context(), waiting[0]); err != nil || len(refused) > 0 {
			t.Error(err, refused)
		}
		if refused, err := s.Skip(t.Context(), "by hand", waiting[1]); err != nil || len(refused) > 0 {
			t.Error(err, refused)
		}
	}
	r.models(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPost {
			asked.Do(take)
		}
		model.ServeHTTP(w, q)
	}))
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	sum, err := r.run(ctx, map[string]any{"llm": "local/small", "max-concurrency": int64(2)})
	if code(err) != pipeline.ExitPartly || sum.Completed != 3 || sum.PermanentFailure != 2 || sum.Failed != 0 {
		t.Fatalf("%v %+v", err, sum)
	}
	told := 0
	for _, f := range r.state().Files {
		if f.Status == permanent && strings.Contains(f.LastError, "taken out of the store") {
			told++
		}
	}
	if told != 2 {
		t.Errorf("%+v", r.state().Files)
	}
	sum, err = r.run(t.Context(), map[string]any{"llm": "local/small", "retry-failed": true})
	if err != nil || sum.Completed != 2 || sum.Unchanged != 3 {
		t.Errorf("tried again: %v %+v", err, sum)
	}
	for letter, err := range s.Dead(t.Context(), store.DeadFilter{Kind: pawl.KindSkipped}) {
		t.Errorf("a dead letter is left: %v, %v", letter.ID, err)
	}
}
