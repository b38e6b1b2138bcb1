package events_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/dispatch"
	"github.com/pawl-dev/pawl/observe"
	"github.com/pawl-dev/pawl/observe/events"
	"github.com/pawl-dev/pawl/policy"
	"github.com/pawl-dev/pawl/store"
	"github.com/pawl-dev/pawl/store/memory"
)

// What a handler gave back is a failure that nobody decided about.
func TestEventOfARelease(t *testing.T) {
	m, err := observe.New(observe.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	sink, err := events.New(events.Config{Metrics: m, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	sink.Event(dispatch.Event{
		Event: policy.Event{Domain: policy.Engine, Type: "TaskModel", Phase: policy.Failed}, Topic: "a", Attempt: 1,
		Err: pawl.Release(time.Second, "503"), Released: true,
	})
	if err := sink.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	board := sink.Board.Newest()
	if len(board) != 1 || board[0].Phase != "Failed" || board[0].Err != "released: 503" || len(board[0].Attrs) != 2 ||
		board[0].Attrs["policy.action"] != "release" {
		t.Fatalf("%+v", board)
	}
}

// What a dispatcher does reaches the audit and the board; a type without Retry
// never has one.
func TestEventsOfADispatcher(t *testing.T) {
	m, err := observe.New(observe.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	var audit bytes.Buffer
	quiet := slog.New(slog.DiscardHandler)
	sink, err := events.New(events.Config{Metrics: m, Logger: quiet, Audit: &audit})
	if err != nil {
		t.Fatal(err)
	}
	s := memory.New(memory.Config{})
	if _, err := s.Append(t.Context(), store.NewBatch(pawl.Message{ID: "x", Topic: "a"})); err != nil {
		t.Fatal(err)
	}
	d, err := dispatch.New(s, dispatch.Config{
		Topics: []dispatch.Topic{{
			Name: "a", Event: policy.Event{Domain: policy.Engine, Type: "RequestMiddleware"},
			Handler: pawl.HandlerFunc(func(_ context.Context, d *pawl.Delivery) error {
				if d.Attempt < 3 {
					return pawl.OfKind("Own", errors.New("broken\nwith a stack"))
				}
				return nil
			}),
		}},
		Policy: policy.Func(func(policy.Attempt) policy.Decision {
			return policy.Decision{Action: policy.Retry, Rule: "quick", Alert: policy.Warn}
		}),
		Observer: m, Events: sink, Logger: quiet, UntilEmpty: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"Started", "Failed", "Started", "Failed", "Started", "Completed"}
	board, lines := sink.Board.Newest(), json.NewDecoder(&audit)
	if len(board) != len(want) {
		t.Fatalf("%+v", board)
	}
	for i, phase := range want {
		var e observe.Envelope
		if err := lines.Decode(&e); err != nil {
			t.Fatal(err)
		}
		if e.ID != board[i].ID || e.Seq != uint64(i+1) || e.Phase != phase || e.MessageID != "x" || e.Topic != "a" ||
			e.Type != "RequestMiddleware" {
			t.Errorf("%d: %+v, want %s", i, e, phase)
		}
		if phase == "Failed" && (e.Err != "broken" || e.Kind != "Own" || e.Attrs["policy.action"] != "retry" ||
			e.Attrs["policy.rule"] != "quick") {
			t.Errorf("%+v", e)
		}
	}
}

// Consumers of one's own stand beside the others, and secrets are masked before a text is cut.
func TestTapsAndRedaction(t *testing.T) {
	m, err := observe.New(observe.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	var seen []observe.Envelope
	own := observe.Tap{Name: "own", Consumer: observe.ConsumerFunc(func(e observe.Envelope) error {
		seen = append(seen, e)
		return nil
	})}
	sink, err := events.New(events.Config{
		Metrics: m, Logger: slog.New(slog.DiscardHandler), Taps: []observe.Tap{own},
		Redact: func(text string) string { return strings.ReplaceAll(text, "secret", "***") },
	})
	if err != nil {
		t.Fatal(err)
	}
	sink.Event(dispatch.Event{
		Event: policy.Event{Domain: policy.Engine, Type: "TaskModel", Phase: policy.Failed}, Topic: "a",
		Err: errors.New(strings.Repeat("x", 497) + "secret"),
	})
	if err := sink.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 1 || seen[0].Err != strings.Repeat("x", 497)+"***" {
		t.Fatalf("%+v", seen)
	}
}

func TestSinkIsRefused(t *testing.T) {
	if _, err := events.New(events.Config{}); err == nil {
		t.Error("there are no metrics")
	}
	m, err := observe.New(observe.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	board := observe.Tap{Name: "board", Consumer: m}
	if s, err := events.New(events.Config{Metrics: m, Taps: []observe.Tap{board}}); err == nil || s != nil {
		t.Error("there are two boards", err)
	}
}
